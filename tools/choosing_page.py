"""docs/reference/choosing.md, made from the table of cases that the unit tests run.

    choosing_page.py           write the page
    choosing_page.py --check   exit 1 when it isn't what the table says
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/unit/catalog/choices.txt"
PAGE = ROOT / "docs/reference/choosing.md"
HEADER = """# What is chosen, case by case

For a project's requirements on a machine: the newest release of its framework that the driver and every visible GPU run
and that has wheels for a Python on offer (3.11, 3.13 and 3.9, Debian's own); or a refusal, before anything is downloaded.
`trail catalog choose --explain` tells the same for your folder, and for other machines with `--driver` and `--gpu`.

Every line is a test. This page is made by `tools/choosing_page.py` from `tests/unit/catalog/choices.txt`.
"""
COLUMNS = "| the project asks for | Python | driver | GPUs | chosen | because |\n|---|---|---|---|---|---|\n"


def cell(text):
    return "" if text == "-" else text


def gpus(text):
    if text == "-":
        return ""
    names = []
    for part in text.split("+"):
        mig = part.endswith("m")
        names.append("sm_" + part.rstrip("m").replace(".", "") + (" (MIG)" if mig else ""))
    return ", ".join(names)


def row(line):
    needs, python, driver, gpu, glibc, options, expected, because = line.split(" | ")
    needs = ", ".join(f"`{item}`" for item in needs.split(", ")) if needs != "-" else ""
    if options != "-":
        needs += f" with `{options}`"
    if glibc != "-":
        driver += f", glibc {glibc}"
    if expected.startswith("refused: "):
        expected = "refused: " + expected.removeprefix("refused: ").split(" (")[0]
    return f"| {needs} | {cell(python)} | {cell(driver)} | {gpus(gpu)} | {expected} | {because} |\n"


def page():
    text = HEADER
    for line in TABLE.read_text().splitlines():
        if line.startswith("## "):
            text += f"\n{line}\n\n{COLUMNS}"
        elif line and not line.startswith("#"):
            text += row(line)
    return text


def main():
    if "--check" not in sys.argv:
        PAGE.write_text(page())
        return 0
    if PAGE.exists() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE.relative_to(ROOT)} is not what {TABLE.relative_to(ROOT)} says: run tools/choosing_page.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
