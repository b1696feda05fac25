"""Runs tasks of asyncio when a line comes, and prints the CPU time of each as JSON, by its name, and how long one slept.

A task without a name of its own counts for its coroutine, and what runs in no task for "". The first line of the input
says how much CPU time each of them has, in seconds.
"""

import asyncio
import json
import sys
import time

import truth

# Tasks without names.
NUMBERED = 200

spent = {}


def spend(label, seconds):
    start = now = time.thread_time()
    while now < start + seconds:
        for _ in range(2000):
            pass
        now = time.thread_time()
    spent[label] = spent.get(label, 0) + now - start


async def work(label, seconds):
    # Others run in between.
    for _ in range(10):
        spend(label, seconds / 10)
        await asyncio.sleep(0)


async def child(label, seconds):
    # Of the same task.
    await work(label, seconds)


class Service:
    async def answer(self, seconds):
        spend("Service.answer", seconds)

    async def log(self, seconds):
        # From now on its name is a text.
        asyncio.current_task().get_name()
        spend("Service.log", seconds)


async def block(seconds):
    # The thread waits, and the loop with it.
    start = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - start


async def main(seconds):
    loop = asyncio.get_running_loop()
    spend("main", seconds)
    loop.call_soon(spend, "", seconds)
    long = "a name of a task that has more than sixty characters, of which the rest is cut"
    tasks = [
        asyncio.create_task(work(name, seconds), name=name)
        for name in ("checkout", "na\xefve", "\u7ebf\u7a0b", "\U0001f40d in a task", long)
    ]
    tasks.append(asyncio.create_task(child("nested", seconds), name="nested"))
    service = Service()
    for _ in range(NUMBERED):
        tasks.append(asyncio.create_task(service.answer(seconds / NUMBERED)))
        tasks.append(asyncio.create_task(service.log(seconds / NUMBERED)))
    await asyncio.gather(*tasks)
    return await asyncio.create_task(block(seconds), name="blocking")


truth.ready()
seconds = float(sys.stdin.readline())
spend("", seconds)
asleep = asyncio.run(main(seconds))
spend("", seconds)
sys.stdout.write(json.dumps({"cpu": spent, "asleep": asleep}) + "\n")
sys.stdout.flush()
sys.stdin.readline()
