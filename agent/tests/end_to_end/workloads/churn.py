"""Functions are compiled, run and dropped again and again, so that their addresses are reused.

They differ in nothing but the number in their names. `churn_N` is only ever called by `call_N`.
"""

import itertools
import truth

SOURCE = """
def churn_{number:08}():
    for _ in range(2000): pass

def call_{number:08}():
    churn_{number:08}()
"""


def turn(number):
    names = {}
    exec(compile(SOURCE.format(number=number), "<churn>", "exec"), names)
    names["call_%08d" % number]()


def main():
    for number in itertools.count():
        turn(number)


truth.ready()
main()
