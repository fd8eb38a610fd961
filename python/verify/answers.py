"""How a level's script answers: one line of JSON, the last of its output."""

import json
import sys
import time

BEGAN = time.monotonic()


def answer(passed, summary, **figures):
    print("\n" + json.dumps({"passed": bool(passed), "summary": summary, "figures": figures}), flush=True)
    sys.exit(0 if passed else 1)


def answer_training(accuracy, loss, nats, where):
    """Of digits the right share, of text the loss per character; `nats`: the entropy of single characters."""
    needed = nats - 0.5
    answer(accuracy >= 0.97 and loss < needed,
           f"digits {accuracy:.1%} right (97 % needed), a transformer's text loss {loss:.2f} ({needed:.2f} needed), on {where}",
           accuracy=accuracy, text_loss=loss, text_loss_needed=needed)


def not_tried(why):
    print("\n" + json.dumps({"passed": None, "summary": why, "figures": {}}), flush=True)
    sys.exit(0)


def products_per_second(product):
    """How often `product`, which returns once it is computed, runs in a second: of two seconds' worth."""
    began, turns = time.perf_counter(), 0
    while time.perf_counter() - began < 2:
        product()
        turns += 1
    return turns / (time.perf_counter() - began)


def seconds():
    return time.monotonic() - BEGAN
