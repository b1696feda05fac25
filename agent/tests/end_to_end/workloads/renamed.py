"""A thread with a name of its own gets another one for each line of standard input."""

import sys
import threading
import truth

started = threading.Event()


def busy():
    truth.report() or started.set()
    while True: pass


thread = truth.start("before", busy)
started.wait()
truth.ready()
for line in sys.stdin:
    thread.name = line.strip()
