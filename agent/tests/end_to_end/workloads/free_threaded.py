"""Threads of a build without a GIL that keep each other waiting, and stamp for how long.

`turns`: one computes in one function and in another one in turn. `stops`: one collects garbage again and again, for which all others are stopped, and one computes. `sections`: one copies
a long list, and one appends to it, for which it waits. When a line is read, it is printed how long the thread had been
blocked until then that computes or appends: seconds since the epoch and seconds blocked, fifty times a second.
"""

import gc
import sys
import time

import truth


class Store(object):
    def __init__(self, length):
        self.items = list(range(length))


class Blocked(object):
    """For how long the thread that makes this has been blocked."""

    def __init__(self):
        self.stamps = []
        self.began = truth.blocked_clock()

    def stamp(self):
        now = time.time()
        if not self.stamps or now - self.stamps[-1][0] > 0.02:
            self.stamps.append((now, truth.blocked_clock() - self.began))


def first():
    for number in range(50000):
        number * number


def second():
    for number in range(50000):
        number + number


def takes_turns(all_blocked):
    all_blocked.append(Blocked())
    while True:
        first()
        second()


def collects():
    while True:
        gc.collect()
        time.sleep(0.005)


def computes(all_blocked):
    blocked = Blocked()
    all_blocked.append(blocked)
    while True:
        for number in range(20000):
            number * number
        blocked.stamp()


def copies(store):
    while True:
        store.items.copy()
        time.sleep(0.0005)


def appends(store, all_blocked):
    blocked = Blocked()
    all_blocked.append(blocked)
    while True:
        for _ in range(200):
            store.items.append(None)
        del store.items[-200:]
        blocked.stamp()


if __name__ == "__main__":
    all_blocked = []
    if sys.argv[1] == "turns":
        truth.start("turner", takes_turns, all_blocked)
    elif sys.argv[1] == "stops":
        kept = [[number] for number in range(400000)]
        truth.start("computer", computes, all_blocked)
        truth.start("collector", collects)
    else:
        gc.disable()
        store = Store(4000000)
        truth.start("appender", appends, store, all_blocked)
        truth.start("copier", copies, store)
    truth.ready()
    sys.stdin.readline()
    sys.stdout.write(" ".join("%f %f" % stamp for stamp in all_blocked[0].stamps) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
