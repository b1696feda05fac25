"""Most of the time is spent in C, and some in the kernel."""

import os
import truth
import zlib

BUFFER = bytes(bytearray(range(256))) * 4096


def compress():
    zlib.compress(BUFFER, 9)


def read(descriptor):
    for _ in range(20):
        os.read(descriptor, 1 << 22)


def main():
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    while True:
        compress()
        read(descriptor)


truth.ready()
main()
