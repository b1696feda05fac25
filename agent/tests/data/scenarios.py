# -*- coding: utf-8 -*-
"""Brings threads to blocked points of all kinds, writes their stacks, and waits.

For Python 2.7 and 3.6 to 3.15: what a version lacks is made with exec and left out where it does
not compile. Arguments: how deep to recurse, and anything to leave out what runs files of the
standard library.

Writes lines of UTF-8: the version; then for each thread the word "thread", its identifier, its
name if it is a threading.Thread, and its scenario, and its frames, innermost first, as name, file, first line and line with tabs between; an
empty line after the last. The line is empty where there is none. It waits until its standard input
is closed.
"""

import collections
import gc
import os
import platform
import sys
import threading
import time
import weakref

try:
    import _thread
except ImportError:
    import thread as _thread

try:
    import ctypes
except ImportError:
    ctypes = None

DEPTH = int(sys.argv[1])
WITH_LIBRARY = len(sys.argv) < 3
PYTHON_2 = sys.version_info[0] == 2

# Bytes of a name that are kept.
TEXT_BYTES = 1024

GATE, _ = os.pipe()
scenarios = []
blocked = []
scenario_of = {}
names = {}


def block():
    blocked.append(None); os.read(GATE, 1)  # one line, so one line number


def scenario(function):
    scenarios.append(function)
    return function


def define(source, file="<string>"):
    """The scenario that newer syntax defines, where the version has that."""
    try:
        scope = dict(globals())
        exec(compile(source, file, "exec"), scope)
        scenario(scope["scenario"])
    except SyntaxError:
        pass


# Calls.


@scenario
def plain():
    def inner(*arguments, **options):
        block()

    def outer(function):
        return [
            0,
            function(
                1,
                two=2,
            ),
        ]

    outer(inner)


class Outer(object):
    class Inner(object):
        def __init__(self):
            self.method(1)

        def method(self, argument):
            return self.class_method()

        @classmethod
        def class_method(cls):
            return cls.static_method()

        @staticmethod
        def static_method():
            return Derived()


class Base(object):
    def __init__(self):
        self.value

    def __getattr__(self, name):
        return self[name]

    def __getitem__(self, key):
        return self + key

    def __add__(self, other):
        with self:
            return self == other

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def __eq__(self, other):
        return hash(self)

    def __hash__(self):
        block()


class Derived(Base):
    def __init__(self):
        super(Derived, self).__init__()


@scenario
def methods():
    Outer.Inner()


@scenario
def lambdas_and_comprehensions():
    call = lambda function: (
        [function() for _ in (1,)]
    )
    call(
        lambda: {
            key: list(
                value() for value in [
                    lambda: {block() for _ in "x"},
                ]
            )
            for key in range(3)
        }
    )


def decorator(function):
    def wrapper(*arguments, **options):
        return function(*arguments, **options)

    return wrapper


@scenario
@decorator
@decorator
def decorated():
    @decorator
    def local():
        @blocking_decorator
        def never():
            pass

    local()


def blocking_decorator(function):
    block()


@scenario
def class_bodies():
    class Meta(type):
        def __new__(meta, name, bases, scope):
            class Body(object):
                nested = [block() for _ in range(1)]

    Meta("Made", (), {})


# Code of other files.


@scenario
def made_code():
    inner = compile("\n\n(lambda: block())()", "made up/eval \t file", "eval")
    outer = compile("\n" * 70000 + "eval(inner)", "/no/such/file.py", "exec")
    exec(outer, {"inner": inner, "eval": lambda code: eval(code, {"block": block})})


@scenario
def many_lines():
    lines = ["def function():"] + ["    value = (%d, [])" % line for line in range(9000)]
    scope = {"block": block}
    exec(compile("\n".join(lines + ["    block()"]), "many lines", "exec"), scope)
    scope["function"]()


# From C back into Python.


class Key(object):
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return any(map(self.compare, [other]))

    def compare(self, other):
        block()


@scenario
def callbacks():
    import functools

    def add(left, right):
        sorted([2, 1], key=Key)

    def convert(value):
        functools.reduce(add, [1, 2, 3])

    def call():
        list(map(convert, "abc"))

    if ctypes:
        ctypes.CFUNCTYPE(None)(call)()
    else:
        call()


# Exceptions.


class Manager(object):
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        block()


@scenario
def exceptions():
    def fail():
        raise ValueError("on its way")

    try:
        try:
            fail()
        except ValueError:
            with Manager():
                raise KeyError
    finally:
        pass


@scenario
def finally_blocks():
    for _ in range(2):
        try:
            try:
                raise ValueError
            except ValueError as error:
                raise KeyError(error)
            finally:
                block()
        except KeyError:
            continue


# What the interpreter calls by itself.


class Dying(object):
    def __del__(self):
        block()


@scenario
def finalizers():
    def called(reference):
        value = Dying()
        value = None

    class Target(object):
        pass

    target = Target()
    reference = weakref.ref(target, called)
    del target
    return reference


@scenario
def collections_of_garbage():
    class Cycle(object):
        def __init__(self):
            self.me = self

        def __del__(self):
            block()

    if PYTHON_2:
        # Cycles with finalizers are not collected: a callback of their neighbour is.
        class Plain(object):
            pass

        cycle, value = Plain(), Dying()
        cycle.me = cycle
        cycle.value = value
        del cycle, value
    else:
        Cycle()
    gc.collect()


# Tracing.


@scenario
def traced():
    def trace(frame, event, argument):
        if event == "line" and frame.f_code.co_name == "inner":
            sys.settrace(None)
            block()
        return trace

    def inner(value):
        value += 1
        return value

    sys.settrace(trace)
    inner(
        1
    )


@scenario
def traced_call():
    def trace(frame, event, argument):
        if event == "call" and frame.f_code.co_name == "inner":
            block()

    def inner(value):
        return value

    sys.settrace(trace)
    inner(1)


@scenario
def traced_generator():
    def trace(frame, event, argument):
        if event == "return" and frame.f_code.co_name == "generate":
            block()
        return trace

    def generate():
        yield 1

    sys.settrace(trace)
    for _ in generate():
        pass


@scenario
def profiled():
    def profile(frame, event, argument):
        if event == "return" and frame.f_code.co_name == "inner":
            block()

    def inner():
        return sorted([2, 1])

    sys.setprofile(profile)
    inner()


@scenario
def profiled_c_call():
    def profile(frame, event, argument):
        if event == "c_call" and argument is sorted:
            sys.setprofile(None)
            block()

    sys.setprofile(profile)
    sorted(
        [1]
    )


# Generators.


def generate(depth):
    try:
        if depth:
            for value in generate(depth - 1):
                yield value
        else:
            yield 1
            block()
    finally:
        pass


@scenario
def generators():
    for _ in zip(generate(3), [1, 2]):
        list(generate(1))


@scenario
def closed_generator():
    def close():
        try:
            yield 1
        except GeneratorExit:
            block()

    generator = close()
    next(generator)
    generator.close()


@scenario
def thrown_into_generator():
    def catch():
        while True:
            try:
                yield 1
            except ValueError:
                block()

    generator = catch()
    next(generator)
    generator.throw(ValueError())


define(
    """
def inner():
    received = yield 1
    block()

def middle():
    yield 0
    yield from inner()

def outer():
    yield from \\
        middle()

def scenario():
    generator = outer()
    generator.send(None)
    generator.send(None)
    generator.send(2)
"""
)

define(
    """
class Awaitable:
    def __init__(self, values):
        self.values = values

    def __await__(self):
        yield from self.values
        (
            block()
        )

class Manager:
    async def __aenter__(self):
        await Awaitable([1, 2])

    async def __aexit__(self, *exception):
        pass

async def innermost():
    async with Manager():
        pass

async def chain(depth):
    if depth:
        return await chain(depth - 1)
    await innermost()

def scenario():
    coroutine = chain(3)
    while True:
        coroutine.send(None)
"""
)

define(
    """
async def numbers():
    try:
        yield 1
        yield 2
    finally:
        block()

async def doubled():
    async for number in numbers():
        yield 2 * number

async def gather():
    return [number async for number in doubled() if number]

def scenario():
    gather().send(None)
"""
)

define(
    """
match = 0

def scenario():
    match [Point(1), {"key": Point(2)}]:
        case [Point(x=0), _]:
            pass
        case [_, {"key": Point(x=2)}]:
            pass

class Point:
    def __init__(self, x):
        self._x = x

    @property
    def x(self):
        if self._x == 2:
            block()
        return self._x
"""
)

define(
    """
def scenario[T](argument: T = 1):
    type Alias = (lambda: block())()
    Alias.__value__
"""
)


# Instructions that were specialised for what they have seen.


class Specialised(object):
    def __init__(self, loops):
        self.loops = loops

    @property
    def attribute(self):
        return self[self.loops]

    def __getitem__(self, index):
        return self.method(index)

    def method(self, index):
        for value in self.iterate():
            if index == 0:
                block()
        return index

    def iterate(self):
        yield self.loops


@scenario
def specialised():
    def loop(made):
        made.attribute

    for loops in range(3000, -1, -1):
        loop(Specialised(loops))


# Names.

define(
    u"""
class Größe:
    def é(self, 名前):
        𐐀(lambda: 名前())

def 𐐀(ª):
    ª()

def scenario():
    Größe().é(block)
""".encode("utf-8")
)


@scenario
def file_names():
    def call(file, function):
        scope = {"function": function}
        if PYTHON_2:
            file = file.encode("utf-8")
        exec(compile("def inside():\n    function()", file, "exec"), scope)
        scope["inside"]()

    made = [u"caf\xe9.py", u"\u540d\u524d.py", u"\U0001f40d.py", u"a\nb\tc\x1b[1m\x7f\x85\u202e"]
    if not PYTHON_2:
        made.append(u"not utf-8 \udcff.py")
    function = block
    for file in made:
        function = (lambda file, function: lambda: call(file, function))(file, function)
    function()


@scenario
def long_names():
    source = "def {0}():\n    block()"
    function = block
    for character in [u"n", u"\xe9", u"\u540d", u"\U00010400"][: 1 if PYTHON_2 else 4]:
        # One as long as what is kept, and longer ones.
        for length in [255, 256, 511, 512, 1023, 1024, 1025, 3000]:
            name = character * length
            scope = {"block": function}
            exec(compile(source.format(name), name + "/" + name, "exec"), scope)
            function = scope[name]
    function()


# Stacks that are deep.


@scenario
def deep():
    def recurse(depth):
        if depth:
            recurse(
                depth - 1
            )
        else:
            block()

    recurse(DEPTH)


@scenario
def deep_through_c():
    def recurse(depth):
        return list(map(recurse, [depth - 1])) if depth else block()

    recurse(100)


@scenario
def deep_generators():
    def recurse(depth):
        for value in recurse(depth - 1) if depth else [block()]:
            yield value

    list(recurse(150))


if WITH_LIBRARY:

    @scenario
    def importing():
        class Finder(object):
            def find_spec(self, name, path, target=None):
                if name == "no_such_module":
                    block()

        if not PYTHON_2:
            sys.meta_path.insert(0, Finder())
            import no_such_module
        block()


class PlainThread(threading.Thread):
    """A thread with attributes of its own, before its name and after it."""

    def __init__(self, name):
        self.first, self.second = 1, 2
        super(PlainThread, self).__init__(target=plain, name=name)
        self.third = 3


class SlottedThread(threading.Thread):
    __slots__ = ("slot",)


def start_named_threads():
    thread_names = ["named", "n" * 2000]
    if not PYTHON_2:
        thread_names += [u"na\xefve", u"\u540d\u524d", u"\U0001f40d"]
    made = [threading.Thread(target=plain, name=name) for name in thread_names]
    made += [PlainThread("subclass"), SlottedThread(target=plain, name="slotted")]
    renamed = threading.Thread(target=plain)
    renamed.name = "renamed"
    # With a dictionary of its own, and with that of a class whose instances differ.
    inspected = threading.Thread(target=plain, name="inspected")
    vars(inspected)["extra"] = 1
    for number in range(40):
        setattr(made[0], "extra%d" % number, number)
    made += [renamed, inspected, threading.Thread(target=plain)]
    for thread in made:
        thread.daemon = True
        thread.start()
        names[thread.ident] = thread.name
    return len(made)


# As the standard library has it, in a file of its name.
OWN_THREADING = """
class Thread(object):
    def __init__(self, name):
        self._target = None
        self._name = name

    def _bootstrap(self):
        names[_thread.get_ident()] = self._name
        block()
"""


def start_own_threads():
    scope = {"names": names, "_thread": _thread, "block": block}
    exec(compile(OWN_THREADING, "threading.py", "exec"), scope)
    threads = [scope["Thread"](name) for name in ["worker", u"\u540d\u524d"]]
    for thread in threads:
        _thread.start_new_thread(thread._bootstrap, ())
    return len(threads)


def run(function):
    scenario_of[_thread.get_ident()] = function.__name__
    function()


def shown(text):
    """As the agent shows it."""
    if PYTHON_2:
        cut = len(text) > TEXT_BYTES
        text = text[:TEXT_BYTES].decode("utf-8", "replace")
    else:
        widest = max(map(ord, text), default=0)
        most = TEXT_BYTES // (1 if widest < 0x100 else 2 if widest < 0x10000 else 4)
        cut = len(text) > most
        text = text[:most]
    return u"".join(map(shown_character, text)) + (u"\u2026" if cut else u"")


def shown_character(character):
    point = ord(character)
    if character in u"\n\r\t":
        return {u"\n": u"\\n", u"\r": u"\\r", u"\t": u"\\t"}[character]
    if point < 0x20 or 0x7F <= point < 0xA0:
        return u"\\x%02x" % point
    is_surrogate = 0xD800 <= point < 0xE000 and not PYTHON_2
    if is_surrogate or character in u"\u2028\u2029\u202a\u202b\u202c\u202d\u202e":
        return u"\\u%04x" % point
    return character


def frames_of(frame):
    frames = []
    while frame:
        code = frame.f_code
        frames.append((code, frame.f_lineno))
        frame = frame.f_back
    return frames


def tell(main):
    before = None
    while True:
        frames = sys._current_frames()
        stacks = {ident: frames_of(frame) for ident, frame in frames.items()}
        del frames
        stacks[_thread.get_ident()] = frames_of(main)
        if stacks == before:
            break
        before = stacks
        time.sleep(0.05)
    known = {}
    lines = [platform.python_version()]
    for ident, frames in stacks.items():
        name = u"" if PYTHON_2 else shown(names.get(ident, u""))
        lines.append(u"thread\t%d\t%s\t%s" % (ident, name, scenario_of.get(ident, "none")))
        for code, line in frames:
            # Code objects of different files can be equal.
            if id(code) not in known:
                name = getattr(code, "co_qualname", code.co_name)
                known[id(code)] = u"%s\t%s\t%d" % (
                    shown(name),
                    shown(code.co_filename),
                    code.co_firstlineno,
                )
            lines.append(u"%s\t%s" % (known[id(code)], "" if line is None else line))
    output = getattr(sys.stdout, "buffer", sys.stdout)
    output.write((u"\n".join(lines + [u"", u""])).encode("utf-8"))
    output.flush()


def main():
    gc.disable()
    sys.setrecursionlimit(10 * DEPTH + 10000)
    _thread.stack_size(512 << 20)
    for function in scenarios:
        _thread.start_new_thread(run, (function,))
    expected = len(scenarios)
    if WITH_LIBRARY:
        expected += start_named_threads()
    else:
        expected += start_own_threads()
    while len(blocked) < expected:
        time.sleep(0.01)
    tell(sys._getframe()); os.read(0, 1); os._exit(0)  # one line, so one line number


main()
