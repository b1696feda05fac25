"""Loads a library when it is told to, and works in it."""

import ctypes
import sys
import truth


def work(library):
    while True:
        library.outer(50000000)


truth.ready()
sys.stdin.readline()
work(ctypes.CDLL(sys.argv[1]))
