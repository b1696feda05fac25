"""Three threads each of which holds a lock of another object and waits for that of the next, one that waits for them, one
that waits for the lock of a thread that sleeps, and some that wait for locks that do not say who holds them: of a thread
that has entered it by a statement, of one that has called its method, of one of several that have entered it, of which the
others have given it back to wait for a condition, or to take it again, and of one that waits for the end of the thread that
wants it.
"""

import threading
import time

import truth


class Bank(object):
    def __init__(self):
        self.locks = dict((name, threading.RLock()) for name in ("first", "second", "third", "kept"))
        self.plain = threading.Lock()
        self.called = threading.Lock()
        self.guard = threading.Lock()
        self.turn = threading.Lock()
        self.changed = threading.Condition(self.guard)


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


def calls(bank, kept):
    bank.called.acquire()
    kept.set()
    time.sleep(1000)


def asks_for_called(bank):
    with bank.called:
        pass


def awaits_change(bank, kept):
    with bank.guard:
        kept.set()
        while True:
            bank.changed.wait()


def takes_again(bank, kept):
    with bank.guard:
        bank.guard.release()
        kept.set()
        bank.turn.acquire()
        bank.guard.acquire()


class Worker(threading.Thread):
    """Waits for a lock of its own, which who waits for its end has."""

    def __init__(self):
        super(Worker, self).__init__()
        self.daemon = True
        self.own_lock = threading.Lock()

    def run(self):
        asks_for_own(self)


def asks_for_own(worker):
    with worker.own_lock:
        pass


def joins(bank, kept):
    worker = Worker()
    with worker.own_lock:
        worker.start()
        kept.set()
        worker.join()


def guards(bank, kept):
    with bank.guard:
        kept.set()
        time.sleep(1000)


def asks_for_guard(bank):
    with bank.guard:
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
    bank.turn.acquire()
    for function in (calls, joins, awaits_change, takes_again, guards):
        begun = threading.Event()
        truth.start(function.__name__, function, bank, begun)
        begun.wait()
    bank.turn.release()
    for function in (asks_for_called, asks_for_guard):
        truth.start(function.__name__, function, bank)
    time.sleep(0.3)
    truth.ready()
    time.sleep(1000)
