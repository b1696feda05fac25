"""Tasks of asyncio that wait for all kinds of things.

When all of them wait, the program prints what it knows of them itself, as JSON: the name of each, its functions and lines,
the innermost first, and the names of the tasks that wait for it.

The first argument is what to do; see the end.
"""

import asyncio
import json
import sys
import threading
import time

# Tasks that were created on another thread, which `asyncio.all_tasks` does not list.
created_elsewhere = set()


async def innermost(queue):
    await queue.get()


async def inner(queue):
    await innermost(queue)


async def outer(queue):
    await inner(queue)


async def in_lock(lock):
    async with lock:
        raise AssertionError


class Awaitable:
    def __init__(self, queue):
        self.queue = queue

    def __await__(self):
        yield from inner(self.queue).__await__()


async def in_awaitable(queue):
    await Awaitable(queue)


async def numbers(queue):
    while True:
        yield await queue.get()


async def in_generator(queue):
    async for _ in numbers(queue):
        raise AssertionError


async def gathered(queue):
    await asyncio.gather(outer(queue), asyncio.sleep(10_000))


async def waits_for(task):
    await task


async def nested(depth, queue):
    if depth:
        await nested(depth - 1, queue)
    else:
        await queue.get()


async def sleeps():
    await asyncio.sleep(10_000)


async def all_kinds():
    queue = asyncio.Queue()
    lock = asyncio.Lock()
    await lock.acquire()
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(outer(queue), name="queue")
        group.create_task(in_lock(lock), name="lock")
        group.create_task(sleeps(), name="sleep")
        group.create_task(in_awaitable(queue), name="awaitable")
        group.create_task(in_generator(queue), name="generator")
        group.create_task(gathered(queue))
        group.create_task(nested(300, queue), name="nested")
        group.create_task(waits_for(first), name="same")
        group.create_task(waits_for(first), name="same")
        group.create_task(sleeps(), name="\x1b[31mred\n\u2028\U0001f40d")
        group.create_task(sleeps(), name="long" * 100)
        loop.call_later(0.2, report)


async def many(count):
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(sleeps(), name=f"number {number}")
        asyncio.get_running_loop().call_later(0.5, report)


async def circle():
    """Tasks that wait for each other, which only a program with a bug has."""
    tasks = []

    async def waits_for_next(number):
        await asyncio.sleep(0)
        await tasks[(number + 1) % len(tasks)]

    for number in range(3):
        tasks.append(asyncio.create_task(waits_for_next(number), name=f"circle {number}"))
    asyncio.get_running_loop().call_later(0.2, report)
    await asyncio.sleep(10_000)


def block():
    print("ready", flush=True)
    time.sleep(10_000)


async def blocks():
    block()


async def calls_blocking():
    await blocks()


async def running():
    async with asyncio.TaskGroup() as group:
        group.create_task(calls_blocking(), name="blocks")
        group.create_task(sleeps(), name="not started")


async def short():
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)


async def starts_short():
    while True:
        await asyncio.gather(*(short() for _ in range(100)))


async def churn():
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(starts_short(), name=f"churn {number}")
        print("ready", flush=True)


def functions(awaited):
    """The functions of a coroutine, the innermost first."""
    found = []
    while awaited is not None:
        for prefix, field in (("cr", "await"), ("gi", "yieldfrom"), ("ag", "await")):
            if hasattr(awaited, f"{prefix}_frame"):
                frame = getattr(awaited, f"{prefix}_frame")
                code = frame.f_code
                found.append([code.co_qualname, code.co_filename, frame.f_lineno])
                awaited = getattr(awaited, f"{prefix}_{field}")
                break
        else:
            # Wrappers refer to what they wrap, which Python does not show otherwise.
            import gc

            wrapped = ("coroutine_wrapper", "async_generator_asend")
            referents = gc.get_referents(awaited) if type(awaited).__name__ in wrapped else []
            awaited = referents[0] if referents else None
    found.reverse()
    return found


def waiting_for(future):
    """The names of the tasks that wait for a future."""
    names = []
    for awaiter in future._asyncio_awaited_by or ():
        if isinstance(awaiter, asyncio.Task):
            names.append(awaiter.get_name())
        else:
            names += waiting_for(awaiter)
    return sorted(names)


def report():
    tasks = asyncio.all_tasks(asyncio.get_running_loop()) | created_elsewhere
    known = [[it.get_name(), functions(it.get_coro()), waiting_for(it)] for it in tasks]
    print(json.dumps({"tid": threading.get_native_id(), "tasks": known}))
    print("ready", flush=True)


def in_thread(main):
    """Runs the loop in another thread than the one that creates the first task."""
    loop = asyncio.new_event_loop()
    first = loop.create_task(main, name="first")
    created_elsewhere.add(first)
    thread = threading.Thread(target=loop.run_until_complete, args=(first,), name="loop")
    thread.start()
    thread.join()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "thread":
        in_thread(all_kinds())
    else:
        asyncio.run(globals()[what](*map(int, arguments)))
