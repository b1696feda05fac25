"""Two threads use their CPU with the global lock released, a third one keeps it busy."""

import hashlib
import threading
import time
import truth
import zlib

BUFFER = bytes(range(256)) * (16 << 10)

started = []


def hashing():
    started.append(truth.report())
    while True: hashlib.sha256(BUFFER)


def compressing():
    started.append(truth.report())
    while True: zlib.compress(BUFFER, 1)


def counting():
    started.append(truth.report())
    while True: pass


def begin(function):
    function()


for function in hashing, compressing, counting:
    threading.Thread(target=begin, args=(function,), name=function.__name__, daemon=True).start()

while len(started) < 3:
    time.sleep(0.01)
print("ready", flush=True)
threading.Event().wait()
