"""Many very short calls of functions and methods: the stack changes every microsecond or less.

Arguments: SECONDS
"""

import time

from work_units import counts, seconds


class Node(object):
    __slots__ = ("value", "following")

    def __init__(self, value):
        self.value = value
        self.following = None

    def get(self):
        return self.value

    def set(self, value):
        self.value = value

    def link(self, other):
        self.following = other
        return other


def add(a, b):
    return a + b


def clamp(number):
    return number & 0xFFFF


def step(node, number):
    value = clamp(add(node.get(), number))
    node.set(value)
    return value


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def unit(ring):
    total = 0
    node = ring
    for number in range(200):
        total = add(total, step(node, number))
        node = node.following
    return total + fibonacci(10)


def main():
    end = time.time() + seconds()
    ring = Node(1)
    last = ring
    for value in range(16):
        last = last.link(Node(value))
    last.link(ring)
    while time.time() < end:
        unit(ring)
        counts[0] += 1


main()
