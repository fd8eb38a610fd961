"""How a level's script answers: one line of JSON, the last of its output."""

import json
import sys
import time

BEGAN = time.monotonic()
PATIENCE = 150  # seconds that processes have to meet and be done


def twice(attempt, again):
    """Troubles of the second attempt when the first one had any, which `again` then holds: a warning, not a failure."""
    troubles = attempt()
    if not troubles:
        return []
    repeated = attempt()
    if not repeated:
        again += [f"{text} (right at the second try)" for text in troubles]
    return repeated


def answer(passed, summary, **figures):
    print("\n" + json.dumps({"passed": bool(passed), "summary": summary, "figures": figures}), flush=True)
    sys.exit(0 if passed else 1)


def not_tried(why):
    print("\n" + json.dumps({"passed": None, "summary": why, "figures": {}}), flush=True)
    sys.exit(0)


def seconds():
    return time.monotonic() - BEGAN
