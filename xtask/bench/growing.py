"""Grows by about 130 MB in one way when it is told to, and ends when it is told to.

Arguments: SECONDS WAY

The numbers in the file: 0 is 1 when it waits, 1 what it is told (1 to grow, 2 to end), 2 what tracemalloc
has of its growth, in bytes, 3 is 1 when it has grown.
"""

import json
import random
import threading
import time
import tracemalloc

from work_units import counts, number, seconds

MEGABYTES = 130
KEPT = []


def small_objects():
    KEPT.append([("name %d" % nth, {"nth": float(nth)}) for nth in range(MEGABYTES * 2700)])


def blocks(megabytes=MEGABYTES):
    randomly = random.Random(7)
    left = megabytes << 20
    while left > 0:
        size = int(600 * (100000.0 / 600) ** randomly.random())
        KEPT.append(b"\1" * size)
        left -= size


def large_blocks():
    for _ in range(MEGABYTES // 10):
        KEPT.append(b"\1" * (10 << 20))


def in_threads():
    threads = [threading.Thread(target=blocks, args=(MEGABYTES // 8,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def documents():
    text = json.dumps([{"id": nth, "name": "n" * (nth % 50), "list": [nth] * 5} for nth in range(1000)])
    for _ in range(MEGABYTES * 2):
        KEPT.append(json.loads(text))


WAYS = [small_objects, blocks, large_blocks, in_threads, documents]


def wait_for(told, end):
    while counts[1] != told and time.time() < end:
        time.sleep(0.01)


def traced():
    return tracemalloc.get_traced_memory()[0]


def main():
    end = time.time() + seconds()
    counts[0] = 1
    wait_for(1, end)
    before = traced()
    WAYS[number(0)]()
    counts[2] = max(traced() - before, 0)
    counts[3] = 1
    wait_for(2, end)


main()
