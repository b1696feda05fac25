"""Allocates: each function asks for memory of its own kind and size, which is dropped at once, until it was so many
megabytes as the first argument says. Prints for each how many bytes a call asks for and how many calls there were, by
tracemalloc's account where there is one.

With `fork` a child does the same, with `threads` a hundred threads between them. With `flood` the program at last asks for
a gigabyte two hundred thousand times, and does not use it. With `new` one function more asks as C++ does.
"""

import array
import ctypes
import mmap
import os
import sys
import threading
import time

try:
    import tracemalloc
except ImportError:
    # 2.7
    tracemalloc = None

MAPPED = 200 << 10


def make_short_bytes():
    return b"x" * SHORT


def make_bytes():
    return b"x" * SOME


def make_large_bytes():
    return b"x" * LARGE


def make_bytearray():
    return bytearray(20000)


def make_list():
    return [None] * 1000


def make_large_list():
    return [None] * 100000


def make_tuple():
    return (None,) * SEVERAL


def make_text():
    return u"x" * TEXT


def make_array():
    return NUMBER * 3000


def map_memory():
    return mmap.mmap(-1, MAPPED)


def make_object():
    OPERATORS._ZdlPv(OPERATORS._Znwm(OBJECT))


def operators():
    """`new` and `delete` of the allocator."""
    library = ctypes.CDLL(None)
    library._Znwm.restype = ctypes.c_void_p
    library._Znwm.argtypes = [ctypes.c_size_t]
    library._ZdlPv.argtypes = [ctypes.c_void_p]
    return library


# No constants, which the compiler would make once.
SHORT, SEVERAL, SOME, OBJECT, TEXT, LARGE = 600, 700, 4000, 30000, 50000, 3000000
NUMBER = array.array("d", [0.0])

MAKERS = [
    make_short_bytes,
    make_bytes,
    make_large_bytes,
    make_bytearray,
    make_list,
    make_large_list,
    make_tuple,
    make_text,
    make_array,
    map_memory,
]
if "new" in sys.argv:
    OPERATORS = operators()
    MAKERS.append(make_object)


def asked(make):
    """Bytes that a call asks for."""
    if make is map_memory:
        return MAPPED
    if make is make_object:
        return OBJECT
    if tracemalloc is None:
        return sys.getsizeof(make())
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    asked = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del made
    return asked


def wait_for_probe():
    """Until the agent knows this process, and `malloc` has a breakpoint: behind an `endbr64` if it begins with one."""
    function = ctypes.cast(ctypes.CDLL("libc.so.6").malloc, ctypes.c_void_p).value
    for _ in range(200):
        code = ctypes.string_at(function, 5)
        if b"\xcc" in (code[:1], code[4:]):
            break
        time.sleep(0.1)
    else:
        sys.exit("malloc has no breakpoint")
    # And the other functions.
    time.sleep(0.5)


def run(sizes, calls):
    for make, size, count in zip(MAKERS, sizes, calls):
        for number in range(count):
            make()
            # At more than five gigabytes a second there are fewer samples, and the period is another one.
            if number % (100000000 // size) == 0:
                time.sleep(0.02)


def run_in_threads(sizes, calls):
    threads = [
        threading.Thread(target=run, args=(sizes, [count // 100 for count in calls]))
        for _ in range(100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def flood():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    for _ in range(200000):
        libc.free(libc.malloc(1 << 30))
    # Nobody gets it.
    libc.malloc(1 << 62)


def main():
    megabytes = int(sys.argv[1])
    how = sys.argv[2:]
    sizes = [asked(make) for make in MAKERS]
    wait_for_probe()
    calls = [megabytes * 1000000 // size // 100 * 100 or 100 for size in sizes]
    times = 1
    if "fork" in how:
        times = 2
        if os.fork() == 0:
            # Until the agent knows it.
            time.sleep(1)
            run(sizes, calls)
            os._exit(0)
        os.wait()
    if "threads" in how:
        run_in_threads(sizes, calls)
    else:
        run(sizes, calls)
    if "flood" in how:
        flood()
    for make, size, count in zip(MAKERS, sizes, calls):
        print("%s %d %d" % (make.__name__, size, count * times))


main()
