"""Timing contestants in turn, sampling the memory of process trees, and printing both."""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Measured:
    seconds: float
    anonymous: int  # bytes: the highest sum of RssAnon over the process and its descendants
    out: str
    err: str


def clean_environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "STARTRAIL_", "TRAIL_"))}
    return {**kept, "NO_COLOR": "1", **more}


def parents():
    """{pid: parent} of all processes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    return found


def tree_of(root):
    parent_of = parents()
    members = {root}
    while True:
        more = {pid for pid, parent in parent_of.items() if parent in members} - members
        if not more:
            return members
        members |= more


def anonymous_memory(pid):
    """RssAnon in bytes; 0 for a process that is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def run(command, environment, cwd=None, watch_memory=False):
    """Runs to the end, which must be a success. watch_memory costs a little CPU: two samples a second."""
    began = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    highest, ended = 0, threading.Event()

    def sample():
        nonlocal highest
        while not ended.wait(0.5):
            highest = max(highest, sum(map(anonymous_memory, tree_of(process.pid))))

    watcher = threading.Thread(target=sample) if watch_memory else None
    if watcher:
        watcher.start()
    out, err = process.communicate()
    took = time.perf_counter() - began
    ended.set()
    if watcher:
        watcher.join()
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} failed with {process.returncode}:\n{err.decode()}")
    return Measured(took, highest, out.decode(errors="replace"), err.decode(errors="replace"))


def timed(command, environment, cwd=None):
    return run(command, environment, cwd).seconds


def alternate(contestants, rounds, warm_up=1, pause=0.0):
    """{name: [seconds]}: every contestant once per round, in turn, after the rounds that warm up.

    `pause` seconds lie between two of them, so that what one still does behind its end (unmounting, syncing) is not
    measured with the next one.
    """
    times = {name: [] for name in contestants}
    for number in range(rounds + warm_up):
        # Who goes first changes, so that neither always finds what the other left in the caches.
        order = list(contestants.items())
        for name, contestant in order if number % 2 == 0 else reversed(order):
            time.sleep(pause)
            took = contestant()
            if number >= warm_up:
                times[name].append(took)
    return times


def milliseconds(values):
    return f"{statistics.median(values) * 1000:.1f} ms ({min(values) * 1000:.1f} – {max(values) * 1000:.1f})"


def seconds(values):
    return f"{statistics.median(values):.2f} s ({min(values):.2f} – {max(values):.2f})"


def ratio(ours, theirs):
    """Medians' ratio, and the lowest and highest of the pairs."""
    pairs = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ours) / statistics.median(theirs):.2f} (pairs {min(pairs):.2f} – {max(pairs):.2f})"


def print_comparison(title, times, show, ours):
    print(f"\n| {title} | median (min – max) | {ours} / it |\n|---|---|---|")
    for name, values in times.items():
        print(f"| {name} | {show(values)} | {'' if name == ours else ratio(times[ours], values)} |")
    sys.stdout.flush()


def end_background_work(home):
    """Ends what trail still does at idle priority for this state folder: the next contestant has the machine alone."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words, environment = (entry / "cmdline").read_bytes().split(b"\0"), (entry / "environ").read_bytes().split(b"\0")
            if words[1:2] == [b"bytecode"] and f"STARTRAIL_HOME={home}".encode() in environment:
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


def disk_usage(folder):
    """Bytes that the files under `folder` occupy, hard links counted once."""
    seen, total = set(), 0
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            status = os.lstat(os.path.join(place, name))
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total += status.st_blocks * 512
    return total
