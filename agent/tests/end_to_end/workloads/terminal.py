"""Makes work for the threads of the kernel: what is written into a terminal they bring to its other
end."""

import os
import tty

import truth


def read(screen):
    while True:
        os.read(screen, 65536)


def main(keyboard):
    while True:
        os.write(keyboard, b"x" * 65536)


keyboard, screen = os.openpty()
tty.setraw(screen)
truth.start("reader", read, screen)
truth.ready()
main(keyboard)
