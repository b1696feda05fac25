"""Touches memory in several ways: some it keeps, some it gives back, most of it before the last part is touched.

With the argument `huge` it does so in huge pages, and prints how many bytes these are; with `fork` a child does a part;
with `move` it moves memory as fast as it can in between.
"""

import ctypes
import mmap
import os
import sys
import time

PAGE = mmap.PAGESIZE
MEGABYTE = 1 << 20
# Longer than it takes until somebody looks.
LONG = 0.5


def touched(megabytes):
    memory = mmap.mmap(-1, megabytes * MEGABYTE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(memory, "madvise"):
        memory.madvise(mmap.MADV_HUGEPAGE if "huge" in sys.argv else mmap.MADV_NOHUGEPAGE)
    touch(memory)
    return memory


def touch(memory, megabytes=0):
    for page in range(megabytes * MEGABYTE // PAGE, len(memory) // PAGE):
        memory[page * PAGE] = LETTER


def keep():
    kept.append(touched(32))


def keep_objects():
    # Larger than the interpreter's small ones are.
    kept.append([b"x" * (600 + i % 100) for i in range(30000)])


def keep_moved():
    # There is no room behind it: what comes first is above.
    neighbours = [touched(1) for _ in range(4)]
    memory = touched(12)
    memory.resize(24 * MEGABYTE)
    touch(memory, 12)
    kept.append((neighbours, memory))


def keep_growing():
    memory = bytearray()
    for _ in range(24 * 64):
        memory += PIECE
    kept.append(memory)


def move():
    """Moves a page to and fro, two hundred thousand times."""
    MREMAP_MAYMOVE, MREMAP_FIXED = 1, 2
    memory = touched(1)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    mremap = ctypes.CDLL(None).mremap
    mremap.restype = ctypes.c_void_p
    places = [ctypes.c_void_p(first), ctypes.c_void_p(first + MEGABYTE // 2)]
    size = ctypes.c_size_t(PAGE)
    for nth in range(200000):
        mremap(places[nth % 2], size, size, MREMAP_MAYMOVE | MREMAP_FIXED, places[1 - nth % 2])


def hold():
    memory = touched(64)
    time.sleep(LONG)
    memory.close()


def use_again():
    # Most often at the addresses of the one before.
    for _ in range(8):
        memory = touched(16)
        time.sleep(0.05)
        memory.close()


def hold_in_child():
    kept.append(touched(96))
    time.sleep(LONG)
    os._exit(0)


def huge_bytes():
    with open("/proc/self/smaps_rollup") as memory:
        lines = [line.split() for line in memory if line.startswith("AnonHugePages")]
    return int(lines[0][1]) << 10


def keep_in_place():
    kept.append(touched(16))


# An item of Python 2's mapping is a string.
LETTER = mmap.mmap(-1, PAGE)[0]
if sys.version_info[0] > 2:
    LETTER = 1
PIECE = b"x" * (MEGABYTE // 64)
# By then the agent knows where this interpreter has its frames.
time.sleep(LONG)
kept = []
keep()
keep_objects()
keep_moved()
keep_growing()
if "move" in sys.argv:
    move()
hold()
use_again()
keep_in_place()
if "fork" in sys.argv:
    child = os.fork()
    if child == 0:
        hold_in_child()
    os.waitpid(child, 0)
if "huge" in sys.argv:
    print(huge_bytes())
    sys.stdout.flush()
time.sleep(LONG)
# What is given back at the end is none of it.
os._exit(0)
