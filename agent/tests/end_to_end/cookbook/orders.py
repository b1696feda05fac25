"""A service whose release of today is slower than that of yesterday: python3 orders.py RELEASE."""

import sys
import time


def parse(count):
    return [float(str(number)) for number in range(count)]


def discount(prices, release):
    if release == "yesterday":
        return [price * 0.9 for price in prices]
    # Looks each price up in a list.
    known = list(range(50))
    return [price * 0.9 for price in prices if price not in known]


def main(release):
    print("ready", flush=True)
    # A request in each eight milliseconds, however long one takes.
    next_request = time.monotonic()
    while True:
        discount(parse(3000), release)
        next_request += 0.008
        time.sleep(max(0, next_request - time.monotonic()))


main(sys.argv[1])
