"""Five tasks take turns under a library that switches between them: its name is the argument."""

import sys
import truth


def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def work():
    fibonacci(14)


def greenlet():
    import greenlet

    def run():
        while True:
            work()
            tasks.append(tasks.pop(0))
            tasks[0].switch()

    tasks = [greenlet.greenlet(run) for _ in range(5)]
    truth.ready()
    tasks[0].switch()


def gevent():
    import gevent

    def run():
        while True:
            work()
            gevent.sleep(0)

    tasks = [gevent.spawn(run) for _ in range(5)]
    truth.ready()
    gevent.joinall(tasks)


def eventlet():
    import eventlet

    def run():
        while True:
            work()
            eventlet.sleep(0)

    tasks = [eventlet.spawn(run) for _ in range(5)]
    truth.ready()
    tasks[0].wait()


def uvloop():
    import asyncio

    import uvloop

    async def run():
        while True:
            work()
            await asyncio.sleep(0)

    async def main():
        truth.ready()
        await asyncio.gather(*[run() for _ in range(5)])

    uvloop.install()
    asyncio.run(main())


globals()[sys.argv[1]]()
