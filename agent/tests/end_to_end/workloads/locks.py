"""Threads that wait for one lock of each type, as long as the program runs.

Each prints `thread	lock`: the name and the class that the lock has.
"""

import multiprocessing
import sys
import threading
import time
import types

import truth

try:
    import queue
except ImportError:
    import Queue as queue


class Pool(object):
    """Locks as attributes, which nobody ever releases."""

    def __init__(self):
        self.plain = threading.Lock()
        self.recursive = threading.RLock()
        self.condition = threading.Condition()
        self.event = threading.Event()
        self.semaphore = threading.Semaphore(0)
        self.jobs = queue.Queue()
        self.full = queue.Queue(1)
        self.shared = multiprocessing.Lock()
        self.plain.acquire()
        self.recursive.acquire()
        self.full.put(None)
        self.shared.acquire()

    def in_plain(self):
        with self.plain:
            pass

    def in_recursive(self):
        with self.recursive:
            pass

    def in_condition(self):
        with self.condition:
            self.condition.wait()

    def in_event(self):
        self.event.wait()

    def in_semaphore(self):
        with self.semaphore:
            pass

    def in_jobs(self):
        self.jobs.get()

    def in_full(self):
        self.full.put(None)

    def in_shared(self):
        with self.shared:
            pass

    def in_argument(self):
        takes(self.plain)


class Part(object):
    def __init__(self):
        self.inner = threading.Lock()
        self.inner.acquire()


class Slotted(object):
    __slots__ = ("padding", "inner")

    def __init__(self):
        self.inner = threading.Lock()
        self.inner.acquire()


class SlottedToo(Slotted):
    __slots__ = ("more",)


class Registry(object):
    of_class = threading.Lock()

    def __init__(self):
        self.locks = {"orders": threading.Lock(), 7: threading.RLock()}
        self.shards = [threading.Lock(), threading.Lock()]
        for lock in list(self.locks.values()) + self.shards:
            lock.acquire()

    def in_class(self):
        with self.of_class:
            pass


class Whole(object):
    """Locks that are no attributes of its own."""

    def __init__(self):
        self.part = Part()
        self.locks = {"orders": threading.Lock()}
        self.locks["orders"].acquire()
        self.registry = Registry()

    def in_slot(self, other):
        with other.inner:
            pass

    def in_entry_of_other(self, other, key):
        with other.locks[key]:
            pass

    def in_item_of_other(self, other, nth):
        other.shards[nth].acquire()

    def in_entry_of_part(self):
        with self.registry.locks["orders"]:
            pass

    def in_other(self, other):
        with other.inner:
            pass

    def in_part(self):
        with self.part.inner:
            pass

    def in_entry(self):
        with self.locks["orders"]:
            pass


def takes(lock):
    with lock:
        pass


of_module = threading.Lock()


def in_of_module():
    of_module.acquire()


part_of_module = Part()


def in_part_of_module():
    with part_of_module.inner:
        pass


module = types.ModuleType("module")
module.of_other = threading.Lock()


def in_of_other_module():
    with module.of_other:
        pass


own_queue = types.ModuleType("own_queue")
own_queue.of_queue = threading.Lock()
# In a file that is called as one of Python's own.
exec(compile("def in_own_queue():\n    with of_queue:\n        pass", "/srv/shop/queue.py", "exec"), vars(own_queue))


def in_entry_of_variable(key):
    locks = {key: threading.Lock()}
    locks[key].acquire()
    with locks[key]:
        pass


def in_unnamed(lock):
    with lock:
        pass


def in_join(thread):
    thread.join()


def expect(thread, name, lock):
    sys.stdout.write("%s\t%s (%s)\n" % (thread, name, lock.__class__.__name__))


def wait_for_others():
    """Those that are found by way of other objects than `self`."""
    whole, slotted, registry = Whole(), SlottedToo(), Registry()
    Registry.of_class.acquire()
    module.of_other.acquire()
    expect("in_slot", "SlottedToo.inner", slotted.inner)
    truth.start("in_slot", whole.in_slot, slotted)
    expect("in_entry_of_other", "Registry.locks[7]", registry.locks[7])
    truth.start("in_entry_of_other", whole.in_entry_of_other, registry, 7)
    expect("in_item_of_other", "Registry.shards[1]", registry.shards[1])
    truth.start("in_item_of_other", whole.in_item_of_other, registry, 1)
    expect("in_entry_of_part", 'Registry.locks["orders"]', whole.registry.locks["orders"])
    truth.start("in_entry_of_part", whole.in_entry_of_part)
    expect("in_class", "Registry.of_class", Registry.of_class)
    truth.start("in_class", registry.in_class)
    expect("in_of_other_module", "module.of_other", module.of_other)
    truth.start("in_of_other_module", in_of_other_module)
    own_queue.of_queue.acquire()
    expect("in_own_queue", "of_queue", own_queue.of_queue)
    truth.start("in_own_queue", own_queue.in_own_queue)
    expect("in_entry_of_variable", 'locks["orders"]', module.of_other)
    truth.start("in_entry_of_variable", in_entry_of_variable, "orders")


if __name__ == "__main__":
    pool = Pool()
    of_module.acquire()
    for name, lock in sorted(vars(pool).items()):
        expect("in_" + name, "Pool." + name, lock)
        truth.start("in_" + name, getattr(pool, "in_" + name))
    expect("in_argument", "Pool.plain", pool.plain)
    truth.start("in_argument", pool.in_argument)
    expect("in_of_module", "of_module", of_module)
    truth.start("in_of_module", in_of_module)
    whole, other = Whole(), Part()
    expect("in_other", "Part.inner", other.inner)
    truth.start("in_other", whole.in_other, other)
    expect("in_part", "Part.inner", whole.part.inner)
    truth.start("in_part", whole.in_part)
    expect("in_entry", 'Whole.locks["orders"]', whole.locks["orders"])
    truth.start("in_entry", whole.in_entry)
    expect("in_part_of_module", "Part.inner", part_of_module.inner)
    truth.start("in_part_of_module", in_part_of_module)
    wait_for_others()
    unnamed = [threading.Lock()]
    unnamed[0].acquire()
    sys.stdout.write("in_unnamed\tLock\n")
    truth.start("in_unnamed", in_unnamed, unnamed[0])
    joined = [truth.start("joined", time.sleep, 1000)]
    # From 3.0 on a thread has its name.
    sys.stdout.write("in_join\tThread%s\n" % (' "joined"' if sys.version_info >= (3,) else ""))
    truth.start("in_join", in_join, joined[0])
    # All of them wait.
    time.sleep(0.3)
    truth.ready()
    time.sleep(1000)
