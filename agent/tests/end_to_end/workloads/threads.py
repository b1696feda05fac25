"""Ten threads, each with a function of its own under thirty others, and the main thread."""

import time
import truth

THREADS = 10
CALLERS = 30

SOURCE = """
def busy_{number}():
    started.append(truth.report())
    while True: pass
"""

started = []


def call(levels, function):
    if levels > 1:
        call(levels - 1, function)
    else:
        function()


for number in range(THREADS):
    exec(compile(SOURCE.format(number=number), "<busy>", "exec"))
    function = globals()["busy_%d" % number]
    truth.start("worker-%d" % number, call, CALLERS, function)

while len(started) < THREADS:
    time.sleep(0.01)
truth.report(), truth.ready()
while True: pass
