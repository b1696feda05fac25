"""Three functions that use 70, 20 and 10 % of the CPU, by the process's own clock.

Instead of units it counts the nanoseconds that each of them has used, so that a driver knows the
true split of any stretch of time. The lengths of the slices are random: with fixed ones a sampler
could fall into step with them.

Arguments: SECONDS [PERCENT OF THE CPU TIME TO SLEEP BESIDES]
"""

import random
import time

from work_units import counts, number, seconds


def seventy(duration):
    end = time.process_time() + duration
    while time.process_time() < end:
        pass


def twenty(duration):
    end = time.process_time() + duration
    while time.process_time() < end:
        pass


def ten(duration):
    end = time.process_time() + duration
    while time.process_time() < end:
        pass


def main():
    shares = [(0, seventy, 0.7), (1, twenty, 0.2), (2, ten, 0.1)]
    slices = random.Random(42)
    sleep = number(0) / 100
    end = time.time() + seconds()
    while time.time() < end:
        cycle = slices.uniform(0.002, 0.018)
        for slot, function, share in shares:
            before = time.process_time()
            function(cycle * share)
            counts[slot] += int((time.process_time() - before) * 1e9)
        if sleep:
            time.sleep(cycle * sleep)


main()
