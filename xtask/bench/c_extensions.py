"""Short calls into C: compression, hashes, JSON, regular expressions. Some release the
interpreter's lock.

Arguments: SECONDS
"""

import hashlib
import json
import random
import re
import time
import zlib

from work_units import counts, seconds

RANDOM = random.Random(7)
BYTES = bytes(RANDOM.randrange(32, 96) for _ in range(4096))
DOCUMENT = {
    "key%d" % i: {"id": i, "name": "n" * (i % 17), "list": list(range(i % 20)), "real": i * 1.5}
    for i in range(15)
}
TEXT = " ".join("word%d=%d;" % (i, i * 7919 % 1000) for i in range(100))
PATTERN = re.compile(r"(word\d+)=(\d{2,3});")


def compress():
    return len(zlib.decompress(zlib.compress(BYTES, 6)))


def digest():
    return hashlib.sha256(BYTES).hexdigest()


def serialize():
    return len(json.dumps(json.loads(json.dumps(DOCUMENT))))


def match():
    return len(PATTERN.findall(TEXT)) + len(PATTERN.sub(r"\2:\1", TEXT))


def main():
    end = time.time() + seconds()
    while time.time() < end:
        compress()
        digest()
        serialize()
        match()
        counts[0] += 1


main()
