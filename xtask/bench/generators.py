"""One thread that computes under a chain of 30 generators, each of which yields from the next one.

Arguments: SECONDS
"""

import time

from call_chain import spin
from work_units import counts, seconds

DEPTH = 30
END = time.time() + seconds()


def generate(depth):
    if depth == 1:
        while True:
            spin(3)
            yield depth
    else:
        yield from generate(depth - 1)


for _ in generate(DEPTH - 1):
    counts[0] += 1
    if time.time() > END:
        break
