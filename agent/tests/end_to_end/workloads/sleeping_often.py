"""As many threads as the first argument says, each of which sleeps again and again, for as many seconds as the second
one says.
"""

import sys
import threading
import time
import truth


def sleeps():
    while True:
        time.sleep(float(sys.argv[2]))


threading.stack_size(128 << 10)
for _ in range(int(sys.argv[1])):
    truth.start("sleeper", sleeps)
truth.ready()
sleeps()
