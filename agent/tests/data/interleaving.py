"""Brings threads to blocked points below C code and Python code that call each other in all ways,
writes their stacks, and waits.

For Python 2.7 and 3.6 to 3.15. The names of functions say who calls them, in every version: c_* are
always called by C code, p_* always by Python code that does not leave its evaluation loop for it
(from 3.11 on); of others that depends.

Writes what `scenarios.py` writes, and waits until its standard input is closed. With the argument
"run" the threads run in C code in place of being blocked, for where the C library's own functions
cannot be unwound.
"""

import collections
import contextlib
import ctypes
import functools
import gc
import io
import itertools
import json
import mmap
import operator
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import weakref
import zlib

try:
    import asyncio
except ImportError:
    asyncio = None

try:
    import contextvars
except ImportError:
    contextvars = None

try:
    import _thread
except ImportError:
    import thread as _thread

PYTHON_2 = sys.version_info[0] == 2
MUST_RUN = sys.argv[1:] == ["run"]

if MUST_RUN:
    os.nice(19)
    # Pages that nobody writes to take no memory.
    ZEROS = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    wait = functools.partial(zlib.crc32, ZEROS)
else:
    GATE, _ = os.pipe()
    wait = functools.partial(os.read, GATE, 1)

scenarios = []
blocked = []
scenario_of = {}
names = {}


def p_block():
    blocked.append(None); wait()  # one line, so one line number


def scenario(function):
    scenarios.append(function)
    return function


def define(name, source):
    """The scenario of this name that newer syntax defines, where the version has that."""
    try:
        scope = dict(globals())
        exec(compile(source, "<string>", "exec"), scope)
        scenario(scope[name])
    except SyntaxError:
        pass


# Functions that C code takes.


@scenario
def p_sorted():
    def c_key(value):
        p_block()

    sorted([2, 1], key=c_key)


@scenario
def p_sorted_in_sorted():
    def c_inner(value):
        p_middle(value)

    def c_outer(value):
        p_call()

    def p_call():
        sorted([2, 1], key=c_inner)

    def p_middle(value):
        p_block()

    sorted([2, 1], key=c_outer)


@scenario
def p_mapped():
    def c_map(value):
        list(filter(c_filter, "a"))

    def c_filter(value):
        functools.reduce(c_reduce, [1, 2])

    def c_reduce(left, right):
        max([1, 2], key=c_key)

    def c_key(value):
        list(itertools.starmap(c_star, [(1, 2)]))

    def c_star(left, right):
        list(itertools.groupby([1], c_group))

    def c_group(value):
        for _ in iter(c_again, None):
            pass

    def c_again():
        p_block()

    list(map(c_map, "a"))


@scenario
def p_qsort():
    integers = ctypes.c_int * 3
    pointer = ctypes.POINTER(ctypes.c_int)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)

    def c_compare(left, right):
        p_block()
        return 0

    if MUST_RUN:
        compare(c_compare)(pointer(), pointer())
    else:
        ctypes.CDLL(None).qsort(integers(3, 1, 2), 3, 4, compare(c_compare))


@scenario
def p_callback_in_callback():
    kinds = [ctypes.CFUNCTYPE(None), ctypes.PYFUNCTYPE(None)]

    def c_inner():
        p_block()

    def c_outer():
        sorted([1], key=c_key)

    def c_key(value):
        kinds[1](c_inner)()

    kinds[0](c_outer)()


@scenario
def p_partial():
    def decorate(function):
        return functools.partial(function, 1)

    @decorate
    def c_partial(value):
        p_block()

    c_partial()


@scenario
def p_substituted():
    def c_replace(match):
        p_block()
        return ""

    re.sub(".", c_replace, "x")


@scenario
def p_json():
    def c_default(value):
        json.loads("[{}]", object_hook=c_hook)

    def c_hook(value):
        p_block()

    json.dumps([object()], default=c_default)


@scenario
def p_factories():
    def c_factory():
        p_block()

    class Missing(dict):
        def c_missing(self, key):
            collections.defaultdict(c_factory)[1]

        __missing__ = c_missing

    Missing()[1]


@scenario
def p_files():
    class File(io.RawIOBase):
        def readable(self):
            return True

        def c_read(self, buffer):
            p_block()

        readinto = c_read

    io.BufferedReader(File()).read(1)


# Slots of types.


class Slots(object):
    def c_getattr(self, name):
        return len(self)

    def c_len(self):
        return self + 1

    def c_add(self, other):
        return 1 - self

    def c_subtract(self, other):
        return self == other

    def c_equal(self, other):
        return operator.getitem(self, 1)

    def c_item(self, index):
        return 1 in self

    def c_contains(self, value):
        return next(iter(self))

    def c_iter(self):
        return hash(self)

    def c_hash(self):
        return self < 1

    def c_less(self, other):
        return "%s" % self

    def c_text(self):
        return format(self)

    def c_format(self, how):
        return self(1)

    def c_call(self, value):
        p_block()

    __getattr__ = c_getattr
    __len__ = c_len
    __add__ = c_add
    __rsub__ = c_subtract
    __eq__ = c_equal
    __getitem__ = c_item
    __contains__ = c_contains
    __iter__ = c_iter
    __hash__ = c_hash
    __lt__ = c_less
    __str__ = c_text
    __format__ = c_format
    __call__ = c_call


@scenario
def p_slots():
    Slots().unknown


@scenario
def p_descriptors():
    class Descriptor(object):
        def c_get(self, instance, owner):
            instance.by_set = 1

        __get__ = c_get

    class Setter(object):
        def c_set(self, instance, value):
            getattr(instance, "by_property")

        __set__ = c_set

    class Described(object):
        by_get = Descriptor()
        by_set = Setter()

        def c_property(self):
            return self.m_property

        by_property = property(c_property)

        @property
        def m_property(self):
            p_block()

    Described().by_get


@scenario
def p_made():
    class Meta(type):
        def c_call(cls):
            return type.__call__(cls)

        def c_is_instance(cls, value):
            return cls()

        __call__ = c_call
        __instancecheck__ = c_is_instance

    class Made(Meta("Base", (object,), {})):
        def c_new(cls):
            return object.__new__(cls)

        def c_init(self):
            p_method(self)

        __new__ = c_new
        __init__ = c_init

    def p_method(value):
        p_block()

    isinstance(1, Made)


@scenario
def p_managed():
    class Manager(object):
        def __init__(self):
            pass

        def __enter__(self):
            p_block()

        def __exit__(self, *exception):
            pass

    with Manager():
        pass


# What the interpreter calls by itself.


class Dying(object):
    def c_delete(self):
        p_block()

    __del__ = c_delete


@scenario
def p_deleted():
    value = Dying()
    value = None


@scenario
def p_weak_reference():
    def c_called(reference):
        value = Dying()
        del value

    class Target(object):
        pass

    target = Target()
    reference = weakref.ref(target, c_called)
    del target
    return reference


@scenario
def p_traced():
    def c_trace(frame, event, argument):
        p_block()

    def traced():
        pass

    sys.settrace(c_trace)
    traced()


@scenario
def p_imported():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "imported_in_a_thread.py"), "w") as module:
        module.write("from __main__ import p_block, shutil\n")
        module.write("def p_in_module():\n    p_block()\n")
        module.write("shutil.rmtree(%r)\n" % folder)
        module.write("p_in_module()\n")
    sys.path.insert(0, folder)
    import imported_in_a_thread


@scenario
def p_code():
    scope = {"p_block": p_block}
    source = "eval('(lambda: [p_block() for _ in [1]])()')"
    exec(compile(source, "<made>", "exec"), scope)


@scenario
def p_thread():
    def target(value):
        p_block()

    thread = threading.Thread(target=target, args=(1,), name="worker")
    thread.daemon = True
    thread.start()
    names[thread.ident] = thread.name
    p_block()


# Generators.


@scenario
def p_generators():
    def c_sent():
        yield 1
        for _ in looped():
            pass

    def looped():
        yield sum(c_summed())

    def c_summed():
        yield 1
        next(c_next())

    def c_next():
        generator = c_thrown()
        next(generator)
        yield generator.throw(ValueError())

    def c_thrown():
        try:
            yield 1
        except ValueError:
            generator = c_closed()
            next(generator)
            generator.close()

    def c_closed():
        try:
            yield 1
        finally:
            [value for value in deep(5)]

    def deep(depth):
        for value in deep(depth - 1) if depth else [p_block()]:
            yield value

    generator = c_sent()
    next(generator)
    generator.send(1)


@scenario
def p_managed_by_generator():
    @contextlib.contextmanager
    def c_manager():
        try:
            yield 1
        finally:
            p_block()

    with c_manager():
        raise ValueError


@scenario
def p_abandoned():
    def c_abandoned():
        try:
            yield 1
        finally:
            p_block()

    generator = c_abandoned()
    next(generator)
    del generator


define(
    "p_yield_from",
    """
def inner(depth):
    if depth:
        yield from inner(depth - 1)
    else:
        yield 1
        p_block()

def c_outer():
    yield from inner(4)

def p_yield_from():
    for _ in zip(c_outer(), [1, 2]):
        pass
"""
)

define(
    "p_coroutines",
    """
class Awaitable:
    def __await__(self):
        yield 1
        yield from map(c_map, [1])

class Manager:
    async def __aenter__(self):
        await Awaitable()

    async def __aexit__(self, *exception):
        pass

async def chain(depth):
    if depth:
        return await chain(depth - 1)
    async with Manager():
        pass

def c_map(value):
    coroutine = c_coroutine()
    coroutine.send(None)

async def c_coroutine():
    async for value in generate():
        pass

async def generate():
    yield 1
    p_block()

async def c_main():
    await chain(3)

def p_coroutines():
    coroutine = c_main()
    while True:
        coroutine.send(None)
"""
)

define(
    "p_thrown_from_coroutine",
    """
async def c_generate():
    try:
        yield 1
    except ValueError:
        p_block()

async def c_main():
    generator = c_generate()
    await generator.__anext__()
    await generator.athrow(ValueError())

def p_thrown_from_coroutine():
    c_main().send(None)
"""
)

if asyncio:
    define(
        "p_tasks",
        """
async def work():
    await asyncio.sleep(0)
    sorted([1], key=c_key)

def c_key(value):
    p_block()

async def gather():
    await asyncio.gather(work(), work())

def p_tasks():
    asyncio.new_event_loop().run_until_complete(gather())
"""
    )

if not (3, 9) <= sys.version_info < (3, 11):
    # In these the frames of what hands an exception on are told of, but run in no loop.
    define(
        "p_thrown",
        """
def thrown():
    try:
        yield 1
    except ValueError:
        p_block()

def delegates(depth):
    yield from delegates(depth - 1) if depth else thrown()

def c_key(value):
    generator = delegates(2)
    next(generator)
    generator.throw(ValueError())

def p_thrown():
    sorted([1], key=c_key)
""",
    )
    define(
        "p_cancelled",
        """
async def waits():
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        p_block()

async def chain(depth):
    return await (chain(depth - 1) if depth else waits())

async def cancel():
    task = asyncio.ensure_future(chain(2))
    await asyncio.sleep(0.01)
    task.cancel()
    await task

def p_cancelled():
    asyncio.new_event_loop().run_until_complete(cancel())
""",
    )

if contextvars:

    @scenario
    def p_context():
        @functools.lru_cache()
        def c_cached():
            contextvars.copy_context().run(c_in_context)

        def c_in_context():
            p_block()

        c_cached()


if not PYTHON_2:
    # In Python 2 these are called by Python code, or not at all.

    @scenario
    def p_compared():
        def c_compare(left, right):
            p_block()

        sorted([2, 1], key=functools.cmp_to_key(c_compare))

    @scenario
    def p_class_body():
        class c_Outer(object):
            class c_Inner(object):
                p_block()

    @scenario
    def p_subclass():
        class Base(object):
            def c_init_subclass(cls):
                p_block()

            __init_subclass__ = classmethod(c_init_subclass)

        class Derived(Base):
            pass

    @scenario
    def p_collected():
        class Cycle(object):
            def c_delete(self):
                p_block()

            __del__ = c_delete

        cycle = Cycle()
        cycle.me = cycle
        del cycle
        gc.collect()


# Instructions that were specialised for what they have seen.


class Seen(object):
    def __init__(self, left):
        self.left = left
        self.attribute

    @property
    def attribute(self):
        return self[self.left]

    def __getitem__(self, index):
        for value in self.iterate():
            return value

    def iterate(self):
        yield p_last(self.left)


def p_last(left):
    if left == 0:
        p_block()


@scenario
def p_specialised():
    for left in range(3000, -1, -1):
        Seen(left)


# Deep stacks.


@scenario
def p_deep():
    def p_recurse(depth):
        if depth:
            p_recurse(depth - 1)
        else:
            p_block()

    p_recurse(30)


@scenario
def p_deep_in_both():
    def c_recurse(depth):
        p_recurse(depth)

    def p_recurse(depth):
        if depth:
            list(map(c_recurse, [depth - 1]))
        else:
            p_block()

    p_recurse(8)


@scenario
def p_changing_ways():
    def c_key(depth):
        p_recurse(depth)

    def p_recurse(depth):
        if not depth:
            p_block()
        elif depth % 3:
            p_recurse(depth - 1)
        else:
            sorted([depth - 1], key=c_key)

    p_recurse(14)


def c_run(function):
    scenario_of[_thread.get_ident()] = function.__name__
    function()


def c_end():
    """Ends the program when its standard input is closed."""
    blocked.append(None); os.read(0, 1); os._exit(0)  # one line, so one line number


def frames_of(frame):
    frames = []
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        line = "" if frame.f_lineno is None else frame.f_lineno
        frames.append("%s\t%s\t%s\t%s" % (name, code.co_filename, code.co_firstlineno, line))
        frame = frame.f_back
    return frames


def tell(main):
    before = None
    while True:
        stacks = {ident: frames_of(frame) for ident, frame in sys._current_frames().items()}
        stacks[_thread.get_ident()] = frames_of(main)
        if stacks == before:
            break
        before = stacks
        time.sleep(0.05)
    lines = [platform.python_version()]
    for ident, frames in stacks.items():
        name = "" if PYTHON_2 else names.get(ident, "")
        lines.append("thread\t%d\t%s\t%s" % (ident, name, scenario_of.get(ident, "none")))
        lines += frames
    sys.stdout.write("\n".join(lines + ["", ""]))
    sys.stdout.flush()


def c_handle_signal(number, frame):
    tell(sys._getframe()); wait()  # one line, so one line number


def main():
    gc.disable()
    signal.signal(signal.SIGUSR1, c_handle_signal)
    _thread.start_new_thread(c_end, ())
    for function in scenarios:
        _thread.start_new_thread(c_run, (function,))
    # One scenario starts a thread of its own.
    while len(blocked) < len(scenarios) + 2:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGUSR1)
    while True:
        time.sleep(1)


main()
