"""Collects garbage in about half of its CPU time.

A file has, in nanoseconds, the CPU time in which it has collected and all that it has used.
"""

import gc
import os
import struct
import sys
import time

import truth


class Node(object):
    def __init__(self, next):
        self.next = next


def alive(count):
    """Objects that a collection visits and does not free."""
    nodes = [Node(None)]
    for _ in range(count):
        nodes.append(Node(nodes[-1]))
    return nodes


def collects():
    gc.collect()


def computes():
    for _ in range(300000):
        pass


def now():
    return int(time.process_time() * 1e9)


gc.disable()
nodes = alive(150000)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
collected = 0
os.pwrite(file, struct.pack("QQ", 0, now()), 0)
truth.ready()
while True:
    before = now()
    collects()
    after = now()
    collected += after - before
    computes()
    os.pwrite(file, struct.pack("QQ", collected, now()), 0)
