"""Ten tasks of asyncio that compute in turn, each under a chain of 20 coroutines.

Arguments: SECONDS
"""

import asyncio
import time

from call_chain import spin
from work_units import counts, seconds

TASKS = 10
DEPTH = 20
END = time.time() + seconds()


async def call(depth, nth):
    if depth == 1:
        spin(nth)
        await asyncio.sleep(0)
    else:
        await call(depth - 1, nth)


async def task(nth):
    while time.time() < END:
        await call(DEPTH, nth)
        counts[nth] += 1


async def main():
    await asyncio.gather(*[task(nth) for nth in range(TASKS)])


asyncio.new_event_loop().run_until_complete(main())
