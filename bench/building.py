"""From a lock to an image and on to the first optimizer step, beside uv with the same lock and an empty cache."""

import json
import os
import shutil
import statistics
import subprocess
import time

from measuring import alternate, disk_usage, end_background_work, print_comparison, run, seconds, timed

FIRST_STEP = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters())
loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(10, (32,)))
loss.backward()
optimizer.step()
print("first step done")
"""


class Building:
    """One locked folder, and a scratch place that is emptied before each contestant begins."""

    def __init__(self, bench, requirement):
        self.bench, self.requirement = bench, requirement
        self.folder = bench.project / "building"
        self.folder.mkdir()
        (self.folder / "requirements.txt").write_text(requirement + "\n")
        (self.folder / "step.py").write_text(FIRST_STEP)
        timed([bench.trail, "lock", "."], bench.environment, self.folder)
        timed([bench.trail, "run", "--", "true"], bench.environment, bench.project)  # the base is there afterwards
        self.lock = self.folder / "pylock.trail.toml"
        self.uv = next((bench.home / "tools").glob("uv-*/uv"))
        self.python = bench.python
        self.scratch = bench.home / "bench"
        self.highest_memory = 0

    def fresh(self, name):
        end_background_work(self.scratch / "trail")
        time.sleep(0.5)
        place = self.scratch / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        os.sync()
        return place

    def fresh_home(self, shared):
        home = self.fresh("trail")
        for name in shared:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).symlink_to(self.bench.home / name)
        return home

    def environment(self, home):
        return {**self.bench.environment, "STARTRAIL_HOME": str(home)}

    # ---- contestants ----

    def trail_build(self):
        home = self.fresh_home(("store/bases", "tools"))
        done = run([self.bench.trail, "image", "build", "--lock", self.lock], self.environment(home), self.folder, watch_memory=True)
        self.highest_memory = max(self.highest_memory, done.anonymous)
        return done.seconds

    def trail_first_step(self, shared=("store/bases", "tools")):
        home = self.fresh_home(shared)
        done = run([self.bench.trail, "run", "--timings", "--", "python", "step.py"], self.environment(home), self.folder)
        assert "first step done" in done.out
        self.phases = done.err
        return done.seconds

    def uv_sync(self, place):
        # The settings that uv has by itself; the same lock.
        timed([self.uv, "venv", "-q", "--python", self.python, place / "venv"], self.bench.environment)
        return [self.uv, "pip", "sync", "-q", "--python", place / "venv/bin/python", "--cache-dir", place / "cache", "--preview", self.lock]

    def uv_build(self):
        place = self.fresh("uv")
        return timed(self.uv_sync(place), self.bench.environment, self.folder)

    def uv_first_step(self):
        place = self.fresh("uv")
        command = self.uv_sync(place)
        took = timed(command, self.bench.environment, self.folder)
        return took + timed([place / "venv/bin/python", "step.py"], self.bench.environment, self.folder)

    # ---- tables ----

    def empty_store_to_image(self, rounds):
        times = alternate({"trail image build": self.trail_build, "uv pip sync": self.uv_build}, rounds, warm_up=0)
        print_comparison(f"empty store → image, `{self.requirement}`, base present", times, seconds, "trail image build")
        print(f"\npeak anonymous memory of a build, its children included: {self.highest_memory / 1e6:.0f} MB")

    def empty_store_to_first_step(self, rounds):
        times = alternate({"trail run": self.trail_first_step, "uv venv, sync, python": self.uv_first_step}, rounds, warm_up=0)
        print_comparison("empty store → first optimizer step, base present", times, seconds, "trail run")

    def nothing_to_first_step(self, rounds):
        times = alternate({"trail run, base made beside": lambda: self.trail_first_step(("tools",)),
                           "uv on a prepared Debian": self.uv_first_step}, rounds, warm_up=0)
        print_comparison("nothing at all → first optimizer step", times, seconds, "trail run, base made beside")
        print("\nphases of the last one:\n\n" + "\n".join("    " + line for line in self.phases.splitlines()))

    def warm_first_step(self, rounds):
        home = self.fresh_home(("store/bases", "tools"))
        environment = self.environment(home)
        image = json.loads(run([self.bench.trail, "image", "build", "--json", "--lock", self.lock], environment, self.folder).out)["id"]
        self.wait_for_bytecode(environment, image)
        layers = json.loads(run([self.bench.trail, "image", "inspect", "--json", image], environment).out)["layers"]
        root = self.scratch / "bare"
        for name in ("upper", "work", "root"):
            (root / name).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={':'.join(layers)},upperdir={root}/upper,workdir={root}/work",
                        root / "root"], check=True)
        for name in ("dev", "proc"):
            subprocess.run(["mount", "--bind", f"/{name}", root / "root" / name], check=True)
        try:
            shutil.copy(self.folder / "step.py", root / "root/step.py")
            bare = ["chroot", root / "root", "/opt/env/bin/python", "/step.py"]
            times = alternate({"trail run": lambda: timed([self.bench.trail, "run", "--", "python", "step.py"], environment, self.folder),
                               "the same tree, bare": lambda: timed(bare, self.bench.environment)}, rounds, warm_up=2)
        finally:
            for name in ("dev", "proc", ""):
                subprocess.run(["umount", root / "root" / name], check=True)
        print_comparison("warm → first optimizer step", times, seconds, "trail run")
        self.second_image(home, environment)

    def wait_for_bytecode(self, environment, image):
        while not json.loads(run([self.bench.trail, "image", "inspect", "--json", image], environment).out)["bytecode"]:
            run([self.bench.trail, "bytecode", image], environment)  # returns at once when it is being made already
            time.sleep(1)

    def second_image(self, home, environment, rounds=5):
        """Another image that shares the big wheels: what it takes of the disk and of time."""
        first = disk_usage(home / "store")
        times, grown = [], []
        for number, package in enumerate(("einops", "tqdm", "six", "idna", "click")[:rounds]):
            folder = self.folder / f"second{number}"
            folder.mkdir()
            (folder / "requirements.txt").write_text(f"{self.requirement}\n{package}\n")
            timed([self.bench.trail, "lock", "."], environment, folder)
            before = disk_usage(home / "store")
            times.append(timed([self.bench.trail, "image", "build", "--lock", folder / "pylock.trail.toml"], environment, folder))
            grown.append((disk_usage(home / "store") - before) / first)
        print("\n| a second image that shares the big wheels | |\n|---|---|")
        print(f"| time | {seconds(times)} |\n| more disk | {statistics.median(grown) * 100:.2f} % (at most {max(grown) * 100:.2f} %) |")


def measure(bench, requirement, rounds, rows):
    building = Building(bench, requirement)
    try:
        for row in rows:
            getattr(building, row)(rounds)
    finally:
        shutil.rmtree(building.scratch, ignore_errors=True)


ROWS = [name for name in vars(Building) if "_to_" in name or name == "warm_first_step"]
