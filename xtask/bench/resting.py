"""Threads of which a pass finds that they have not run since the last one, or that they have.

Arguments: SECONDS, and as a number how many threads there are, and whether each wakes up twenty times
a second: with a 1 at the end
"""

import threading
import time

from work_units import counts, number, seconds

WAKE_EVERY = 0.05

threads, wakes = divmod(number(5000), 10)
never = threading.Event()


def sleep():
    while True:
        time.sleep(WAKE_EVERY)


threading.stack_size(64 << 10)
for _ in range(threads):
    threading.Thread(target=sleep if wakes else never.wait, daemon=True).start()
counts[0] = 1
time.sleep(seconds())
