"""Counts finished units of work where a driver can read them: in a file of numbers in memory.

Each thread has a number of its own in the file that the variable WORK_UNITS_FILE names; without it
the counts are only in memory. The workload does no input or output to report its progress. Runs
on CPython 3.6 and later.
"""

import mmap
import os
import signal
import sys

SLOTS = 64

# An interrupt at the terminal also ends the driver, which prints the message.
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
