"""Runs into a deep stack of frames of all kinds, writes what it looks like, and waits.

Lines of UTF-8: the version; the identifier of the thread; the address of the innermost
function's argument; then the frames, innermost first, as name, file and line with tabs between.
An empty line ends them. It waits until its standard input is closed.
"""

import platform
import sys
import threading


def tell(frame, argument):
    lines = [platform.python_version(), str(threading.get_ident()), str(id(argument))]
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        lines.append("\t".join((name, code.co_filename, str(frame.f_lineno))))
        frame = frame.f_back
    sys.stdout.buffer.write("\n".join(lines + ["", ""]).encode())
    sys.stdout.buffer.flush()


def wait(argument):
    tell(sys._getframe(), argument); sys.stdin.buffer.read()  # one line, so one line number


def recurse(depth):
    if depth:
        (
            recurse(depth - 1)
        )
    else:
        wait(object())


def generate():
    yield from (
        recurse(depth)
        for depth in [300]
    )


async def coroutine():
    for item in generate():
        pass


class Outer:
    class Inner:
        def method(self):
            return (lambda: next(coroutine().__await__(), None))()


class Constructed:
    def __init__(self, function):
        function()


def in_file(name, function):
    """Calls `function` from a function `name` in a file `name`, far down in it."""
    source = "\n" * 40000 + "def {0}(function):\n    function()\n".format(name)
    scope = {}
    exec(compile(source, name + ".py", "exec"), scope)
    scope[name](function)


def through_all_widths():
    in_file(
        "gr\u00f6\u00dfe",
        lambda: in_file(
            "\u65e5\u672c",
            lambda: in_file("\U00020000", Outer.Inner().method),
        ),
    )


if sys.argv[1] == "thread":
    thread = threading.Thread(target=through_all_widths)
    thread.start()
    thread.join()
else:
    Constructed(through_all_widths)
