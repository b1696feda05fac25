"""Asks for memory and gives it back, and does little else: objects of 0.6 to 100 KB, small ones, and
lists that grow.

Arguments: SECONDS
"""

import random
import time

from work_units import counts, seconds

RANDOM = random.Random(7)
# As many between 0.6 and 6 KB as between 10 and 100 KB.
SIZES = [int(600 * (100000.0 / 600) ** RANDOM.random()) for _ in range(60)]


def blocks():
    return [bytes(size) for size in SIZES]


def small_objects():
    return [{"nth": nth, "name": "name %d" % nth} for nth in range(100)]


def lists():
    grown = []
    for nth in range(1000):
        grown.append(nth)
    return [grown[:length] for length in range(100, 1000, 50)]


def main():
    end = time.time() + seconds()
    while time.time() < end:
        blocks()
        small_objects()
        lists()
        counts[0] += 1


main()
