"""Python that names its functions in a map of code that was made at run time (`-X perf`)."""


def leaf(n):
    return sum(i * i for i in range(n))


def branch(n):
    return leaf(n) + leaf(n // 2)


print("ready", flush=True)
while True:
    branch(3000)
