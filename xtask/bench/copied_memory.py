"""Writes to memory that a forked process has too, and does next to nothing else: each page is copied.

Arguments: SECONDS
"""

import mmap
import os
import signal
import time

from work_units import counts, seconds

MEGABYTES = 16
# What is written to the whole memory at once.
BLOCK = b"\1" * (MEGABYTES << 20)

MEMORY = mmap.mmap(-1, MEGABYTES << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
# A huge page would be one copy.
MEMORY.madvise(mmap.MADV_NOHUGEPAGE)
MEMORY[:] = BLOCK

# Nothing is written to it: its end is that of this process, however it ends.
WAIT, ALIVE = os.pipe()


def unit():
    child = os.fork()
    if child == 0:
        os.close(ALIVE)
        os.read(WAIT, 1)
        os._exit(0)
    MEMORY[:] = BLOCK
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main():
    end = time.time() + seconds()
    while time.time() < end:
        unit()
        counts[0] += 1


main()
