"""One thread that computes under a stack of 30 frames.

Arguments: SECONDS [FRAMES]
"""

import time

from call_chain import chain, spin
from work_units import counts, number, seconds

FRAMES = number(30)
END = time.time() + seconds()

# This module is a frame itself, and `spin` is another one.
if FRAMES == 1:
    while time.time() < END:
        total = 0
        for i in range(3000):
            total += i ^ 3
            total &= 0xFFFF
        counts[0] += 1
else:
    work = chain(FRAMES - 2, spin) if FRAMES > 2 else spin
    while time.time() < END:
        work(3)
        counts[0] += 1
