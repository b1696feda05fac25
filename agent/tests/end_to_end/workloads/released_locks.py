"""A thread that holds a lock for long or for short, and others that wait for it.

Each time that a line is read, the seconds since the last one are printed that the others waited, by the function
that ended the waits, as `function=seconds`.
"""

import collections
import queue
import sys
import threading
import time

import truth


class Account(object):
    """A lock, and which function has released it last."""

    def __init__(self):
        self.lock = threading.Lock()
        self.released_by = None
        self.waited = collections.Counter()

    def keeps_long(self):
        self.lock.acquire()
        time.sleep(0.012)
        self.released_by = "keeps_long"
        self.lock.release()

    def keeps_short(self):
        self.lock.acquire()
        time.sleep(0.003)
        self.released_by = "keeps_short"
        self.lock.release()

    def passes(self):
        before = truth.blocked_clock()
        self.lock.acquire()
        self.waited[self.released_by] += truth.blocked_clock() - before
        self.released_by = "passes"
        self.lock.release()


def keeps(account):
    while True:
        account.keeps_long()
        time.sleep(0.001)
        account.keeps_short()
        time.sleep(0.001)


def passes(account):
    while True:
        account.passes()
        time.sleep(0.0005)


def produces(jobs):
    """Ends waits for work, which are no contention."""
    while True:
        time.sleep(0.05)
        jobs.put(None)


def works(jobs):
    while True:
        jobs.get()


if __name__ == "__main__":
    account, jobs = Account(), queue.Queue()
    truth.start("keeper", keeps, account)
    for nth in range(3):
        truth.start("passer %d" % nth, passes, account)
    truth.start("producer", produces, jobs)
    truth.start("worker", works, jobs)
    truth.ready()
    for _ in iter(sys.stdin.readline, ""):
        waited, account.waited = account.waited, collections.Counter()
        sys.stdout.write(" ".join("%s=%f" % pair for pair in waited.items()) + "\n")
        sys.stdout.flush()
