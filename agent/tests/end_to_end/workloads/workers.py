# A program that works for a while, starts copies of itself, which work and end, and waits for them.

import os
import sys
import time

clock = getattr(time, "process_time", None) or time.clock


def work(seconds):
    end = clock() + seconds
    while clock() < end:
        for _ in range(100):
            pass


def serve():
    work(0.05)
    os._exit(0)


def main(workers):
    # As long as a server needs to start, by when it is known that it runs Python.
    work(0.3)
    started = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            serve()
        started.append(pid)
    for pid in started:
        os.waitpid(pid, 0)


main(int(sys.argv[1]))
