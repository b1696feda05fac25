"""Two threads use their CPU with the global lock released, a third one keeps it busy."""

import threading
import time
import truth
import zlib

BUFFER = bytes(bytearray(range(256))) * (16 << 10)

started = []


def packing():
    started.append(truth.report())
    while True: zlib.compress(BUFFER, 9)


def compressing():
    started.append(truth.report())
    while True: zlib.compress(BUFFER, 1)


def counting():
    started.append(truth.report())
    while True: pass


def begin(function):
    function()


for function in packing, compressing, counting:
    truth.start(function.__name__, begin, function)

while len(started) < 3:
    time.sleep(0.01)
truth.ready()
threading.Event().wait()
