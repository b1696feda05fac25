"""Computes in a function whose name and file are strings of a class that is derived from `str`."""

import sys
import truth

SOURCE = """
def made():
    while True: pass
"""


class Text(str):
    pass


names = {}
exec(compile(SOURCE, Text("derived.py"), "exec"), names)
made = names["made"]
if sys.version_info >= (3, 11):
    made.__code__ = made.__code__.replace(co_name=Text("derived"), co_qualname=Text("derived"))
elif sys.version_info >= (3, 8):
    made.__code__ = made.__code__.replace(co_name=Text("derived"))
truth.ready()
made()
