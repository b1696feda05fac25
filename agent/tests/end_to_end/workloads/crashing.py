"""Threads that wait each for something else, one that computes, and a crash of the main thread by the signal with this number.

Before it the program prints what it knows of the stacks itself, as JSON: of each thread its name and its functions with
their files and lines, the innermost first.
"""

import json
import os
import resource
import sys
import threading
import time

import truth


class Pool(object):
    def __init__(self):
        self.jobs = threading.Lock()
        self.jobs.acquire()

    def work(self):
        self.jobs.acquire()


def sleeps():
    time.sleep(1000)


# On one line: which one it is at does not depend on the moment.
def computes():
    while True: sum(range(1000))


def nested(depth):
    if depth:
        nested(depth - 1)
    else:
        sleeps()


def stack(frame):
    functions = []
    while frame is not None:
        code = frame.f_code
        functions.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return functions


def report(own):
    frames = sys._current_frames()
    frames[threading.current_thread().ident] = own
    names = dict((thread.ident, thread.name) for thread in threading.enumerate())
    print(json.dumps([[names[thread], stack(frame)] for thread, frame in frames.items()]))
    sys.stdout.flush()


def crash(number, text):
    report(sys._getframe()); os.kill(os.getpid(), number)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    pool = Pool()
    truth.start("sleeps", sleeps)
    truth.start("nested", nested, 300)
    truth.start("works", pool.work)
    truth.start("computes", computes)
    # All of them are where they stay.
    time.sleep(0.5)
    crash(int(sys.argv[1]), "what the main thread does")
