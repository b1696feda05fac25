"""Becomes another at each line that it reads: one more thread or one less, a library, a child, another program."""

import ctypes
import os
import sys
import threading

import truth


def in_thread():
    ended.wait()


def in_child():
    os.read(held_open, 1)
    os._exit(0)


def in_library(path):
    ctypes.CDLL(path).rest()


def in_program():
    word = "program"
    sys.stdin.readline()
    return word


def fork():
    if os.fork() == 0:
        os.close(closed_at_the_end)
        in_child()


def turn(line):
    if line == "thread":
        truth.start("more", in_thread)
    elif line == "end":
        ended.set()
    elif line == "fork":
        fork()
    elif line.startswith("/"):
        truth.start("library", lambda: in_library(line))
    else:
        os.execv(sys.executable, [sys.executable, "-E", "-s", "-B", __file__, "program"])


if __name__ == "__main__":
    if "program" in sys.argv:
        in_program()
    else:
        held_open, closed_at_the_end = os.pipe()
        ended = threading.Event()
        truth.ready()
        while True:
            turn(sys.stdin.readline().strip())
