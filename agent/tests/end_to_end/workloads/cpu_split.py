"""Three functions use 70, 20 and 10 per cent of the thread's CPU time.

They take turns of random length by the clock of the process, whose only thread this is, so that no rate of sampling falls in
step with them. Ends are on one scale from the start: what a turn takes too much the next one lacks.
"""

import random
import time
import truth

clock = getattr(time, "process_time", None) or time.clock


def seventy(end):
    while clock() < end:
        pass


def twenty(end):
    while clock() < end:
        pass


def ten(end):
    while clock() < end:
        pass


def main():
    draw = random.Random(42).uniform
    begin = clock()
    while True:
        cycle = draw(0.002, 0.018)
        seventy(begin + 0.7 * cycle)
        twenty(begin + 0.9 * cycle)
        begin += cycle
        ten(begin)


truth.ready()
main()
