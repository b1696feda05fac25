"""A thread that waits with containers in its variables, which other threads change all the time."""

import sys
import threading
import time

try:
    sys.setswitchinterval(1e-5)
except AttributeError:
    sys.setcheckinterval(1)


class Attributes(object):
    pass


def grow(items, table, members, attributes):
    number = 0
    while True:
        number = (number + 1) % 100000
        text = "item %d" % number
        items.append(text)
        table[text] = [text, (number, text)]
        members.add(text)
        setattr(attributes, "name_%d" % (number % 20), text)
        if number % 7 == 0:
            table.pop("item %d" % (number - 3), None)
        if number % 300 == 0:
            del items[:]
            table.clear()
            members.clear()
            for name in list(vars(attributes)):
                vars(attributes).pop(name, None)


def wait_with(items, table, members, attributes):
    nested = [items, (table,), {"members": members}]
    print("ready")
    sys.stdout.flush()
    time.sleep(10000)
    return nested


def main():
    state = ([], {}, set(), Attributes())
    for own in (state, state):
        thread = threading.Thread(target=grow, args=own)
        thread.daemon = True
        thread.start()
    items, table, members, attributes = state
    wait_with(items, table, members, attributes.__dict__)


main()
