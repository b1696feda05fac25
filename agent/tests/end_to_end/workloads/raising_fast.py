"""Does little but raise exceptions for so many seconds as the argument says, and prints how many."""

import sys
import time


def raise_often(seconds):
    end = time.time() + seconds
    raised = 0
    while time.time() < end:
        for _ in range(100):
            try:
                int("x")
            except ValueError:
                raised += 1
            bytearray(30000)
    return raised


print(raise_often(float(sys.argv[1])))
