"""Waits on a stack that is not the thread's own: in a greenlet, under gevent, or under uvloop.

Writes what `scenarios.py` writes, of its one thread.
"""

import os
import platform
import sys
import threading


def tell(frame):
    lines = [platform.python_version(), "thread\t%d\t\t%s" % (threading.get_ident(), sys.argv[1])]
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        place = (name, code.co_filename, code.co_firstlineno, frame.f_lineno)
        lines.append("\t".join(map(str, place)))
        frame = frame.f_back
    os.write(1, "\n".join(lines + ["", ""]).encode())


def wait():
    tell(sys._getframe()); os.read(0, 1); os._exit(0)  # one line, so one line number


def recurse(depth, function):
    for value in [depth]:
        [recurse(value - 1, function) if value else function()]


def greenlets():
    import greenlet

    def first():
        recurse(20, second.switch)

    def second():
        recurse(300, lambda: third.switch())

    def third():
        suspended.switch()
        recurse(10, wait)

    def give_back():
        recurse(30, third.switch)

    second, third = greenlet.greenlet(second), greenlet.greenlet(third)
    suspended = greenlet.greenlet(give_back, third)
    recurse(5, greenlet.greenlet(first).switch)


def gevent():
    import gevent

    def work(nth):
        gevent.sleep(0)
        recurse(nth, wait if nth == 3 else lambda: gevent.sleep(100))

    gevent.joinall([gevent.spawn(work, nth) for nth in range(5)])


def uvloop():
    import asyncio

    import uvloop

    async def innermost():
        await asyncio.sleep(0.001)
        recurse(3, wait)

    async def middle():
        await innermost()

    async def outermost():
        await asyncio.gather(asyncio.sleep(100), middle())

    uvloop.install()
    asyncio.run(outermost())


globals()[sys.argv[1]]()
