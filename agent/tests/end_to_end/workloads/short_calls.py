"""Calls that take about a microsecond, on a few legal paths.

A call is legal if it is named here as `caller@line callee`, where `line` is a mark at the end of a
line of this file.

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
call: delegated@delegated-numbers numbers
call: numbers@numbers-leaf leaf
call: numbers@numbers-tail tail
call: guarded@fail fail
call: guarded@guarded-tail tail
call: through_c@max key
call: key@key-leaf leaf
call: outer@outer-inner inner
call: inner@inner-tail tail
"""


class Box:
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


def delegated(number):
    yield from numbers(number)  # line: delegated-numbers


def consumed(number):
    for _ in numbers(number): pass  # line: in-consumed


def consumed_through(number):
    for _ in delegated(number): pass  # line: through


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


async def inner(number):
    return tail(number)  # line: inner-tail


async def outer(number):
    return await inner(number)  # line: outer-inner


def main():
    box = Box()
    while True:
        box.left(1)  # line: left
        box.right(2)  # line: right
        consumed(3)  # line: consumed
        consumed_through(4)  # line: delegated
        guarded(5)  # line: guarded
        through_c(6)  # line: through-c
        try:
            outer(7).send(None)  # line: awaited
        except StopIteration:
            pass


print("ready", flush=True)
main()  # line: main
