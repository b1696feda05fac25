"""Makes stacks of a given depth out of distinct functions, and something to do at their end."""


def spin(seed):
    """A fraction of a millisecond of pure Python."""
    total = 0
    for i in range(3000):
        total += i ^ seed
        total &= 0xFFFF
    return total


def chain(calls, leaf):
    """A function that calls the next one, and so on: `calls` of them, the last one calls `leaf`."""
    lines = ["def call_1(argument):", "    return leaf(argument)"]
    for nth in range(2, calls + 1):
        lines += [
            "def call_%d(argument):" % nth,
            "    x = argument + 0",
            "    return call_%d(x)" % (nth - 1),
        ]
    namespace = {"leaf": leaf}
    exec(compile("\n".join(lines), "call_chain_made.py", "exec"), namespace)
    return namespace["call_%d" % calls]
