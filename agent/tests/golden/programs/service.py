"""A small service without its network: threads with names that parse, pack and write."""

import json
import os
import re
import threading
import zlib

PATTERN = re.compile(r"(?P<user>\w+)@(?P<host>[\w.]+) (?P<amount>\d+)")
USERS = ["ada", "grace", "edsger", "barbara"]


class Orders:
    def __init__(self, count):
        self.lines = [f"{USERS[n % 4]}@example.org {n * 7919 % 1000}" for n in range(count)]

    def parse(self):
        return [PATTERN.match(line)["amount"] for line in self.lines]

    def totals(self):
        return {user: sum(int(amount) for amount in self.parse()) for user in USERS}


def pack(orders):
    while True:
        text = json.dumps({"totals": orders.totals(), "lines": orders.lines})
        zlib.compress(text.encode(), 6)


def read(path):
    with open(path, "rb", buffering=0) as source:
        while True:
            source.read(1 << 20)


def parse(orders):
    text = json.dumps(orders.lines)
    while True:
        json.loads(text)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


orders = Orders(500)
for name, target, argument in [
    ("packer", pack, orders),
    ("reader", read, "/dev/urandom"),
    ("größe;1", parse, orders),
]:
    threading.Thread(target=target, args=(argument,), name=name, daemon=True).start()
print("ready", flush=True)
while True:
    fibonacci(18)
    os.stat("/")
