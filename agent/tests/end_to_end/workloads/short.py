# A program that uses a tenth of a second of CPU time and ends with the status 7.

import sys
import time

clock = getattr(time, "process_time", None) or time.clock


def spin(seconds):
    end = clock() + seconds
    while clock() < end:
        for _ in range(100):
            pass


def main():
    spin(0.1)


main()
sys.exit(7)
