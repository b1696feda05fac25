"""Grows in two ways, has memory copied in two more, and prints by how much the kernel says so; or, with a file of what
was printed and folded profiles of the growth, of the peak and of the copies as arguments, checks that these have the
same: what it grows by it keeps."""

import gc
import mmap
import os
import sys
import time

TOLERANCE = 0.02
# Of samples, one for each 256 KiB that are new, and for each 64 KiB that are copied.
CHANCE = 4 << 18


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * mmap.PAGESIZE


def private():
    with open("/proc/self/smaps_rollup") as memory:
        return [int(line.split()[1]) << 10 for line in memory if line.startswith("Private_Dirty")][0]


def touched(size):
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    touch(memory)
    return memory


def touch(memory, first=0):
    for page in range(first, len(memory), mmap.PAGESIZE):
        memory[page] = 1


def grow_pages():
    return touched(32 << 20)


def grow_moved():
    # There is no room behind it: what comes first is above.
    neighbours = [touched(1 << 20) for _ in range(4)]
    memory = touched(8 << 20)
    memory.resize(16 << 20)
    touch(memory, 8 << 20)
    return neighbours, memory


def grow_objects():
    return [[b"x" * (600 + i % 100)] for i in range(30000)]


def copy_pages():
    for page in range(0, len(pages), mmap.PAGESIZE):
        pages[page] = 2


def copy_objects():
    gc.collect()


def by_each(counted, *functions):
    results = []
    for function in functions:
        before = counted()
        results.append(function())
        print(function.__name__, counted() - before, flush=True)
    return results


def check(printed, growth, peak, copies):
    for line in open(printed):
        function, expected = line.split()
        for profile in (growth, peak) if function.startswith("grow") else (copies,):
            stacks = [line.rsplit(" ", 1) for line in open(profile)]
            found = sum(int(count) for stack, count in stacks if function in stack)
            print("%s: %d of %s bytes in %s" % (function, found, expected, profile))
            if abs(found - int(expected)) > TOLERANCE * int(expected) + CHANCE:
                sys.exit("failed: the profile has another amount")


if len(sys.argv) > 1:
    check(*sys.argv[1:])
else:
    gc.disable()
    pages, _, objects = by_each(resident, grow_pages, grow_moved, grow_objects)
    if os.fork() == 0:
        by_each(private, copy_pages, copy_objects)
        os._exit(0)
    os.wait()
    # Until its pages have been looked at.
    time.sleep(1)
