"""One thread that computes in C under 30 Python frames and 30 native ones without frame pointers.

The library is compiled beside the file that units are counted in.

Arguments: SECONDS
"""

import ctypes
import os
import subprocess
import time

from call_chain import chain
from work_units import counts, seconds

NATIVE_FRAMES = 30
PYTHON_FRAMES = 30

source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native_chain.c")
library = os.path.join(os.path.dirname(os.environ["WORK_UNITS_FILE"]), "native_chain.so")
flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-shared", "-fPIC"]
subprocess.check_call(["cc"] + flags + [source, "-o", library])
native = ctypes.CDLL(library).chain
native.argtypes = [ctypes.c_uint64, ctypes.c_uint64]


def spin(rounds):
    native(NATIVE_FRAMES, rounds * 100000)


# This module is a frame itself, and `spin` is another one.
work = chain(PYTHON_FRAMES - 2, spin)
END = time.time() + seconds()
while time.time() < END:
    work(3)
    counts[0] += 1
