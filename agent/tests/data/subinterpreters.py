"""One thread runs code of three interpreters, one in the other, and waits in the innermost.

Others that it made run nothing; up to 3.12 it has a state in these too. For Python 3.8 and later. Writes a line when it is about to wait, until its standard input is
closed.
"""

import sys

VERSION = sys.version_info
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters


def create():
    if VERSION >= (3, 13):
        return interpreters.create("legacy")
    if VERSION >= (3, 9):
        return interpreters.create(isolated=False)
    return interpreters.create()


RUN = "exec" if VERSION >= (3, 13) else "run_string"

INNERMOST = """
import os
def innermost():
    os.write(1, b"waiting\\n"); os.read(0, 1); os._exit(0)
innermost()
"""

MIDDLE = """
import {0} as interpreters
def middle():
    interpreters.{1}({2}, {3!r})
middle()
"""


def outer():
    # One that runs nothing is between these two, another one is newer. They live as long as this.
    made = [create() for _ in range(4)]
    older, newer = made[0], made[2]
    code = MIDDLE.format(interpreters.__name__, RUN, int(newer), INNERMOST)
    getattr(interpreters, RUN)(older, code)


outer()
