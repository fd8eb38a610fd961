"""What lies in a virtual environment, in a form in which the work of different installers can be compared."""

import base64
import csv
import hashlib
import os
import re
import stat
from pathlib import Path

SITE = "lib/python3.11/site-packages"
WRAPPER = re.compile(rb"^from (\S+) import (\S+)$.*sys\.exit\(([\w.]+)\(\)\)", re.MULTILINE | re.DOTALL)


class InstalledFile:
    def __init__(self, path):
        self.content = path.read_bytes()
        self.executable = bool(path.stat().st_mode & stat.S_IXUSR)

    def record_hash(self):
        return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(self.content).digest()).decode().rstrip("=")


class InstalledTree:
    """`root` is the environment, `prefix` the place it was made for; `before` holds what lay there without any package."""

    def __init__(self, root, prefix, before=()):
        self.root, self.prefix = root, prefix
        self.files, self.folders, self.links = {}, set(), set()
        for folder, folders, names in os.walk(root):
            for name in folders + names:
                path = os.path.relpath(os.path.join(folder, name), root)
                full = root / path
                if path in before:
                    continue
                if full.is_symlink():
                    self.links.add(path)
                elif full.is_dir():
                    self.folders.add(path)
                else:
                    self.files[path] = InstalledFile(full)
                    self.folders.update(map(str, list(Path(path).parents)[:-1]))

    def paths(self):
        return {*self.files, *self.folders, *self.links}

    def filled_folders(self):
        return {str(parent) for path in self.files for parent in list(Path(path).parents)[:-1]}

    def commands(self):
        """For each generated script: what it imports and calls. How it's worded is each installer's own."""
        found = {}
        for path, file in self.files.items():
            match = WRAPPER.search(file.content) if path.startswith("bin/") and self.is_ours(file) else None
            if match:
                found[path] = tuple(part.decode() for part in match.groups())
        return found

    def is_ours(self, file):
        return file.content.startswith(b"#!" + self.prefix.encode() + b"/bin/python")

    def content(self, path):
        """With the interpreter's path in a first line made equal for all."""
        first, newline, rest = self.files[path].content.partition(b"\n")
        if not path.startswith("bin/") or not self.is_ours(self.files[path]):
            return self.files[path].content
        return re.sub(rb"^#!\S+/bin/python(3(\.11)?)?", b"#!ENVIRONMENT/bin/python", first) + newline + rest

    def records(self):
        """{path of RECORD: {path in the environment: (hash, size)}}"""
        found = {}
        for path, file in self.files.items():
            if re.fullmatch(rf"{SITE}/[^/]+\.dist-info/RECORD", path):  # some packages carry others, RECORD and all
                lines = list(csv.reader(file.content.decode().splitlines()))
                found[path] = {os.path.normpath(os.path.join(SITE, name)): (kind, size) for name, kind, size in lines}
                assert len(found[path]) == len(lines), f"{path} names a file twice"
        return found
