"""Ten threads that compute under stacks of 30 frames and contend for the interpreter's lock.

Arguments: SECONDS [THREADS]
"""

import threading
import time

from call_chain import chain, spin
from work_units import counts, number, seconds

END = time.time() + seconds()

# Three frames of `threading`, `work` and `spin` make it 30.
outermost = chain(25, spin)


def work(nth):
    while time.time() < END:
        outermost(nth)
        counts[nth] += 1


for nth in range(number(10)):
    threading.Thread(target=work, args=(nth,)).start()
