"""Reads pages of a file that are on the disk only; the file is its argument.

Prints its major page faults while it does.
"""

import mmap
import os
import resource
import sys

PAGE = mmap.PAGESIZE
PAGES = 4000


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def read_cold(memory):
    total = 0
    # The kernel maps what is in memory around a fault, 16 pages by default.
    for page in range(0, PAGES, 32):
        total += memory[page * PAGE]
    return total


def main():
    with open(sys.argv[1], "w+b") as file:
        file.write(os.urandom(PAGES * PAGE))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        # No page is read ahead.
        memory.madvise(mmap.MADV_RANDOM)
        before = faults()
        read_cold(memory)
        print(faults() - before)


main()
