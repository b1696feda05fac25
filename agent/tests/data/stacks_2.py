"""The same as `stacks.py` for Python 2, with the kinds of frames that it has."""

import platform
import sys
import thread
import threading


def tell(frame, argument):
    lines = [platform.python_version(), str(thread.get_ident()), str(id(argument))]
    while frame:
        code = frame.f_code
        lines.append("\t".join((code.co_name, code.co_filename, str(frame.f_lineno))))
        frame = frame.f_back
    sys.stdout.write("\n".join(lines + ["", ""]))
    sys.stdout.flush()


def wait(argument):
    tell(sys._getframe(), argument); sys.stdin.read()  # one line, so one line number


def recurse(depth):
    if depth:
        (
            recurse(depth - 1)
        )
    else:
        wait(object())


def generate():
    for depth in [300]:
        yield recurse(depth)


class Outer:
    class Inner:
        def method(self):
            return (lambda: next(generate()))()


def in_file(name, function):
    """Calls `function` from a function `name` in a file `name`, far down in it."""
    source = "\n" * 40000 + "def {0}(function):\n    function()\n".format(name)
    scope = {}
    exec compile(source, name + ".py", "exec") in scope
    scope[name](function)


def far_down():
    in_file("far_down_in_a_file", Outer.Inner().method)


if sys.argv[1] == "thread":
    worker = threading.Thread(target=far_down)
    worker.start()
    worker.join()
else:
    far_down()
