"""A thread with a name of its own gets another one for each line of standard input."""

import sys
import threading
import truth

started = threading.Event()


def busy():
    truth.report() or started.set()
    while True: pass


thread = threading.Thread(target=busy, name="before", daemon=True)
thread.start()
started.wait()
print("ready", flush=True)
for line in sys.stdin:
    thread.name = line.strip()
