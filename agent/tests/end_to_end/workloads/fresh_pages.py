"""Touches fresh memory: three pages in one function for one in each of two others, one of which has the kernel do it.

Prints its page faults, and its CPU time in seconds.
"""

import io
import mmap
import resource

PAGE = mmap.PAGESIZE
PAGES = 256
ROUNDS = 400


def touch_three(memory):
    for page in range(3 * PAGES):
        memory[page * PAGE] = LETTER


def touch_one(memory):
    for page in range(3 * PAGES, 4 * PAGES):
        memory[page * PAGE] = LETTER


def read_one(memory):
    zeros.readinto(memory)


def main():
    for _ in range(ROUNDS):
        # Shared with no other process; the kernel makes no huge pages of it.
        memory = mmap.mmap(-1, 4 * PAGES * PAGE)
        touch_three(memory)
        touch_one(memory)
        memory.close()
        memory = mmap.mmap(-1, PAGES * PAGE)
        read_one(memory)
        memory.close()


# An item of Python 2's mapping is a string.
LETTER = mmap.mmap(-1, PAGE)[0]
zeros = io.FileIO("/dev/zero")
main()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_minflt + usage.ru_majflt)
print(usage.ru_utime + usage.ru_stime)
