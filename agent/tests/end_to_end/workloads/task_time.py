"""Runs tasks of asyncio of several kinds, so many of each as the arguments say, until a line comes: some sleep, some wait
for an event, some for an item of a queue, and of some that live for milliseconds there are always so many. Two more keep
the loop busy half of the time, one of them by another task that starts at once, and one waits for its turn whenever it can.
Prints of the time until then how long it was, in seconds, and how much of it there were tasks of a kind, as JSON.
"""

import asyncio
import json
import random
import sys
import time

import truth

sleepers, waiters, getters, short = (int(argument) for argument in sys.argv[1:5])
# How long one task keeps the loop busy at a time.
BUSY = 0.02
seconds = {"busy": 0.0, "eager_child": 0.0, "late": 0.0, "short_lived": 0.0}


async def sleep_inside():
    while True:
        await asyncio.sleep(3600)


async def sleeper():
    await sleep_inside()


async def waiter(event):
    await event.wait()


async def getter(queue):
    await queue.get()


async def short_lived(end):
    await asyncio.sleep(end - time.perf_counter())


async def spawner(stop):
    while not stop.is_set():
        begin = time.perf_counter()
        end = begin + random.uniform(0.002, 0.04)
        task = asyncio.get_running_loop().create_task(short_lived(end))
        await task
        seconds["short_lived"] += time.perf_counter() - begin


def spin():
    end = time.perf_counter() + BUSY
    while time.perf_counter() < end:
        for number in range(50):
            number * number


async def busy(stop):
    while not stop.is_set():
        begin = time.perf_counter()
        spin()
        seconds["busy"] += time.perf_counter() - begin
        await asyncio.sleep(2 * BUSY)


async def eager_child():
    begin = time.perf_counter()
    spin()
    seconds["eager_child"] += time.perf_counter() - begin


async def eager_parent(stop):
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        asyncio.Task(eager_child(), loop=loop, eager_start=True)
        await asyncio.sleep(3 * BUSY)


async def late_one(stop):
    # Whenever it is due, something else may run.
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        future = loop.create_future()
        due = []
        loop.call_soon(lambda: (due.append(time.perf_counter()), future.set_result(None)))
        await future
        seconds["late"] += time.perf_counter() - due[0]


async def main():
    loop = asyncio.get_running_loop()
    stop, event, queue = asyncio.Event(), asyncio.Event(), asyncio.Queue()
    tasks = [loop.create_task(sleeper()) for _ in range(sleepers)]
    tasks += [loop.create_task(waiter(event)) for _ in range(waiters)]
    tasks += [loop.create_task(getter(queue)) for _ in range(getters)]
    tasks += [loop.create_task(spawner(stop)) for _ in range(short)]
    tasks += [loop.create_task(function(stop)) for function in (busy, eager_parent, late_one)]
    await asyncio.sleep(0.1)
    begin = time.perf_counter()
    for kind in seconds:
        seconds[kind] = 0.0
    truth.ready()
    await loop.run_in_executor(None, sys.stdin.readline)
    stop.set()
    print(json.dumps(dict(seconds, all=time.perf_counter() - begin)))
    sys.stdout.flush()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


asyncio.run(main())
