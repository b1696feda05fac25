"""Announces allocations by the library that is its first argument, when all of its probes have been looked at for a
while; the second one says which. Prints for each function what an allocation is said to have, for how many bytes and
how often; and how many look at the probes then.
"""

import ctypes
import sys
import time

library = ctypes.CDLL(sys.argv[1])
arguments = [ctypes.c_uint64, ctypes.c_uint64]
for function in ["in_registers", "in_memory", "constants", "wrapping", "often"]:
    getattr(library, "announce_" + function).argtypes = arguments
LARGE = 1000000


def in_registers():
    library.announce_in_registers(1000, 600000)


def in_memory():
    library.announce_in_memory(300, 524288)


def constants():
    library.announce_constants(0, 0)


def impossible():
    library.announce_in_registers(2**63, 2**63)


def often():
    library.announce_often(64, 524288)


def wrapping():
    library.announce_wrapping(100000, 100000)


def large():
    return b"x" * LARGE


def small():
    for _ in range(100): b"x" * (LARGE // 1000)


def wait_until_all_are_looked_at():
    # The kernel counts a probe before it changes the instruction, and while the program starts, what is known of it may
    # still be of the one before it.
    wait_until(library.probes(), 0.3)


def wait_until(looked_at, duration=0):
    end = time.time() + 60
    since = time.time()
    while time.time() < end:
        if library.looked_at() != looked_at:
            since = time.time()
        elif time.time() - since >= duration:
            break
        # Something to sample, so that what was loaded is looked for.
        b"x" * LARGE
        time.sleep(0.001)


if sys.argv[2] == "until":
    print("ready")
    sys.stdout.flush()
wait_until_all_are_looked_at()
of_object = sys.getsizeof(b"x" * LARGE)
of_small = sys.getsizeof(b"x" * (LARGE // 1000))
called = {
    "some": [
        (in_registers, 1000, 600000, 200),
        (in_memory, 300, 524288, 300),
        (constants, 4096, 524288, 100),
        (large, of_object, of_object, 300),
    ],
    "wrapping": [(wrapping, 100000, 100000, 2000)],
    "often": [(often, 64, 524288, 300000)],
    "instead": [(large, of_object, of_object, 300), (small, of_small, 100 * of_small, 2000)],
    "hooks": [(large, of_object, of_object, 300)],
    "until": [],
}[sys.argv[2]]
if sys.argv[2] == "hooks":
    assert library.announce_by_hooks()
if sys.argv[2] == "some":
    impossible()
for function, size, weight, times in called:
    for _ in range(1 if function is often else times): function()
    print("%s %d %d %d" % (function.__name__, size, weight, times))
print("looked_at 0 0 %d" % library.looked_at())
if sys.argv[2] == "until":
    sys.stdout.flush()
    wait_until(0)
    print("looked_at 0 0 %d" % library.looked_at())
