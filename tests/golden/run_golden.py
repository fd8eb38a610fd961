"""What `trail` prints, word for word: help, errors and JSON, kept as files.

A case is a file in cases/: commands after `$ `, each followed by what it must do:

    $ trail run --wrong
    exit 2
    err| error: `trail run` has no option `--wrong`

Every case runs in a folder of its own with a state folder of its own; their paths are printed as <FOLDER> and <HOME>.
Lines with `...` alone match any lines; `<TIME>`, `<ID>` and `<NUMBER>` in the file match what their names say.

    run_golden.py TRAIL            compare
    run_golden.py TRAIL --update   write what is printed now (look at the difference before keeping it)
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).resolve().parent / "cases"
PATTERNS = {
    "<TIME>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
    "<ID>": r"(sha256:)?[0-9a-f]{12,64}",
    "<NUMBER>": r"[0-9.]+",
    "<VERSION>": r"\d+\.\d+\.\d+",
}


def commands_of(text):
    """[(command line, [expected lines])]; lines before the first command are remarks."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and line.strip():
            found[-1][1].append(line)
    return found


def execute(command, trail, folder, home):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("STARTRAIL_", "TRAIL_", "PYTHON"))}
    environment.update(STARTRAIL_HOME=str(home), STARTRAIL_SYSTEM_STORE="none", NO_COLOR="1", PATH=f"{trail.parent}:{os.environ['PATH']}", LC_ALL="C.UTF-8", STARTRAIL_SSH_CONFIG=f"{home}/ssh_config_of_user")
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    lines = [f"exit {done.returncode}"]
    for name, stream in (("out", done.stdout), ("err", done.stderr)):
        text = stream.decode(errors="replace").replace(str(home), "<HOME>").replace(str(folder), "<FOLDER>")
        lines += [f"{name}| {line}".rstrip() for line in text.splitlines()]
    return lines


def matches(expected, got):
    """`...` after a prefix (`out| ...`) stands for any number of lines of that stream."""
    if not expected:
        return not got
    if expected[0].endswith("| ..."):
        return matches(expected[1:], got) or bool(got) and got[0].startswith(expected[0][:4]) and matches(expected, got[1:])
    if not got:
        return False
    pattern = re.escape(expected[0])
    for name, regex in PATTERNS.items():
        pattern = pattern.replace(re.escape(name), regex)
    return re.fullmatch(pattern, got[0]) is not None and matches(expected[1:], got[1:])


def prepare(folder):
    (folder / "file").write_text("not a folder\n")
    (folder / "empty").mkdir()
    (folder / "data").mkdir()
    (folder / "bad").mkdir()
    (folder / "bad/requirements.txt").write_text("six\n\ntorch~=1.12.1+cu113\n")


def run_case(path, trail, update):
    text = path.read_text()
    failures = []
    remark = text[: text.find("$ ")] if not text.startswith("$ ") else ""
    written = [remark.rstrip() + "\n"] if remark.strip() else []
    with tempfile.TemporaryDirectory(prefix="trail-golden.") as scratch:
        folder, home = Path(scratch) / "folder", Path(scratch) / "home"
        folder.mkdir()
        prepare(folder)
        for command, expected in commands_of(text):
            got = execute(command, trail, folder, home)
            if not matches(expected, got):
                failures.append(f"{path.name}: $ {command}\n  expected\n    " + "\n    ".join(expected) + "\n  got\n    " + "\n    ".join(got))
            kept = expected if matches(expected, got) else got
            written.append(f"$ {command}\n" + "\n".join(kept) + "\n")
    if update:
        path.write_text("\n".join(written))
        return []
    return failures


def main():
    trail = Path(sys.argv[1]).resolve()
    update = "--update" in sys.argv
    failures = []
    cases = sorted(CASES.glob("*.txt"))
    for path in cases:
        failures += run_case(path, trail, update)
    for failure in failures:
        print(failure)
    print(f"{len(cases)} files, {len(failures)} differences")
    sys.exit(1 if failures or not cases else 0)


if __name__ == "__main__":
    main()
