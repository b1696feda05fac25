"""As many threads as the argument says, all of which wait, between two that are busy."""

import sys
import threading
import time
import truth

waiting = threading.Lock()
waiting.acquire()
begin = threading.Event()
started = []


def wait():
    waiting.acquire()


def busy():
    begin.wait()
    started.append(truth.report())
    while True: pass


threading.stack_size(128 << 10)
truth.start("first", busy)
for _ in range(int(sys.argv[1])):
    truth.start("waiting", wait)
truth.start("last", busy)
begin.set()
while len(started) < 2:
    time.sleep(0.01)
truth.ready()
waiting.acquire()
