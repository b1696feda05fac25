"""Counts finished units of work where a driver can see them: in a file of numbers in memory.

Each thread has a number of its own in the file that the variable WORK_UNITS_FILE names; without it
nobody looks. A driver so reads the progress and the workload does no input or output for it. Runs
on CPython 3.6 and later.
"""

import mmap
import os
import signal
import sys

SLOTS = 64

# An interrupt at the terminal is for the driver too, which has more to say about it.
signal.signal(signal.SIGINT, signal.SIG_DFL)


def _shared():
    path = os.environ.get("WORK_UNITS_FILE")
    if path is None:
        return mmap.mmap(-1, SLOTS * 8)
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), SLOTS * 8)


counts = memoryview(_shared()).cast("Q")


def seconds():
    """For how long to work: the first argument."""
    return float(sys.argv[1])


def number(default):
    """What the workload can be told besides: the second argument."""
    return int(sys.argv[2]) if len(sys.argv) > 2 else default
