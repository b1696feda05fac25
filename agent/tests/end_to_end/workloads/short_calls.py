"""Calls that take about a microsecond, on a few legal paths.

A call is legal if it is named here as `caller@line callee`, where `line` is a mark at the end of a
line of this file or of `coroutines`.

call: <module>@main main
call: main@left Box.left
call: main@right Box.right
call: main@consumed consumed
call: main@delegated consumed_through
call: main@guarded guarded
call: main@through-c through_c
call: main@awaited outer
call: Box.left@left-shared Box.shared
call: Box.right@right-other Box.other
call: Box.shared@shared-leaf leaf
call: Box.other@other-leaf leaf
call: Box.other@other-tail tail
call: consumed@in-consumed numbers
call: consumed_through@through delegated
call: delegated@from numbers
call: numbers@numbers-leaf leaf
call: numbers@numbers-tail tail
call: guarded@fail fail
call: guarded@guarded-tail tail
call: through_c@max key
call: key@key-leaf leaf
call: outer@await inner
call: inner@called tail
"""

import truth

try:
    from coroutines import delegated, outer
except SyntaxError:
    delegated = outer = None


class Box(object):
    def left(self, number):
        return self.shared(number) + 1  # line: left-shared

    def right(self, number):
        return self.other(number) + 2  # line: right-other

    def shared(self, number):
        return leaf(number)  # line: shared-leaf

    def other(self, number):
        number = leaf(number)  # line: other-leaf
        return tail(number)  # line: other-tail


def leaf(number):
    return number + 1


def tail(number):
    return number + 2


def numbers(number):
    yield leaf(number)  # line: numbers-leaf
    yield tail(number)  # line: numbers-tail


def consumed(number):
    for _ in numbers(number): pass  # line: in-consumed


def consumed_through(number):
    for _ in delegated(numbers, number): pass  # line: through


def fail(number):
    raise ValueError(number)


def guarded(number):
    try:
        fail(number)  # line: fail
    except ValueError:
        return tail(number)  # line: guarded-tail


def key(number):
    return leaf(number)  # line: key-leaf


def through_c(number):
    return max(number, 2, key=key)  # line: max


def main():
    box = Box()
    while True:
        box.left(1)  # line: left
        box.right(2)  # line: right
        consumed(3)  # line: consumed
        guarded(4)  # line: guarded
        through_c(5)  # line: through-c
        if delegated:
            consumed_through(6)  # line: delegated
        if outer:
            try:
                outer(tail, 7).send(None)  # line: awaited
            except StopIteration:
                pass


truth.ready()
main()  # line: main
