"""As many threads as the argument says, each of which sleeps again and again."""

import sys
import threading
import time
import truth


def sleeps():
    while True:
        time.sleep(0.5)


threading.stack_size(128 << 10)
for _ in range(int(sys.argv[1])):
    truth.start("sleeper", sleeps)
truth.ready()
sleeps()
