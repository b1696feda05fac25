"""Three threads each of which holds a lock that does not say so and waits for that of the next, one that waits for them,
and two that wait for a condition whose lock they have released."""

import threading
import time

import truth


class Bank(object):
    def __init__(self):
        self.first = threading.Lock()
        self.second = threading.Lock()
        self.third = threading.Lock()

    def transfer(self, source, target, barrier):
        for _ in range(1):
            try:
                with source:
                    barrier.wait()
                    for _ in range(1):
                        with target:
                            pass
            finally:
                pass

    def transfer_by_another(self, source, target, barrier):
        with source:
            barrier.wait()
            self.take(target)

    def take(self, target):
        with target:
            pass

    def audit(self):
        with self.first:
            pass

    def wait(self, lock, condition):
        with lock:
            condition.wait()


if __name__ == "__main__":
    bank = Bank()
    barrier = threading.Barrier(4)
    truth.start("one", bank.transfer, bank.first, bank.second, barrier)
    truth.start("two", bank.transfer_by_another, bank.second, bank.third, barrier)
    truth.start("three", bank.transfer, bank.third, bank.first, barrier)
    lock = threading.Lock()
    condition = threading.Condition(lock)
    truth.start("waits", bank.wait, lock, condition)
    truth.start("waits too", bank.wait, lock, condition)
    barrier.wait()
    truth.start("audit", bank.audit)
    time.sleep(0.3)
    truth.ready()
    time.sleep(1000)
