"""Like a server: one thread computes and nine wait, all of them under about 30 frames.

Arguments: SECONDS [WAITING THREADS]
"""

import threading
import time

from call_chain import chain, spin
from work_units import counts, number, seconds

END = time.time() + seconds()


def park(_):
    threading.Event().wait(END - time.time())


waiting = chain(25, park)
busy = chain(28, spin)

# A thousand stacks of the usual size would be reserved in vain.
threading.stack_size(256 * 1024)
for _ in range(number(9)):
    threading.Thread(target=waiting, args=(0,)).start()
while time.time() < END:
    busy(0)
    counts[0] += 1
