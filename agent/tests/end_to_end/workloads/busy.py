"""Uses one processor."""

import truth


def main():
    while True: pass


truth.ready()
main()
