"""A thread for each argument, whose stack has so many frames.

Frames that follow each other are of different functions, so that a frame that is missing shows.
"""

import sys
import threading
import truth

FUNCTIONS = 97

SOURCE = """
def level_{number}(levels):
    if levels > 1:
        level_{next}(levels - 1)
    else:
        started.append(truth.report())
        while True: pass
"""

# Those of `threading` in which every thread begins.
FIRST_FRAMES = 3

started = []
for number in range(FUNCTIONS):
    source = SOURCE.format(number=number, next=(number + 1) % FUNCTIONS)
    exec(compile(source, "<levels>", "exec"))

depths = [int(argument) for argument in sys.argv[1:]]
sys.setrecursionlimit(max(depths) + 100)
threading.stack_size(256 << 20)
for depth in depths:
    truth.start("depth-%d" % depth, level_0, depth - FIRST_FRAMES)

while len(started) < len(depths):
    threading.Event().wait(0.01)
truth.ready()
threading.Event().wait()
