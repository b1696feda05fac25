"""Raises about 100,000 exceptions per second, each a unit of work, and computes in between.

Arguments: SECONDS
"""

import time

from work_units import counts, seconds


def compute():
    total = 0
    for i in range(90):
        total += i ^ 3
        total &= 0xFFFF
    return total


def find(table, key):
    return table[key]


def handle(table):
    try:
        find(table, "missing")
    except KeyError:
        return compute()


def main():
    end = time.time() + seconds()
    table = {"there": 1}
    while time.time() < end:
        for _ in range(100):
            handle(table)
        counts[0] += 100


main()
