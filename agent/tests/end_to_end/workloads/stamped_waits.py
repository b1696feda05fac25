"""Threads that wait in turn for one thing after another, and stamp how long.

Each time that a line is read, the seconds that each function has taken in between are printed.
"""

import os
import sys
import threading
import time

import truth

clock = getattr(time, "perf_counter", time.time)
lock = threading.Lock()
totals = {}
totals_lock = threading.Lock()


def stamp(function, *arguments):
    began = clock()
    function(*arguments)
    taken = clock() - began
    with totals_lock:
        totals[function.__name__] = totals.get(function.__name__, 0.0) + taken


def sleeps(seconds):
    time.sleep(seconds)


def takes_lock():
    lock.acquire()
    lock.release()


def reads(descriptor):
    os.read(descriptor, 1)


def waits_in_turn(seconds, descriptor):
    while True:
        stamp(sleeps, seconds)
        stamp(takes_lock)
        stamp(reads, descriptor)


def holds_lock():
    while True:
        with lock:
            time.sleep(0.004)
        time.sleep(0.003)


def writes(descriptor):
    while True:
        time.sleep(0.002)
        os.write(descriptor, b"x")


if __name__ == "__main__":
    for number in range(3):
        reading, writing = os.pipe()
        truth.start("waiter-%d" % number, waits_in_turn, 0.0007 * (number + 1), reading)
        truth.start("writer-%d" % number, writes, writing)
    truth.start("holder", holds_lock)
    truth.ready()
    for _ in iter(sys.stdin.readline, ""):
        with totals_lock:
            shown = dict(totals)
            totals.clear()
        sys.stdout.write(" ".join("%s=%.6f" % pair for pair in sorted(shown.items())) + "\n")
        sys.stdout.flush()
