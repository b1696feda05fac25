"""Three threads each of which holds a lock and waits for that of the next, and one that waits for them."""

import threading
import time

import truth


class Bank(object):
    kind = staticmethod(threading.RLock)

    def __init__(self):
        self.first = self.kind()
        self.second = self.kind()
        self.third = self.kind()

    def transfer(self, source, target, barrier):
        with source:
            barrier.wait()
            with target:
                pass

    def transfer_otherwise(self, source, target, barrier):
        # More than once, as only such a lock may be.
        with source:
            self.transfer(source, target, barrier)

    def audit(self):
        with self.first:
            pass


def block(bank):
    """Starts the threads, and returns when they wait."""
    barrier = threading.Barrier(4)
    truth.start("one", bank.transfer, bank.first, bank.second, barrier)
    truth.start("two", bank.transfer_otherwise, bank.second, bank.third, barrier)
    truth.start("three", bank.transfer, bank.third, bank.first, barrier)
    barrier.wait()
    truth.start("audit", bank.audit)
    time.sleep(0.3)


if __name__ == "__main__":
    block(Bank())
    truth.ready()
    time.sleep(1000)
