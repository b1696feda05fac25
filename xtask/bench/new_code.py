"""Computes under a stack of 30 frames; a tenth of the time is in code that has not run before.

Arguments: SECONDS
"""

import time

from call_chain import chain, spin
from work_units import counts, seconds

END = time.time() + seconds()

# Long enough that a sampler at 97 Hz finds most of the new functions once.
NEW_SECONDS = 0.010
OLD_SECONDS = 0.090

SOURCE = """
def new_%d(end):
    total = 0
    while time.perf_counter() < end:
        for i in range(300):
            total += i ^ 3
            total &= 0xFFFF
    return total
"""


def unit(_):
    """Old code, then new."""
    end = time.perf_counter() + OLD_SECONDS
    while time.perf_counter() < end:
        spin(3)
    # An address of its own: what was made before lives as long as the module of a service.
    namespace = {"time": time}
    exec(compile(SOURCE % counts[0], "new_code_made_%d.py" % counts[0], "exec"), namespace)
    KEPT.append(namespace)
    namespace["new_%d" % counts[0]](time.perf_counter() + NEW_SECONDS)
    counts[0] += 1


KEPT = []
work = chain(28, unit)
while time.time() < END:
    work(3)
