"""Two greenlets take turns of some microseconds, each in functions of its own."""

import greenlet
import truth


def left_work():
    for _ in range(1000): pass
    right.switch()


def left():
    while True:
        left_work()


def right_work():
    for _ in range(1000): pass
    left.switch()


def right():
    while True:
        right_work()


left, right = greenlet.greenlet(left), greenlet.greenlet(right)
truth.ready()
left.switch()
