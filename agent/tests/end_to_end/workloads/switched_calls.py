"""Greenlets that take turns in each thread, every one in functions of its own, which run and wait for microseconds.

A call is legal if it is named here as `caller@line callee`, where `line` is a mark at the end of a
line of this file.

call: left@left-work left_work
call: left@left-wait left_wait
call: left_work@left-leaf left_leaf
call: right@right-outer right_outer
call: right_outer@right-work right_work
call: right_outer@right-wait right_wait
"""

import time

import greenlet
import truth


def left(turns):
    while True:
        left_work(turns)  # line: left-work
        left_wait()  # line: left-wait


def left_work(turns):
    left_leaf()  # line: left-leaf
    # The first time, what is passed is the argument of the function.
    turns["right"].switch(turns)


def left_leaf():
    for _ in range(100):
        pass


def left_wait():
    time.sleep(0.00002)


def right(turns):
    while True:
        right_outer(turns)  # line: right-outer


def right_outer(turns):
    right_work()  # line: right-work
    right_wait(turns)  # line: right-wait


def right_work():
    for _ in range(100):
        pass


def right_wait(turns):
    time.sleep(0.00002)
    turns["left"].switch()


def take_turns():
    turns = {"left": greenlet.greenlet(left), "right": greenlet.greenlet(right)}
    turns["left"].switch(turns)


if __name__ == "__main__":
    for number in range(3):
        truth.start("turns-%d" % number, take_turns)
    truth.ready()
    take_turns()
