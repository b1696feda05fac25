"""Keeps one processor busy in a call chain that the check expects."""


def outermost_call():
    while True:
        middle_call(range(1000))


def middle_call(values):
    for _ in range(100):
        innermost_call(values)


def innermost_call(values):
    total = 0
    for value in values:
        total += value * value % 7
    return total


open("/tmp/ready", "w").close()
outermost_call()
