"""Text that every image has: licences and the sources of Python's own library."""

import math
from collections import Counter
from pathlib import Path

SIZE = 400_000


def characters():
    """(codes, alphabet, nats): the text as small numbers, their characters, and the entropy of single characters."""
    files = sorted(Path("/usr/share/common-licenses").glob("*")) + sorted(Path("/usr/lib").glob("python3*/[a-z]*.py"))
    text = ""
    for file in files:
        if file.is_file() and len(text) < SIZE:
            text += file.read_text(errors="replace")[:40_000]
    text = "".join(c if c == "\n" or " " <= c <= "~" else " " for c in text[:SIZE])
    if len(text) < 50_000:
        raise SystemExit(f"the image holds only {len(text)} characters of text")
    counts = Counter(text)
    alphabet = sorted(counts)
    place = {c: index for index, c in enumerate(alphabet)}
    nats = -sum(n / len(text) * math.log(n / len(text)) for n in counts.values())
    return [place[c] for c in text], alphabet, nats
