"""A pool of three threads that have nothing to do."""

import time
from concurrent.futures import ThreadPoolExecutor

import truth

with ThreadPoolExecutor(3) as pool:
    list(pool.map(time.sleep, [0.1] * 3))
    truth.ready()
    time.sleep(1000)
