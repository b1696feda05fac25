"""Stands for the kernel of a notebook, in which a cell runs."""

CELL = """
def distances(points):
    return [[abs(one - other) for other in points] for one in points]

while True:
    distances(range(200))
"""

print("ready", flush=True)
exec(compile(CELL, "<ipython-input-7>", "exec"))
