"""A master that loads a catalog and forks workers, which share it with their master until they write to it."""

import gc
import os
import time


class Item:
    def __init__(self, number):
        self.name = "item %d" % number
        self.price = number * 1.5


def load():
    return [Item(number) for number in range(60000)]


def find(price):
    """The items above a price: each that is looked at has its reference count changed."""
    return [item for item in catalog if item.price > price]


def work(master):
    # As with `max_requests` of gunicorn, a worker ends after some.
    for request in range(20):
        if os.getppid() != master:
            break
        find(89000 + request)
        time.sleep(0.01)
        if request == 15:
            gc.collect()
    os._exit(0)


def main():
    master = os.getpid()
    running = set()
    while True:
        while len(running) < 2:
            worker = os.fork()
            if worker == 0:
                work(master)
            running.add(worker)
        running.discard(os.wait()[0])


catalog = load()
print("ready", flush=True)
main()
