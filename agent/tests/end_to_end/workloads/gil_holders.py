"""Threads that hold the GIL in different ways: one sleeps with it, one computes, and one rests without it.

Each time that a line is read, the number of times that the GIL was held asleep since is printed.
"""

import ctypes
import sys
import time

import truth

# Its functions are called with the GIL.
library = ctypes.PyDLL(None)
SECONDS = 0.02
held = [0]


def holds():
    library.usleep(int(SECONDS * 1e6))
    held[0] += 1


def sleeps_with_gil():
    while True:
        holds()
        rests(0.015)


def computes():
    while True:
        for _ in range(1000):
            pass


def rests(seconds):
    time.sleep(seconds)


def rests_often():
    while True:
        rests(0.001)


if __name__ == "__main__":
    truth.start("sleeper", sleeps_with_gil)
    truth.start("computer", computes)
    truth.start("resting", rests_often)
    truth.ready()
    for _ in iter(sys.stdin.readline, ""):
        sys.stdout.write("%d %f\n" % (held[0], SECONDS))
        sys.stdout.flush()
        held[0] = 0
