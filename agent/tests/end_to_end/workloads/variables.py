# -*- coding: utf-8 -*-
"""Functions that wait with variables of every kind.

The program prints what it knows of the variables of each function itself, as JSON: the name of the function, its
arguments and its other variables, each with its `repr` in which objects have only their class, or null for what the
agent need not show as it is.
"""

import collections
import json
import sys
import threading
import time

IS_OLD = sys.version_info[0] == 2

# By function: arguments, and other variables, with what is expected.
known = {}


class Text(str):
    pass


class Number(int):
    pass


class Plain(object):
    def __init__(self):
        self.first = 1
        self.second = "two"
        self.third = None


class Items(list):
    pass


def module_of(value):
    kind = type(value)
    if kind.__module__ in ("builtins", "__builtin__"):
        return kind.__name__
    return "%s.%s" % (kind.__module__, kind.__name__)


def opaque(value):
    return "<%s at 0x%x>" % (module_of(value), id(value))


def note(function, arguments, variables):
    known[function] = [arguments, variables]


def texts(pairs):
    return [[name, repr(value)] for name, value in pairs]


def wait():
    print(json.dumps(known))
    print("ready")
    sys.stdout.flush()
    time.sleep(10000)


def constants():
    none = None
    yes = True
    no = False
    dots = Ellipsis
    unknown = NotImplemented
    note(
        "constants",
        [],
        texts([("none", none), ("yes", yes), ("no", no), ("dots", dots), ("unknown", unknown)]),
    )
    numbers(1, -1)


def numbers(one, minus_one):
    zero = 0
    small = 256
    large = 2 ** 62 - 1
    larger = -(2 ** 63)
    digits = 10 ** 40 + 7
    many = -(3 ** 200)
    half = 0.5
    tiny = 1.5e-300
    huge = 1e16
    minus = -0.0
    infinite = float("inf")
    nothing = float("nan")
    imaginary = 2j
    both = -1.5 + 1e20j
    note(
        "numbers",
        texts([("one", one), ("minus_one", minus_one)]),
        texts(
            [
                ("zero", zero),
                ("small", small),
                ("large", large),
                ("larger", larger),
                ("digits", digits),
                ("many", many),
                ("half", half),
                ("tiny", tiny),
                ("huge", huge),
                ("minus", minus),
                ("infinite", infinite),
                ("nothing", nothing),
                ("imaginary", imaginary),
                ("both", both),
            ]
        ),
    )
    strings("it's", quoted='"')


def strings(first, second="a'b\"c", *rest, **quoted):
    empty = ""
    control = "tab\t line\n return\r bell\x07 back\\slash \x7f"
    data = b"bytes \x00\xff'"
    latin = u"gr\xf6\xdfe \xa0 \xad"
    wide = u"\u65e5\u672c \u202e \u2028"
    wider = u"\U0001f600 \U000e0001"
    lone = u"\ud800"
    expected = [("empty", empty), ("control", control), ("data", data)]
    pairs = texts(expected)
    for name, value in [("latin", latin), ("wide", wide), ("wider", wider), ("lone", lone)]:
        # In 2.7 characters have two or four bytes, which nothing says.
        pairs.append([name, opaque(value) if IS_OLD else repr(value)])
    del name, value, expected
    note(
        "strings",
        texts([("first", first), ("second", second), ("rest", rest), ("quoted", quoted)]),
        pairs + [["pairs", None]],
    )
    containers((), [])


def containers(empty_tuple, empty_list):
    one = (1,)
    pair = (1, "two")
    items = [1, [2, [3, (4.5, None)]], "x"]
    empty = {}
    table = {"a": 1, 2: [3], (4, 5): {"six": 7}}
    removed = {"a": 1, "b": 2, "c": 3}
    del removed["a"]
    removed["d"] = 4
    sparse = dict((n, n) for n in range(1000))
    for n in range(990):
        del sparse[n]
    del n
    no_members = set()
    members = set([3, 1, 2])
    frozen = frozenset(["one"])
    instance = Plain()
    attributes = instance.__dict__
    instance.fourth = 4.0
    other = Plain()
    values = vars(other)
    values["second"] = 2
    del values["first"]
    values["first"] = "again"
    loop = [1]
    loop.append(loop)
    mapping = {}
    mapping["self"] = mapping
    show = opaque if IS_OLD else repr
    known_set = [show(no_members), show(members), show(frozen)]
    del show
    note(
        "containers",
        texts([("empty_tuple", empty_tuple), ("empty_list", empty_list)]),
        texts(
            [
                ("one", one),
                ("pair", pair),
                ("items", items),
                ("empty", empty),
                ("table", table),
                ("removed", removed),
                ("sparse", sparse),
            ]
        )
        + [
            ["no_members", known_set[0]],
            ["members", known_set[1]],
            ["frozen", known_set[2]],
            ["instance", opaque(instance)],
            ["attributes", repr(attributes)],
            ["other", opaque(other)],
            ["values", repr(values)],
            ["loop", repr(loop)],
            ["mapping", repr(mapping)],
            ["known_set", None],
        ],
    )
    others(Plain(), Text("derived"), key=Number(7))


def others(plain, text, **keywords):
    items = Items([1])
    ordered = collections.OrderedDict(a=1)
    queue = collections.deque([1])
    lock = threading.Lock()
    function = wait
    kind = Plain
    array = bytearray(b"abc")
    nested = [plain, text]
    note(
        "others",
        [
            ["plain", opaque(plain)],
            ["text", opaque(text)],
            ["keywords", "{'key': %s}" % opaque(keywords["key"])],
        ],
        [
            ["items", opaque(items)],
            ["ordered", opaque(ordered)],
            ["queue", opaque(queue)],
            ["lock", opaque(lock)],
            ["function", opaque(function)],
            ["kind", opaque(kind)],
            ["array", opaque(array)],
            ["nested", "[%s, %s]" % (opaque(plain), opaque(text))],
        ],
    )
    cells(1, 2)


def cells(captured, plain):
    shared = ["of", captured]
    unset_later = 1
    captured = captured + 1

    def inner(own):
        local = shared
        note(
            "inner",
            texts([("own", own)]),
            texts([("local", local), ("captured", captured), ("shared", shared)]),
        )
        generated(generator(5))
        return captured

    del unset_later
    note(
        "cells",
        texts([("captured", captured), ("plain", plain)]),
        [["inner", opaque(inner)], ["shared", repr(shared)]],
    )
    inner("mine")
    later = 1
    return later


def generator(start):
    count = start + 1
    note("generator", texts([("start", start)]), texts([("count", count)]))
    many(1)
    yield count


def generated(source):
    note("generated", [["source", opaque(source)]], [])
    for value in source:
        print(value)


def many(argument):
    text = "x" * 200
    numbers = list(range(1000))
    deep = [[[[[[[[1]]]]]]]]
    note("many", texts([("argument", argument)]), [["text", "cut"], ["numbers", "cut"], ["deep", None]])
    Box().method("end")


class Box(object):
    def method(self, argument):
        note("method", [["self", opaque(self)], ["argument", repr(argument)]], [])
        wait()


constants()
