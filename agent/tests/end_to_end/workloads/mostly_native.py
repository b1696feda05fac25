"""Threads of a library call a Python function between long work of their own: `mostly_native.c`."""

import ctypes
import sys
import threading
import truth


def called_back():
    for _ in range(350000): pass


library, path, threads = sys.argv[1:]
callback = ctypes.CFUNCTYPE(None)(called_back)
assert ctypes.CDLL(library).start(path.encode(), int(threads), callback) == 0
truth.ready()
threading.Event().wait()
