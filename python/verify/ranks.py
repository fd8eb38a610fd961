"""Processes of one machine that work together: started side by side, waited for, and asked what went wrong."""

import os
import subprocess
import sys

from answers import answer, seconds

PATIENCE = 150  # seconds that processes have to meet and be done
WORLDS = (2, 4)


def meet(script, name, ranks, has_said=lambda out: False):
    """Starts `script rank ARGUMENTS` once for each (arguments, environment) of `ranks`; returns what went wrong, a line each.

    `has_said`: of a process that ends badly, whether its output shows that it had done its work by then.
    """
    processes = [subprocess.Popen([sys.executable, "-B", script, "rank", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, env={**os.environ, **environment}) for arguments, environment in ranks]
    troubles = []
    for rank, process in enumerate(processes):
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out = f"no answer within {PATIENCE} s"
        if process.returncode != 0 and not has_said(out):
            last = (out.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            troubles.append(f"{name} of {len(ranks)}, rank {rank}: {last[:300]}")
    return troubles


def twice(attempt, again):
    """Troubles of the second attempt when the first one had any, which `again` then holds: a warning, not a failure."""
    troubles = attempt()
    if not troubles:
        return []
    repeated = attempt()
    if not repeated:
        again += [f"{text} (right at the second try)" for text in troubles]
    return repeated


def try_collectives(what, attempts):
    """`attempts`: (name, processes, function that returns troubles), one after the other; then the level's answer."""
    tried, troubles, again = [], [], []
    for name, world, attempt in attempts:
        began = seconds()
        troubles += twice(attempt, again)
        tried.append(f"{name} of {world} in {seconds() - began:.1f} s")
    answer(not troubles, f"{what} each: " + ", ".join(tried) if not troubles else "; ".join(troubles), tried=tried, failed=troubles, warned=again)
