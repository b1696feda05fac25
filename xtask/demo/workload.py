"""The work of a small service without its network: parses records, sums them up, compresses the
response.

`cargo xtask demo` profiles it; it runs until it is killed.
"""

import json
import random
import re
import zlib

PATTERN = re.compile(r"(?P<user>\w+)@(?P<host>[\w.]+) (?P<amount>\d+)")


def make_records(count):
    users = ["ada", "grace", "edsger", "barbara"]
    return [f"{random.choice(users)}@example.org {random.randrange(1000)}" for _ in range(count)]


def parse(record):
    match = PATTERN.match(record)
    return match["user"], int(match["amount"])


def spread(amounts):
    mean = sum(amounts) / len(amounts)
    return sum((amount - mean) ** 2 for amount in amounts) / len(amounts)


def summarize(records):
    amounts = {}
    for record in records:
        user, amount = parse(record)
        amounts.setdefault(user, []).append(amount)
    return {user: {"total": sum(all_), "spread": spread(all_)} for user, all_ in amounts.items()}


def answer(summary, records):
    return zlib.compress(json.dumps({"summary": summary, "records": records}).encode(), 6)


def serve():
    records = make_records(2000)
    while True:
        answer(summarize(records), records)


print("ready", flush=True)
serve()
