#!/usr/bin/env python3
"""Writes catalog/verified.toml from the verifications that a state folder keeps: what the program is shipped with.

    tools/verified_combinations.py > catalog/verified.toml        (STARTRAIL_HOME says which state folder)

Of several for the same combination and build the newest is taken; one whose image, and with it the attestation, is gone is left out."""

import json
import os
import sys
import tomllib
from pathlib import Path

FIELDS = ("framework", "series", "tag", "release", "python", "level", "hardware", "date", "image", "build", "result", "lock")
HEAD = """\
# Which combinations were verified: written by tools/verified_combinations.py from stored verifications, never by hand.
# Each holds for the packages of its `lock` (SHA-256) on its `hardware`: "cpu" says nothing about a GPU, and the build
# "cpu" nothing about the GPU libraries that the combination names. docs/reference/images.md has the levels."""


def claims(store):
    """One table for each verification, oldest first; what an earlier version didn't write there is in the attestation."""
    for file in sorted(store.glob("verified/*.toml"), key=lambda one: one.stat().st_mtime):
        attestation = store / "images" / file.stem / "verification.json"
        if not attestation.exists():
            print(f"the image {file.stem} is gone: left out", file=sys.stderr)
            continue
        predicate = json.loads(attestation.read_text())["predicate"]
        told = predicate["startrail"]
        for table in tomllib.loads(file.read_text())["verified"]:
            yield {**table, "build": "gpu" if told["cuda"] else "cpu", "result": predicate["result"].lower(),
                   "lock": told["lock_digest"]}


def main():
    newest = {}
    for table in claims(Path(os.environ["STARTRAIL_HOME"]) / "store"):
        newest[table["framework"], table["series"], table["tag"], table["build"]] = table
    print(HEAD)
    for key in sorted(newest, key=lambda one: (one[0], [int(part) for part in one[1].split(".")], one[2:])):
        print("\n[[verified]]")
        for field in FIELDS:
            print(f'{field} = "{newest[key][field]}"')


if __name__ == "__main__":
    main()
