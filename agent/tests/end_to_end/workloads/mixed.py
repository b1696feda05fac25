"""Python and C code that call each other, and the kernel."""

import functools
import hashlib
import json
import os
import re
import truth
import zlib

ROWS = [{"n": n, "name": "x" * (n % 50)} for n in range(200)]
WORDS = re.compile("[a-z]+")


def main():
    while True:
        text = json.dumps(ROWS)
        rows = json.loads(text, object_hook=dict)
        rows.sort(key=lambda row: len(row["name"]))
        functools.reduce(lambda total, row: total + row["n"], rows, 0)
        WORDS.sub(lambda match: match.group().upper(), text)
        hashlib.sha256(zlib.compress(text.encode())).hexdigest()
        os.stat("/")


truth.ready()
main()
