"""Threads that live for some milliseconds, as those of a server that starts one for each request.

Each computes in `first` for a quarter of its time, and in `second` for the rest.
"""

import threading

import truth

_PART = 15000


def first():
    total = 0
    for value in range(_PART):
        total += value * value % 7
    return total


def second():
    total = 0
    for value in range(3 * _PART):
        total += value * value % 7
    return total


def serve():
    first()
    second()


def start():
    while True:
        thread = threading.Thread(target=serve)
        thread.daemon = True
        thread.start()
        thread.join()


if __name__ == "__main__":
    for _ in range(3):
        truth.start("client", start)
    truth.ready()
    start()
