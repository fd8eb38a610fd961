#!/usr/bin/env python3
"""Writes docs/reference/images.md from the verifications that images of a state folder keep.

    tools/images_reference.py TRAIL > docs/reference/images.md        (STARTRAIL_HOME says which state folder)
"""

import json
import subprocess
import sys

LEVELS = ("files", "linkage", "imports", "selftest", "training", "collectives", "speed")
HEAD = """# Images that were verified

Written by `tools/images_reference.py` from the attestations that `trail image verify` keeps with images; not by hand. Levels:
*files*, every file against its hash; *linkage*, every library that is needed is there, and has the versions asked for (warned: plug-ins
that nothing imports); *imports*, every package; *selftest*, gradients against differences by the framework's own means; *training*, a small
CNN on drawn digits to 97 % and a small transformer on text to half a nat below the entropy of single characters; *collectives*, sums over 2 and
4 processes (gloo or TensorFlow's ring; NCCL only where GPUs are); *speed*, a figure to compare with later. Hardware `cpu` means: **unchecked on a GPU**; no
CUDA: the CPU build, without the GPU libraries.
"""


def trail(program, *words):
    return json.loads(subprocess.run([program, *words, "--json"], check=True, capture_output=True, text=True).stdout)


def mark(level):
    sign = {"passed": "yes", "warned": "warned", "failed": "**no**", "not tried": "not tried"}[level["outcome"]]
    return f"{sign}, {level['seconds']:.0f} s"


def main():
    program = sys.argv[1]
    rows, figures = [], []
    for image in trail(program, "image", "list")["images"]:
        details = trail(program, "image", "inspect", image["id"])
        if not details["verification"]:
            continue
        predicate = details["verification"]["predicate"]
        told = predicate["startrail"]
        levels = {level["level"]: level for level in told["levels"]}
        name = f"{told['framework']} {told['framework_version']}"
        where = ", ".join(gpu["name"] for gpu in told["machine"]["gpus"]) or "cpu"
        rows.append((name, f"| {name} | {told['cuda'] or '-'} | {told['python']} on {told['suite']} | {where} | "
                     + " | ".join(mark(levels[level]) if level in levels else "-" for level in LEVELS) + f" | {predicate['result']}, {told['verified'][:10]} |"))
        figures.append((name, f"- **{name}**: {levels['training']['summary']}; {levels['collectives']['summary']}; {levels['speed']['summary']}."))
    print(HEAD)
    print("| image | CUDA | Python | hardware | " + " | ".join(LEVELS) + " | result |")
    print("|---|---|---|---|" + "---|" * len(LEVELS) + "---|")
    for _, row in sorted(rows):
        print(row)
    print("\n" + "\n".join(line for _, line in sorted(figures)))


if __name__ == "__main__":
    main()
