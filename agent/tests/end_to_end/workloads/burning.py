"""Uses a processor for some seconds of CPU time, and prints its name, its id and its CPU time."""

import os
import sys
import time


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass


burn(float(sys.argv[1]))
name = os.path.basename(sys.argv[0])[:-len(".py")]
print(name, os.getpid(), time.process_time())
