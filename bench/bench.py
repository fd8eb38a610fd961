#!/usr/bin/env python3
"""Measures trail beside its peers in one run, alternating, and prints medians and ratios as a Markdown table.

    ./dev bench                 # the quick rows: starting a run, listing, help
    ./dev bench --images        # also empty store → image against `uv pip sync` (downloads gigabytes)

The peers: podman and bare runc on the same base system; uv with the same lock and an empty cache.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PODMAN_IMAGE = "localhost/startrail-bench:1"


def clean_environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "STARTRAIL_", "TRAIL_"))}
    return {**kept, "NO_COLOR": "1", **more}


def timed(command, environment, cwd=None):
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} failed with {done.returncode}:\n{done.stderr.decode()}")
    return took


def alternate(contestants, rounds, before=None):
    """{name: [seconds]}: every contestant once per round, in turn, after one warm-up round."""
    times = {name: [] for name in contestants}
    for round_number in range(rounds + 1):
        for name, run in contestants.items():
            if before:
                before(name)
            took = run()
            if round_number > 0:
                times[name].append(took)
    return times


def milliseconds(values):
    return f"{statistics.median(values) * 1000:.1f} ms ({min(values) * 1000:.1f} – {max(values) * 1000:.1f})"


def seconds(values):
    return f"{statistics.median(values):.1f} s ({min(values):.1f} – {max(values):.1f})"


class Bench:
    def __init__(self, trail, home, rounds):
        self.trail, self.home, self.rounds = Path(trail).resolve(), Path(home), rounds
        self.environment = clean_environment(STARTRAIL_HOME=str(self.home))
        self.project = Path(tempfile.mkdtemp(prefix="trail-bench."))
        (self.project / "requirements.txt").write_text("six\n")

    def base_root(self):
        timed([self.trail, "run", "--", "true"], self.environment, self.project)
        return next((self.home / "store/bases").glob("*/root"))

    def starting_a_run(self):
        base = self.base_root()
        contestants = {
            "trail run": lambda: timed([self.trail, "run", "--", "true"], self.environment, self.project),
            "bare runc run": self.bare_runc(base),
        }
        if shutil.which("podman"):
            contestants["podman run --rm"] = self.podman(base)
        times = alternate(contestants, self.rounds)
        ours = statistics.median(times["trail run"])
        print("\n| warm start of `true` | median (min – max) | trail / it |\n|---|---|---|")
        for name, values in times.items():
            print(f"| {name} | {milliseconds(values)} | {ours / statistics.median(values):.2f} |")
        print("\nphases of one start (`trail run --timings -- true`):\n")
        done = subprocess.run([self.trail, "run", "--timings", "--", "true"], env=self.environment, cwd=self.project, capture_output=True, text=True, check=False)
        print("\n".join("    " + line for line in done.stderr.splitlines()))

    def bare_runc(self, base):
        bundle = self.project / "bundle"
        (bundle / "rootfs").mkdir(parents=True)
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        spec = json.loads((bundle / "config.json").read_text())
        spec["process"].update({"terminal": False, "args": ["true"]})
        spec["process"].pop("rlimits", None)
        spec["root"] = {"path": str(base), "readonly": True}
        spec["linux"]["namespaces"] = [entry for entry in spec["linux"]["namespaces"] if entry["type"] != "network"]
        spec["mounts"] = [mount for mount in spec["mounts"] if mount["destination"] not in ("/sys", "/sys/fs/cgroup")]
        (bundle / "config.json").write_text(json.dumps(spec))
        state = self.project / "runc-state"
        return lambda: timed(["runc", "--root", state, "run", "-b", bundle, "bench"], self.environment)

    def podman(self, base):
        present = subprocess.run(["podman", "image", "exists", PODMAN_IMAGE], check=False).returncode == 0
        if not present:
            archive = subprocess.Popen(["tar", "-C", base, "-cf", "-", "."], stdout=subprocess.PIPE)
            subprocess.run(["podman", "import", "-q", "-", PODMAN_IMAGE], stdin=archive.stdout, check=True, capture_output=True)
            archive.wait()
        # Ulimits are given because podman's defaults need CAP_SYS_RESOURCE, which not every root has; runc for both.
        command = ["podman", "--runtime", shutil.which("runc") or "/usr/sbin/runc", "run", "--rm", "--network", "host",
                   "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", PODMAN_IMAGE, "true"]
        return lambda: timed(command, self.environment)

    def small_commands(self):
        print("\n| command | median (min – max) |\n|---|---|")
        for arguments in (["ps"], ["ps", "--all"], ["--help"], ["--version"], ["run", "--help"]):
            values = alternate({"it": lambda a=arguments: timed([self.trail, *a], self.environment)}, max(self.rounds, 15))["it"]
            print(f"| `trail {' '.join(arguments)}` | {milliseconds(values)} |")

    def images(self, requirement, rounds):
        """The same PEP 751 lock: `trail image build` into an empty store (base present) and `uv pip sync` with an empty cache."""
        folder = self.project / "image"
        folder.mkdir()
        (folder / "requirements.txt").write_text(requirement + "\n")
        timed([self.trail, "lock", "."], self.environment, folder)
        uv = next((self.home / "tools").glob("uv-*/uv"))
        scratch = self.home / "bench"
        base_python = shutil.which("python3.11") or shutil.which("python3")
        lock = folder / "pylock.trail.toml"
        subprocess.run([uv, "venv", "-q", "--python", base_python, scratch / "venv"], check=True, capture_output=True)

        def fresh(name):
            shutil.rmtree(scratch / name, ignore_errors=True)
            (scratch / name).mkdir(parents=True)
            os.sync()

        def ours():
            fresh("trail/store")
            for shared in ("store/bases", "tools"):
                target = scratch / "trail" / shared
                if not target.exists():
                    target.symlink_to(self.home / shared)
            return timed([self.trail, "image", "build", "--lock", lock], {**self.environment, "STARTRAIL_HOME": str(scratch / "trail")}, folder)

        def theirs():
            fresh("uv")
            subprocess.run([uv, "venv", "-q", "--python", base_python, scratch / "uv/venv"], check=True, capture_output=True)
            return timed([uv, "pip", "sync", "-q", "--python", scratch / "uv/venv/bin/python", "--cache-dir", scratch / "uv/cache", "--preview",
                          "--python-version", "3.11", lock], self.environment, folder)

        times = alternate({"trail image build": ours, "uv pip sync": theirs}, rounds)
        ratio = [a / b for a, b in zip(times["trail image build"], times["uv pip sync"], strict=True)]
        print(f"\n| empty store → image, `{requirement}`, base present | median (min – max) |\n|---|---|")
        for name, values in times.items():
            print(f"| {name} | {seconds(values)} |")
        print(f"| ratio, pair by pair | {statistics.median(ratio):.2f} ({min(ratio):.2f} – {max(ratio):.2f}) |")
        shutil.rmtree(scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trail", required=True)
    parser.add_argument("--home", default=os.environ.get("STARTRAIL_BENCH_HOME", "build/bench-home"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--images", action="store_true")
    parser.add_argument("--requirement", default="torch==2.6.0")
    parser.add_argument("--image-rounds", type=int, default=3)
    arguments = parser.parse_args()
    home = Path(arguments.home).resolve()
    home.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.trail, home, arguments.rounds)
    try:
        print(f"{os.cpu_count()} CPUs, {time.strftime('%Y-%m-%d')}, rounds: {arguments.rounds}")
        bench.starting_a_run()
        bench.small_commands()
        if arguments.images:
            bench.images(arguments.requirement, arguments.image_rounds)
    finally:
        shutil.rmtree(bench.project, ignore_errors=True)


if __name__ == "__main__":
    main()
