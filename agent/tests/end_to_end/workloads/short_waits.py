"""Waits of some microseconds between calls of some microseconds, on a few legal paths.

A call is legal if it is named here as `caller@line callee`, where `line` is a mark at the end of a
line of this file.

call: <module>@main main
call: main@left left
call: main@right right
call: left@left-work work
call: left@left-wait wait
call: right@right-shared shared
call: shared@shared-work work
call: shared@shared-wait wait
"""

import time

import truth


def left():
    work()  # line: left-work
    wait()  # line: left-wait


def right():
    shared()  # line: right-shared


def shared():
    work()  # line: shared-work
    wait()  # line: shared-wait


def work():
    for _ in range(100):
        pass


def wait():
    time.sleep(0.00002)


def main():
    while True:
        left()  # line: left
        right()  # line: right


if __name__ == "__main__":
    for number in range(3):
        truth.start("short-%d" % number, main)
    truth.ready()
    main()  # line: main
