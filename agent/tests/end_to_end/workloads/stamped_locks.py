"""Threads that take twenty locks in turn and count how long each made them wait.

Each time that a line is read, the seconds since the last one are printed, as `lock=seconds`.
"""

import collections
import sys
import threading
import time

import truth

TYPES = (threading.Lock, threading.RLock, threading.Condition, threading.Semaphore)


class Locks(object):
    """Five locks of each type."""

    def __init__(self):
        self.waited = collections.Counter()
        for nth in range(20):
            setattr(self, "lock_%d" % nth, TYPES[nth % 4]())

    def use(self, name, seconds):
        lock = getattr(self, name)
        before = truth.blocked_clock()
        with lock:
            self.waited[name] += truth.blocked_clock() - before
            time.sleep(seconds)


def works(locks, state):
    while True:
        # The locks are not equally busy.
        state = (state * 1103515245 + 12345) % (1 << 31)
        first, second = (state >> 8) % 20, (state >> 16) % 20
        locks.use("lock_%d" % min(first, second), 0.002 + (state >> 20) % 7 * 0.001)


if __name__ == "__main__":
    locks = Locks()
    for nth in range(12):
        truth.start("worker %d" % nth, works, locks, nth)
    truth.ready()
    for _ in iter(sys.stdin.readline, ""):
        waited, locks.waited = locks.waited, collections.Counter()
        sys.stdout.write(" ".join("%s=%f" % pair for pair in waited.items()) + "\n")
        sys.stdout.flush()
