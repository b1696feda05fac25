"""A thread that is busy in another interpreter."""

import threading
import truth

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

INNER = """
def inner():
    while True: pass

inner()
"""


def outer():
    interpreter = interpreters.create()
    truth.report()
    truth.ready(), interpreters.run_string(interpreter, INNER)


truth.start("outer", outer)
threading.Event().wait()
