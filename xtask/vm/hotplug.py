"""Keeps one processor busy in a function with the given name."""

import os
import sys


def busy():
    while True:
        sum(range(1000))


name, processor = sys.argv[1:]
os.sched_setaffinity(0, {int(processor)})
exec("def %s():\n    busy()" % name)
open("/tmp/" + name, "w").close()
locals()[name]()
