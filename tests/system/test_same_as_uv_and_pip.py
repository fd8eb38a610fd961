"""An environment that trail makes holds what uv and pip would have installed from the same wheels."""

import collections
import json
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from installed_tree import SITE, InstalledTree
from local_wheel import write_wheel
from trail_case import SOURCE, TrailCase, main

CHOSEN = [line for line in (SOURCE / "tests/system/compared_packages.txt").read_text().splitlines() if not line.startswith("#")]
PYTHON = shutil.which("python3.11")

# Files that only one installer writes, with the reason why the others need not.
REQUESTED = "uv and pip were given names by a user; trail installs a lock, which doesn't tell who asked for what"
OWN_FILES = {
    "pip": {"REQUESTED": REQUESTED},
    "uv": {
        "REQUESTED": REQUESTED,
        "uv_cache.json": "uv's note on whether a local wheel has changed since; trail's lock holds its hash",
        ".lock": "of an environment that several uv may change; an image never changes",
    },
}
# Files of .dist-info with a content of their own.
OWN_CONTENT = {
    "INSTALLER": "the name of the installer",
    "RECORD": "compared line by line instead",
    "direct_url.json": "holds the path of the wheel, which differs inside of an image; compared field by field instead",
}


def metadata_name(path):
    """Of a file of a package's own metadata (some packages carry others, inside of them), or beside all packages."""
    inside = re.fullmatch(rf"(?:{SITE}/[^/]+\.dist-info/)?([^/]+)", path)
    return inside and inside[1]


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


class SameAsUvAndPip(TrailCase):
    def setUp(self):
        super().setUp()
        if not PYTHON:
            self.skipTest("uv and pip need a python3.11 here, as the base has one")

    # --- the three installations

    def by_trail(self, requirements, wheels=None):
        folder = self.project(requirements__txt="\n".join(requirements) + "\n", trail__toml='[environment]\npython = "3.11"\n')
        if wheels:
            shutil.copytree(wheels, folder / "wheels")
        self.trail("lock", ".", cwd=folder, check=0)
        image = self.trail("image", "build", "--lock", "pylock.trail.toml", cwd=folder, check=0).out.strip()
        facts = self.trail("image", "inspect", image, "--json", check=0).json
        self.assertEqual(facts["collisions"], [])
        links = {"bin/python", "bin/python3", "bin/python3.11", "lib64"}
        tree = InstalledTree(Path(facts["layers"][0]) / "opt/env", "/opt/env", links | {"pyvenv.cfg"})
        return tree, facts["packages"]

    def command_output(self, *arguments):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "UV_", "STARTRAIL_"))}
        done = subprocess.run([str(argument) for argument in arguments], env=kept, capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, f"{arguments[:4]}\n{done.stdout}{done.stderr}")
        return done.stdout

    def pip(self, *arguments):
        tools = self.folder / "tools"
        if not tools.exists():
            self.command_output(PYTHON, "-m", "venv", tools)
        return self.command_output(tools / "bin/python", "-m", "pip", "--disable-pip-version-check", *arguments)

    def downloaded(self, packages):
        """The very wheels of the image, in a folder."""
        folder = self.folder / "downloads"
        listed = self.folder / "hashed.txt"
        listed.write_text("".join(f"{package['name']}=={package['version']} --hash=sha256:{package['sha256']}\n" for package in packages))
        self.pip("download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.11", "--dest", folder, "-r", listed,
                 "--platform=manylinux_2_36_x86_64", *(f"--platform=manylinux_2_{minor}_x86_64" for minor in range(35, 4, -1)),
                 "--platform=manylinux2014_x86_64", "--platform=manylinux2010_x86_64", "--platform=manylinux1_x86_64", "--platform=linux_x86_64")
        self.assertEqual(len(list(folder.iterdir())), len(packages))
        return folder

    def by_pip(self, *what):
        root = self.folder / "pip"
        self.command_output(PYTHON, "-m", "venv", "--without-pip", root)
        before = InstalledTree(root, str(root)).paths()
        self.pip("--python", root / "bin/python", "install", "--quiet", "--no-deps", "--no-compile", "--no-index", *what)
        return InstalledTree(root, str(root), before)

    def by_uv(self, *what):
        uv = next((self.home / "tools").glob("uv-*/uv"))
        root = self.folder / "uv"
        self.command_output(uv, "venv", "--quiet", "--no-config", "--python", PYTHON, root)
        before = InstalledTree(root, str(root)).paths()
        self.command_output(uv, "pip", "install", "--quiet", "--no-config", "--python", root / "bin/python", "--no-deps", "--no-index",
                            "--cache-dir", self.folder / "uv-cache", *what)
        return InstalledTree(root, str(root), before)

    # --- the comparison

    def compare(self, ours, theirs, peer):
        """Asserts that every difference is one of those explained at the top, or in the comments here."""
        self.assertEqual(ours.links, theirs.links)
        self.assertEqual(set(ours.files), {path for path in theirs.files if metadata_name(path) not in OWN_FILES[peer]})
        # An archive may name a folder that nothing lies in: uv makes it; for pip and trail, a package is its files.
        self.assertEqual(ours.folders, theirs.filled_folders() if peer == "uv" else theirs.folders)

        shared = sorted(set(ours.files) & set(theirs.files))
        modes = [path for path in shared if ours.files[path].executable != theirs.files[path].executable]
        # A script whose archive doesn't say that it's executable: pip leaves it like that, so that it can't be started;
        # uv and trail follow the format's ".data directory", by which an installer adds the bit.
        # uv writes RECORD over the archive's own, whose mode stays: protobuf's is an executable file.
        explained = self.is_script if peer == "pip" else lambda tree, path: metadata_name(path) == "RECORD"
        self.assertEqual([path for path in modes if not explained(ours, path)], [])

        commands = ours.commands()
        self.assertEqual(commands, theirs.commands())
        differing = [path for path in shared if ours.content(path) != theirs.content(path)]
        self.assertEqual([path for path in differing if path not in commands and metadata_name(path) not in OWN_CONTENT], [])
        self.compare_records(ours, theirs, peer, set(differing) | set(commands))

    @staticmethod
    def is_script(tree, path):
        return path.startswith("bin/") and path not in tree.commands() and tree.files[path].executable

    def compare_records(self, ours, theirs, peer, differing):
        own, other = ours.records(), theirs.records()
        self.assertEqual(own.keys(), other.keys())
        for record, lines in own.items():
            their_lines = {path: value for path, value in other[record].items() if metadata_name(path) not in OWN_FILES[peer]}
            self.assertEqual(lines.keys(), their_lines.keys(), record)
            for path, line in lines.items():
                # Scripts hold the path of their interpreter, so their hashes differ where their meaning doesn't.
                if path not in differing and not path.startswith("bin/"):
                    self.assertEqual(line, their_lines[path], f"{path} in {record}")

    def check_records_tell_the_truth(self, tree):
        """Every file belongs to one package, whose RECORD has its hash and size."""
        owners = collections.Counter()
        for record, lines in tree.records().items():
            for path, (kind, size) in lines.items():
                owners[path] += 1
                self.assertIn(path, tree.files, record)
                expected = ("", "") if path == record else (tree.files[path].record_hash(), str(len(tree.files[path].content)))
                self.assertEqual((kind, size), expected, f"{path} in {record}")
        self.assertEqual({path: 1 for path in tree.files}, dict(owners))

    # --- what is shown

    def test_public_packages_are_installed_as_uv_and_pip_do_it(self):
        ours, packages = self.by_trail(CHOSEN)
        self.assertEqual(sorted(f"{normalised(package['name'])}=={package['version']}" for package in packages), sorted(CHOSEN))
        wheels = self.downloaded(packages)
        self.check_records_tell_the_truth(ours)
        self.assertEqual({ours.files[record.replace("RECORD", "INSTALLER")].content for record in ours.records()}, {b"trail\n"})
        for peer, install in (("uv", self.by_uv), ("pip", self.by_pip)):
            with self.subTest(peer=peer):
                self.compare(ours, install("--find-links", wheels, *CHOSEN), peer)

    def test_a_wheel_by_its_path_with_unusual_names_is_installed_as_uv_and_pip_do_it(self):
        wheels = self.folder / "wheels"
        wheel = write_wheel(wheels)
        ours, _ = self.by_trail([f"./wheels/{wheel.name}"], wheels)
        self.check_records_tell_the_truth(ours)
        for peer, install in (("uv", self.by_uv), ("pip", self.by_pip)):
            with self.subTest(peer=peer):
                theirs = install(wheel)
                self.compare(ours, theirs, peer)
                self.compare_origin(ours, theirs)

    def compare_origin(self, ours, theirs):
        path = next(path for path in ours.files if path.endswith("direct_url.json"))
        own, other = json.loads(ours.files[path].content), json.loads(theirs.files[path].content)
        self.assertRegex(own["url"], r"^file:///workspace/wheels/unusual-1\.0-")
        self.assertRegex(other["url"], r"^file://.*/wheels/unusual-1\.0-")
        # pip adds the hash in two spellings, uv none: the specification makes it optional and names "hashes".
        self.assertRegex(own["archive_info"]["hashes"]["sha256"], "^[0-9a-f]{64}$")
        if other["archive_info"]:
            self.assertEqual(own["archive_info"]["hashes"], other["archive_info"]["hashes"])
        self.assertEqual(own.keys(), other.keys())


if __name__ == "__main__":
    main()
