"""Waits of four lengths in a function each, between calls that compute; stamps how long each function takes.

Arguments: neighbours, the number of threads that compute meanwhile. At the end are printed, of each function: the
nanoseconds, the calls, and the sum of the squares of the first ten milliseconds of each, in square microseconds.
"""

import sys
import threading
import time

clock = getattr(time, "perf_counter_ns", lambda: int(time.time() * 1e9))
SECONDS = 9


def shortest():
    time.sleep(0.00005)


def short():
    time.sleep(0.0005)


def middling():
    time.sleep(0.005)


def long():
    time.sleep(5)


def computes():
    total = 0
    for number in range(20000):
        total += number
    return total


totals = {}


def stamp(function):
    began = clock()
    function()
    took = clock() - began
    total = totals.setdefault(function.__name__, [0, 0, 0])
    total[0] += took
    total[1] += 1
    total[2] += (min(took, 10 ** 7) // 1000) ** 2


def in_turn(end):
    while clock() < end:
        for _ in range(10):
            stamp(shortest)
        for _ in range(3):
            stamp(short)
        stamp(middling)


def once(end):
    while clock() < end - (SECONDS - 2) * 10**9:
        stamp(short_too)
    stamp(long)
    while clock() < end:
        stamp(short_too)


def short_too():
    time.sleep(0.0005)


def neighbour(end):
    while clock() < end:
        computes()


if __name__ == "__main__":
    end = clock() + SECONDS * 10**9
    threads = [threading.Thread(target=in_turn, args=(end,)), threading.Thread(target=once, args=(end,))]
    threads += [threading.Thread(target=neighbour, args=(end,)) for _ in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(" ".join("%s=%d,%d,%d" % ((name,) + tuple(total)) for name, total in sorted(totals.items())))
