"""Raises exceptions after the agent has had time to begin, and ends when it has had time to read them."""

import time


def raise_value():
    raise ValueError()


time.sleep(6)
for _ in range(300):
    try:
        raise_value()
    except ValueError:
        time.sleep(0.001)
time.sleep(1)
