"""Starts programs that end at once.

Arguments: SECONDS [STARTS PER SECOND]
"""

import os
import time

from work_units import counts, number, seconds


def main():
    rate = number(1000)
    began = time.monotonic()
    end = began + seconds()
    now = began
    while now < end:
        if counts[0] < (now - began) * rate:
            pid = os.posix_spawn("/bin/true", ["true"], {})
            os.waitpid(pid, 0)
            counts[0] += 1
        else:
            time.sleep(0.0005)
        now = time.monotonic()


main()
