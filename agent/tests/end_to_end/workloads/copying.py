"""A parent makes objects, and writes to them beside a child that has them too, and after it; the child does so first.

Prints for each function its name and the bytes of memory that was copied for it, as the kernel counts: its process has
so much more private memory, less what is new.
"""

import gc
import mmap
import os
import sys
import tempfile

PAGE = mmap.PAGESIZE
MEGABYTE = 1 << 20


def counted():
    with open("/proc/self/smaps_rollup") as memory:
        fields = [line.split() for line in memory]
    kilobytes = {field[0]: int(field[1]) for field in fields[1:]}
    return kilobytes["Private_Dirty:"] << 10, kilobytes["Anonymous:"] << 10


def write_by_each(*functions):
    for write in functions:
        private_before, anonymous_before = counted()
        write()
        private, anonymous = counted()
        # Copies of a file's pages are anonymous as well.
        new = anonymous - anonymous_before if write != change_copies_of_file else 0
        print("%s %d" % (write.__name__, private - private_before - new))
        sys.stdout.flush()


def count_references():
    for number in numbers:
        pass


def collect():
    gc.collect()


def change(memory, value):
    for place in range(0, len(memory), PAGE):
        memory[place] = value


def change_data():
    change(data[0], 2)


def map_file():
    # Not by one mapping that a huge page maps, which the first write takes away.
    for place in range(0, 24 * MEGABYTE, MEGABYTE):
        memory = mmap.mmap(file.fileno(), MEGABYTE, access=mmap.ACCESS_COPY, offset=place)
        read(memory)
        copies_of_file.append(memory)


def change_copies_of_file():
    for memory in copies_of_file:
        change(memory, LETTER)


def change_as_parent():
    change(data[1], 2)


def change_again():
    change(data[0], 3)


def change_shared():
    change(shared, LETTER)


def change_zeros():
    memory = private(24)
    read(memory)
    change(memory, LETTER)
    kept.append(memory)


def change_alone():
    change(data[2], 2)


def read(memory):
    for place in range(0, len(memory), PAGE):
        memory[place]


def private(megabytes):
    return mmap.mmap(-1, megabytes * MEGABYTE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def wait_for(pipe):
    os.read(pipe[0], 1)


def tell(pipe):
    os.write(pipe[1], b".")


# An item of Python 2's mapping is a string.
LETTER = mmap.mmap(-1, PAGE)[0]
if sys.version_info[0] > 2:
    LETTER = 1
kept = []
copies_of_file = []
with tempfile.TemporaryFile() as file:
    file.write(os.urandom(24 * MEGABYTE))
    file.flush()
    os.fsync(file.fileno())
    gc.disable()
    numbers = [float(number) for number in range(1000000)]
    lists = [[number] for number in range(200000)]
    data = [bytearray(24 * MEGABYTE) for _ in range(3)]
    for part in data:
        change(part, 1)
    shared = mmap.mmap(-1, 24 * MEGABYTE)
    change(shared, LETTER)
    written, read_on = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        map_file()
        write_by_each(change_data, count_references, collect, change_copies_of_file)
        write_by_each(change_again, change_shared, change_zeros)
        tell(written)
        wait_for(read_on)
        os._exit(0)
    wait_for(written)
    write_by_each(change_as_parent)
    tell(read_on)
    os.waitpid(child, 0)
    # What was the child's too is the parent's alone now.
    write_by_each(change_alone)
