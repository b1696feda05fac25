"""Computes and waits in a library."""

import ctypes
import sys
import threading
import truth


def work(library):
    while True:
        library.compute(50000000)


def rest(library):
    library.rest()


library = ctypes.CDLL(sys.argv[1])
threading.Thread(target=rest, args=(library,), daemon=True).start()
truth.ready()
work(library)
