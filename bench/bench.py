#!/usr/bin/env python3
"""Measures trail beside its peers in one run, alternating, and prints medians and ratios as Markdown tables.

    ./dev bench                 # the quick rows: starting a run, listing, help, the supervisor
    ./dev bench --images        # also lock → image → first step beside uv (downloads gigabytes, several times)
    ./dev bench --row catalog_disk  # every image of the catalog in one store: many gigabytes, once
    ./dev bench --row pull      # one row of those, or of an image's way to and from a registry (pull, push)

The peers: podman and bare runc on the same base system; uv with the same lock and an empty cache; podman, skopeo and
buildah with the same registry.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import building
import exchange
import starting
import store
import verifying
from measuring import clean_environment


class Bench:
    def __init__(self, trail, home, rounds, python):
        self.trail, self.home, self.rounds, self.python = Path(trail).resolve(), Path(home).resolve(), rounds, python
        self.home.mkdir(parents=True, exist_ok=True)
        self.environment = clean_environment(STARTRAIL_HOME=str(self.home), STARTRAIL_SYSTEM_STORE="none")
        self.project = Path(tempfile.mkdtemp(prefix="trail-bench."))
        (self.project / "requirements.txt").write_text("six\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trail", required=True)
    parser.add_argument("--home", default=os.environ.get("STARTRAIL_BENCH_HOME", "build/bench-home"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--images", action="store_true", help="all of the rows about building")
    parser.add_argument("--row", action="append", choices=[*building.ROWS, *exchange.ROWS, *verifying.ROWS, *store.ROWS], default=[], help="only this row about building or exchange")
    parser.add_argument("--requirement", default="torch==2.6.0")
    parser.add_argument("--combination", action="append", default=[], help="for --row catalog_disk: this one (pytorch:2.6, or a requirement) instead of all")
    parser.add_argument("--image-rounds", type=int, default=5)
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python that uv's environments use")
    arguments = parser.parse_args()
    bench = Bench(arguments.trail, arguments.home, arguments.rounds, arguments.python)
    try:
        print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}, rounds: {arguments.rounds}, of builds: {arguments.image_rounds}")
        if not arguments.row:
            starting.warm_start(bench)
            starting.small_commands(bench)
            starting.supervisor(bench)
        rows = arguments.row or ([*building.ROWS, *exchange.ROWS, *verifying.ROWS] if arguments.images else [])
        for module in (building, exchange, verifying):
            if chosen := [row for row in rows if row in module.ROWS]:
                module.measure(bench, arguments.requirement, arguments.image_rounds, chosen)
        if chosen := [row for row in rows if row in store.ROWS]:
            store.measure(bench, arguments.combination, chosen)
    finally:
        shutil.rmtree(bench.project, ignore_errors=True)


if __name__ == "__main__":
    main()
