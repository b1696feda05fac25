"""Two threads that are not Python's compute for 50 ms in C and for 5 ms in Python, in turn.

The library is compiled beside the file that units are counted in.

Arguments: SECONDS
"""

import ctypes
import os
import subprocess
import time

from call_chain import chain, spin
from work_units import counts, seconds

THREADS = 2
PYTHON_SECONDS = 0.005

source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mostly_native.c")
library = os.path.join(os.path.dirname(os.environ["WORK_UNITS_FILE"]), "mostly_native.so")
flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-pthread"]
subprocess.check_call(["cc"] + flags + [source, "-o", library])

deep = chain(20, spin)


def serve():
    end = time.perf_counter() + PYTHON_SECONDS
    while time.perf_counter() < end:
        deep(3)
    counts[0] += 1


callback = ctypes.CFUNCTYPE(None)(serve)
ctypes.CDLL(library).start(callback, THREADS)
time.sleep(seconds())
os._exit(0)
