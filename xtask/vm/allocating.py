"""Asks for a gigabyte in pieces of 4,033 bytes, which are dropped at once."""

import time

# No constant, which the compiler would make a piece of once.
BYTES = 4000


def make_bytes():
    return b"x" * BYTES


# Until the agent knows it, and has tried again where it could not attach a probe; this machine is an emulated one.
time.sleep(12)
for _ in range(248000):
    make_bytes()
