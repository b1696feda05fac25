"""The same with locks that do not say who holds them, and two threads that wait for a condition whose lock they have released."""

import threading
import time

import deadlock
import truth


class Bank(deadlock.Bank):
    kind = staticmethod(threading.Lock)

    def transfer(self, source, target, barrier):
        # With other blocks and iterators around the statements.
        for _ in range(1):
            try:
                with source:
                    barrier.wait()
                    for _ in range(1):
                        with target:
                            pass
            finally:
                pass

    def transfer_otherwise(self, source, target, barrier):
        with source:
            barrier.wait()
            self.take(target)

    def take(self, target):
        with target:
            pass


def wait(lock, condition):
    with lock:
        condition.wait()


if __name__ == "__main__":
    lock = threading.Lock()
    condition = threading.Condition(lock)
    truth.start("waits", wait, lock, condition)
    truth.start("waits too", wait, lock, condition)
    deadlock.block(Bank())
    truth.ready()
    time.sleep(1000)
