"""Loads copies of a library one after the other when it is told to, and works a while in each."""

import ctypes
import os
import shutil
import sys
import tempfile
import time
import truth

# Longer than the processor takes in a copy, shorter than the pauses of a process that maps code all the time.
SECONDS = 0.1


def work(path):
    library = ctypes.CDLL(path)
    end = time.time() + SECONDS
    while time.time() < end:
        library.outer(100000)


def main(library, count):
    truth.ready()
    sys.stdin.readline()
    folder = tempfile.mkdtemp()
    try:
        for number in range(count):
            copy = os.path.join(folder, "%d.so" % number)
            shutil.copy(library, copy)
            work(copy)
    finally:
        shutil.rmtree(folder)
    while True:
        time.sleep(1)


main(sys.argv[1], int(sys.argv[2]))
