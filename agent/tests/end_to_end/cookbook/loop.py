"""An event loop that one coroutine blocks."""

import asyncio
import hashlib


async def heartbeat():
    """Wants to run ten times in a second."""
    while True:
        await asyncio.sleep(0.1)


async def sign():
    """Should do this in a thread."""
    while True:
        hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 200_000)
        await asyncio.sleep(0.05)


async def main():
    print("ready", flush=True)
    await asyncio.gather(heartbeat(), sign())


asyncio.run(main())
