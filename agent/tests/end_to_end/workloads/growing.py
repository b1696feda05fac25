"""Grows in several ways, one function each, and keeps all of it; two threads grow at the same time.

Prints for each function its name and the bytes of resident memory that the kernel says the process has
gained meanwhile; for the threads, the bytes that they have touched.
"""

import io
import mmap
import os
import sys
import tempfile
import threading

from resident import grow_by_each, resident

PAGE = mmap.PAGESIZE
MEGABYTE = 1 << 20
kept = []


def touch(memory):
    for page in range(len(memory) // PAGE):
        memory[page * PAGE] = LETTER


def private(megabytes):
    return mmap.mmap(-1, megabytes * MEGABYTE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def grow_list():
    kept.append([None] * (3 * MEGABYTE))


def grow_bytes():
    # Not a list that grows, which gives back what it had before.
    objects = [None] * 30000
    for i in range(len(objects)):
        # Not one object for all, and larger than the interpreter's small ones are.
        objects[i] = b"x" * (600 + i % 100)
    kept.append(objects)


def grow_private():
    memory = private(32)
    touch(memory)
    kept.append(memory)


def grow_shared():
    memory = mmap.mmap(-1, 24 * MEGABYTE)
    touch(memory)
    kept.append(memory)


def grow_by_read():
    memory = private(24)
    files[0].readinto(memory)
    kept.append(memory)


def grow_by_file():
    memory = mmap.mmap(files[0].fileno(), 24 * MEGABYTE, mmap.MAP_SHARED, mmap.PROT_READ)
    for page in range(len(memory) // PAGE):
        memory[page * PAGE]
    kept.append(memory)


def grow_huge():
    memory = private(64)
    if hasattr(memory, "madvise"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    touch(memory)
    kept.append(memory)


def give_back():
    memory = private(48)
    touch(memory)
    memory.close()
    # What is given back is known at the next fault.
    grow_in(1)


def grow_large():
    start.wait()
    for _ in range(4):
        grow_in(12)


def grow_small():
    start.wait()
    for _ in range(16):
        grow_in(1)


def grow_in(megabytes):
    memory = private(megabytes)
    touch(memory)
    kept.append(memory)


# An item of Python 2's mapping is a string.
LETTER = mmap.mmap(-1, PAGE)[0]
if sys.version_info[0] > 2:
    LETTER = 1
start = threading.Event()
path = os.path.join(tempfile.gettempdir(), "growing-%d" % os.getpid())
with open(path, "wb") as out:
    out.write(os.urandom(24 * MEGABYTE))
files = [io.FileIO(path)]
os.remove(path)
grow_by_each((grow_list, grow_bytes, grow_private, grow_shared, grow_by_read, grow_by_file, grow_huge))
threads = [threading.Thread(target=grow) for grow in (grow_large, grow_small)]
for thread in threads:
    thread.start()
start.set()
for thread in threads:
    thread.join()
print("grow_large %d" % (48 * MEGABYTE))
print("grow_small %d" % (16 * MEGABYTE))
give_back()
print("given_back %d" % (48 * MEGABYTE))
print("resident %d" % resident())
sys.stdout.flush()
# What is given back at the end is none of it.
os._exit(0)
