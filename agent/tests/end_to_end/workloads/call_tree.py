"""One turn takes every path below once; all CPU is used on the lines of the leaves.

A stack is written `function@line`, root first, where `line` is a mark at the end of a line of this
file, or `file:number` for code that has another file. `*n` is recursion, and `-` a frame that is
gone where comprehensions are inlined.

stack: <module>@module
stack: <module>@turn turn@nested nested@inner nested.<locals>.inner@nested-burn burn@burn
stack: <module>@turn turn@method Square.area@super Shape.area@side Shape.side@side-burn burn@burn
stack: <module>@turn turn@class-method Shape.unit@unit-burn burn@burn
stack: <module>@turn turn@static-method Shape.check@check-burn burn@burn
stack: <module>@turn turn@operator Square.__add__@operator-burn burn@burn
stack: <module>@turn turn@for numbers@in-numbers
stack: <module>@turn turn@lambda turn.<locals>.<lambda>@lambda burn@burn
stack: <module>@turn turn@list listed@in-list -listed.<locals>.<listcomp>@in-list burn@burn
stack: <module>@turn turn@set listed_as_set@in-set -listed_as_set.<locals>.<setcomp>@in-set burn@burn
stack: <module>@turn turn@expression summed@in-sum summed.<locals>.<genexpr>@in-sum burn@burn
stack: <module>@turn turn@decorated twice.<locals>.wrapper@wrapped decorated@in-decorated burn@burn
stack: <module>@turn turn@decorated twice.<locals>.wrapper@wrapped-again decorated@in-decorated burn@burn
stack: <module>@turn turn@class class_body@body class_body.<locals>.Body@in-body
stack: <module>@turn turn@recursion descend@deeper*11 descend@bottom burn@burn
stack: <module>@turn turn@exec <module>@<snippet>:3
stack: <module>@turn turn@eval <module>@<string>:1 burn@burn
stack: <module>@turn turn@sorted key@in-key burn@burn
stack: <module>@turn turn@partial Partial.__call__@partial-call key@in-key burn@burn
stack: <module>@turn turn@enter Managed.__enter__@enter-burn burn@burn
stack: <module>@turn turn@handler handled@in-handler burn@burn
stack: <module>@turn turn@cleanup cleaned@in-cleanup burn@burn
stack with coroutines: <module>@turn turn@for-delegated delegated@from numbers@in-numbers
stack with coroutines: <module>@turn turn@coroutine outer@await inner@called burn@burn
"""

import functools
import truth

try:
    from coroutines import delegated, outer
except SyntaxError:
    delegated = outer = None

TURNS = 200000


def burn(turns=TURNS):
    for _ in range(turns): pass  # line: burn


def nested():
    def inner():
        burn()  # line: nested-burn

    inner()  # line: inner


class Shape(object):
    def area(self):
        self.side  # line: side

    @property
    def side(self):
        burn()  # line: side-burn

    @classmethod
    def unit(cls):
        burn()  # line: unit-burn

    @staticmethod
    def check():
        burn()  # line: check-burn


class Square(Shape):
    def area(self):
        super(Square, self).area()  # line: super

    def __add__(self, other):
        burn()  # line: operator-burn


def numbers(count):
    for number in range(count):
        for _ in range(TURNS): pass  # line: in-numbers
        yield number


def listed():
    return [burn() for _ in range(1)]  # line: in-list


def listed_as_set():
    return {burn() for _ in range(1)}  # line: in-set


def summed():
    return sum(burn() or 1 for _ in range(1))  # line: in-sum


def twice(function):
    @functools.wraps(function)
    def wrapper():
        function()  # line: wrapped
        function()  # line: wrapped-again

    return wrapper


@twice
def decorated():
    burn()  # line: in-decorated


def class_body():
    class Body:  # line: body
        for _ in range(TURNS): pass  # line: in-body


def descend(levels):
    if levels:
        descend(levels - 1)  # line: deeper
    else:
        burn()  # line: bottom


SNIPPET = compile("\n\nfor _ in range(%d): pass\n" % TURNS, "<snippet>", "exec")


def key(_):
    burn()  # line: in-key


class Partial:
    def __call__(self, number):
        key(number)  # line: partial-call


class Managed:
    def __enter__(self):
        burn()  # line: enter-burn

    def __exit__(self, *_):
        pass


def handled():
    try:
        raise ValueError
    except ValueError:
        burn()  # line: in-handler


def cleaned():
    try:
        return 1
    finally:
        burn()  # line: in-cleanup


def turn():
    square = Square()
    nested()  # line: nested
    square.area()  # line: method
    Square.unit()  # line: class-method
    Square.check()  # line: static-method
    square + square  # line: operator
    for _ in numbers(2): pass  # line: for
    (lambda: burn())()  # line: lambda
    listed()  # line: list
    listed_as_set()  # line: set
    summed()  # line: expression
    decorated()  # line: decorated
    class_body()  # line: class
    descend(11)  # line: recursion
    exec(SNIPPET, {})  # line: exec
    eval("burn()")  # line: eval
    sorted([1], key=key)  # line: sorted
    functools.partial(Partial(), 1)()  # line: partial
    with Managed():  # line: enter
        pass
    handled()  # line: handler
    cleaned()  # line: cleanup
    if delegated:
        for _ in delegated(numbers, 2): pass  # line: for-delegated
    if outer:
        try:
            outer(burn, TURNS).send(None)  # line: coroutine
        except StopIteration:
            pass


truth.ready()
while True:
    turn()  # line: turn
    for _ in range(TURNS): pass  # line: module
