"""Different parts of the standard library in turn, for a share of one processor.

Arguments: SECONDS [PERCENT OF A PROCESSOR]
"""

import ast
import base64
import collections
import csv
import decimal
import difflib
import fractions
import heapq
import html
import io
import json
import math
import pickle
import random
import re
import statistics
import string
import struct
import textwrap
import time
import tokenize
import unicodedata
import zlib

from work_units import counts, number, seconds

RANDOM = random.Random(7)
WORDS = ["".join(RANDOM.choices(string.ascii_lowercase, k=RANDOM.randrange(2, 9))) for _ in range(60)]
TEXT = " ".join(WORDS)
ROWS = [{"id": i, "name": word, "price": i * 1.25, "tags": WORDS[: i % 5]} for i, word in enumerate(WORDS)]
SOURCE = "\n".join("def %s(a, b=%d):\n    return [a * x for x in range(b)]" % (w, i) for i, w in enumerate(WORDS[:12]))


def documents():
    return json.loads(json.dumps(ROWS)), pickle.loads(pickle.dumps(ROWS))


def patterns():
    return re.findall(r"\b(\w)(\w*)\1\b", TEXT), re.sub(r"[aeiou]+", lambda found: found[0].upper(), TEXT)


def tables():
    out = io.StringIO()
    writer = csv.DictWriter(out, ["id", "name"], extrasaction="ignore")
    writer.writerows(ROWS)
    return list(csv.reader(io.StringIO(out.getvalue())))


def numbers():
    prices = [row["price"] for row in ROWS]
    exact = sum((decimal.Decimal(row["id"]) / 7 for row in ROWS[:20]), decimal.Decimal())
    return statistics.stdev(prices), exact, fractions.Fraction(22, 7) ** 5, math.factorial(60)


def sources():
    tree = ast.parse(SOURCE)
    tokens = list(tokenize.generate_tokens(io.StringIO(SOURCE).readline))
    return compile(tree, "made.py", "exec"), tokens, ast.unparse(tree)


def texts():
    wrapped = textwrap.fill(html.escape(TEXT), 40)
    return unicodedata.normalize("NFKD", wrapped), difflib.unified_diff(WORDS, sorted(WORDS))


def structures():
    heap = []
    for word in WORDS:
        heapq.heappush(heap, (len(word), word))
    ordered = collections.OrderedDict(sorted(collections.Counter(TEXT).items()))
    return [heapq.heappop(heap) for _ in WORDS], ordered, collections.deque(WORDS, 9)


def binary():
    packed = struct.pack("<%dd" % len(ROWS), *(row["price"] for row in ROWS))
    return zlib.decompress(zlib.compress(base64.b64decode(base64.b64encode(packed * 4))))


UNITS = [documents, patterns, tables, numbers, sources, texts, structures, binary]


def main():
    share = number(3) / 100
    end = time.monotonic() + seconds()
    turn = 0
    while time.monotonic() < end:
        before = time.process_time()
        for _ in range(4):
            UNITS[turn % len(UNITS)]()
            turn += 1
        used = time.process_time() - before
        counts[0] += 1
        time.sleep(used / share - used)


main()
