"""Writes to memory for the first time, and does next to nothing else: each page is a page fault.

Arguments: SECONDS
"""

import mmap
import time

from work_units import counts, seconds

MEGABYTES = 32
# What is written to the whole memory at once.
BLOCK = b"\1" * (MEGABYTES << 20)


def unit():
    memory = mmap.mmap(-1, MEGABYTES << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # A huge page would be one fault.
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    memory[:] = BLOCK
    memory.close()


def main():
    end = time.time() + seconds()
    while time.time() < end:
        unit()
        counts[0] += 1


main()
