"""Three threads each of which holds a lock of another object and waits for that of the next, one that waits for them, one
that waits for the lock of a thread that sleeps, and one that waits for a lock that does not say who holds it.
"""

import threading
import time

import truth


class Bank(object):
    def __init__(self):
        self.locks = dict((name, threading.RLock()) for name in ("first", "second", "third", "kept"))
        self.plain = threading.Lock()


class Clerk(object):
    """Has no locks itself."""

    def __init__(self):
        self.ready = threading.Event()

    def transfer(self, bank, source, target, others):
        with bank.locks[source]:
            self.ready.set()
            for other in others:
                other.ready.wait()
            with bank.locks[target]:
                pass


def audit(bank):
    with bank.locks["first"]:
        pass


def keeps(bank, kept):
    with bank.locks["kept"], bank.plain:
        kept.set()
        time.sleep(1000)


def asks(bank):
    bank.locks["kept"].acquire()


def asks_for_plain(bank):
    with bank.plain:
        pass


if __name__ == "__main__":
    bank = Bank()
    clerks = [Clerk(), Clerk(), Clerk()]
    truth.start("one", clerks[0].transfer, bank, "first", "second", clerks)
    truth.start("two", clerks[1].transfer, bank, "second", "third", clerks)
    truth.start("three", clerks[2].transfer, bank, "third", "first", clerks)
    kept = threading.Event()
    truth.start("keeps", keeps, bank, kept)
    for ready in [kept] + [clerk.ready for clerk in clerks]:
        ready.wait()
    truth.start("audit", audit, bank)
    truth.start("asks", asks, bank)
    truth.start("asks for plain", asks_for_plain, bank)
    time.sleep(0.3)
    truth.ready()
    time.sleep(1000)
