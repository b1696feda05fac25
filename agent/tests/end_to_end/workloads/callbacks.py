"""Python that C code calls back, and which is called by Python that C code was called from."""

import truth


def leaf(number):
    for _ in range(3000):
        pass
    return -number


def middle(number):
    return sorted([number, number + 1], key=leaf)[0]


def main():
    while True:
        list(map(middle, range(100)))


truth.ready()
main()
