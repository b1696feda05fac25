"""A lock that its first holder gives to the first of the two threads that wait for it, and then waits for a lock of the
second one, which has not run meanwhile: no deadlock.
"""

import threading
import time

import truth

HELD = 4.0


class Bank(object):
    def __init__(self):
        self.handed_on = threading.RLock()
        self.other = threading.RLock()

    def gives(self, taken):
        with self.handed_on:
            taken.set()
            time.sleep(HELD)
        with self.other:
            pass

    def gets(self):
        with self.handed_on:
            time.sleep(1000)

    def waits_still(self):
        with self.other:
            with self.handed_on:
                pass


if __name__ == "__main__":
    bank = Bank()
    taken = threading.Event()
    truth.start("gives", bank.gives, taken)
    taken.wait()
    truth.start("gets", bank.gets)
    time.sleep(0.3)
    truth.start("waits still", bank.waits_still)
    time.sleep(0.3)
    truth.ready()
    time.sleep(1000)
