#!/usr/bin/env python3
"""Checks what a compiler can't: module levels, fenced libraries, file sizes, formatting, clang-tidy with --all.

Prints one line per finding, `file:line: what`, and exits 1 when there is any.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The table of docs/reference/modules.md. A module may include lower levels only.
LEVELS = {
    "base": 0,
    "db": 1, "project": 1, "machine": 1,
    "init": 1,  # runs inside the container; its header is the protocol that sandbox speaks with it
    "catalog": 2, "sandbox": 2, "volume": 2,
    "lock": 3, "diagnose": 3,
    "image": 4, "run": 4,
    "meter": 5, "instance": 5,
    "supervise": 6,
    "engine/local": 7, "engine/slurm": 7, "engine/kubernetes": 7,
    "app": 8,
    "server": 9, "cli": 9,
}
# Library header → the modules that may include it.
FENCED = {
    "sqlite3.h": {"db"},
    "curl/": {"base"},
    "yaml-cpp/": {"base"},
    "toml++/": {"base"},
    "openssl/": {"base", "image"},
    "archive.h": {"base", "image", "run", "lock"},  # base only loads it on demand
    "archive_entry.h": {"base", "image", "run", "lock"},
    "pcre2.h": {"diagnose"},
    "zstd.h": {"run", "image"},
    "isa-l": {"image"},
    "isa-l.h": {"image"},
    "libdeflate.h": {"image"},
    "seccomp.h": {"sandbox", "init"},
    "CLI/": {"cli"},
}
LONGEST_FILE = 800
# In pieces, so that this file passes its own check.
REGISTRY_HOSTS = re.compile("|".join(
    name.replace("_", r"\.") for name in
    ["pypi_" + "org", "python" + "hosted_org", "npm" + "js_(org|com)", "crates" + "_io", "proxy_" + "golang_org",
     "maven" + "_org", "deb_" + "debian_org", "security_" + "debian_org", "archive_" + "ubuntu_com"]))


def module_of(path):
    parts = path.relative_to(ROOT / "src").parts
    return "/".join(parts[:2]) if parts[0] == "engine" else parts[0]


def included_module(header):
    parts = header.split("/")
    return "/".join(parts[:2]) if parts[0] == "engine" else parts[0]


def check_includes(path, lines):
    module = module_of(path)
    for number, line in enumerate(lines, 1):
        own = re.match(r'#include "([^"]+)"', line)
        if own and "/" in own[1]:
            other = included_module(own[1])
            if other != module and LEVELS.get(other, 99) >= LEVELS.get(module, -1):
                yield number, f"{module} (level {LEVELS.get(module)}) may not include {other} (level {LEVELS.get(other)})"
        library = re.match(r"#include <([^>]+)>", line)
        if library:
            for header, owners in FENCED.items():
                if library[1].startswith(header) and module not in owners:
                    yield number, f"<{library[1]}> belongs to {', '.join(sorted(owners))}, not {module}"


def check_file(path):
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(lines, 1):
        if REGISTRY_HOSTS.search(line):
            yield number, "names a package registry's host"
    is_source = path.suffix in {".cpp", ".hpp", ".c", ".h"}
    if is_source and len(lines) > LONGEST_FILE:
        yield LONGEST_FILE, f"{len(lines)} lines; over {LONGEST_FILE} a file holds more than one thing"
    if is_source and (ROOT / "src") in path.parents:
        yield from check_includes(path, lines)


def tracked_files():
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True)
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def check_readmes():
    for module in sorted({module_of(path) for path in (ROOT / "src").rglob("*.hpp")}):
        if (ROOT / "src" / module).is_dir() and not (ROOT / "src" / module / "README.md").is_file():
            yield ROOT / "src" / module, 0, "has no README.md"


def check_format(files):
    program = shutil.which("clang-format-19")
    if not program:
        print("note: clang-format-19 is not installed; formatting is not checked (`./dev lint` installs it)")
        return
    sources = [str(path) for path in files if path.suffix in {".cpp", ".hpp"}]
    result = subprocess.run([program, "--dry-run", "--Werror", *sources], capture_output=True, text=True, check=False)
    seen = set()
    for match in re.finditer(r"^(.+?):(\d+):\d+: error: ", result.stderr, re.M):
        if match[1] not in seen:
            seen.add(match[1])
            yield Path(match[1]), int(match[2]), "is not formatted (clang-format-19 -i)"


def run_clang_tidy(files, jobs):
    sources = [str(path) for path in files if path.suffix == ".cpp" and (ROOT / "src") in path.parents and "init" not in path.parts]
    runner = shutil.which("run-clang-tidy-19")
    command = [runner, "-quiet", "-p", "build/dev", "-j", str(jobs), *sources]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="clang-tidy as well (minutes)")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    arguments = parser.parse_args()

    files = tracked_files()
    findings = [(path, number, text) for path in files for number, text in check_file(path)]
    findings += check_readmes()
    findings += check_format(files)
    for path, number, text in findings:
        print(f"{path.relative_to(ROOT)}:{number}: {text}")
    tidy = run_clang_tidy(files, arguments.jobs) if arguments.all else 0
    print(f"lint: {len(files)} files, {len(findings)} findings" + ("" if not arguments.all else f", clang-tidy exit {tidy}"))
    return 1 if findings or tidy else 0


if __name__ == "__main__":
    sys.exit(main())
