"""Two functions that numba compiles: the first one calls the other. Runs for the seconds of its argument, or for ever."""

import sys
import time

import numba
import truth


@numba.njit
def inner(count):
    value = 1
    for step in range(count):
        value = (value * 1103515245 + step) % 2147483647
    return value


@numba.njit
def outer(count):
    total = 0
    for step in range(count):
        total += inner(1000 + step % 2)
    return total


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        outer(1000)


outer(1)
truth.ready()
main()
