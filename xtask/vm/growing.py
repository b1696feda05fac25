"""Grows in two ways and prints by how much the kernel says that it has; or, with a folded profile and what was
printed as arguments, checks that the profile has the same."""

import mmap
import sys

TOLERANCE = 0.02
# Of samples, one for each 256 KiB.
CHANCE = 4 << 18


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * mmap.PAGESIZE


def grow_pages():
    memory = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, len(memory), mmap.PAGESIZE):
        memory[page] = 1
    return memory


def grow_objects():
    return [b"x" * (600 + i % 100) for i in range(30000)]


def grow():
    kept = []
    for function in (grow_pages, grow_objects):
        before = resident()
        kept.append(function())
        print(function.__name__, resident() - before)


def check(profile, printed):
    stacks = [line.rsplit(" ", 1) for line in open(profile)]
    for line in open(printed):
        function, gained = line.split()
        found = sum(int(count) for stack, count in stacks if function in stack)
        print("%s: %d of %s bytes" % (function, found, gained))
        if abs(found - int(gained)) > TOLERANCE * int(gained) + CHANCE:
            sys.exit("failed: the profile has another growth")


if len(sys.argv) > 1:
    check(*sys.argv[1:])
else:
    grow()
