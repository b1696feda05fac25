"""Raises exceptions when it is told to, and ends when the agent has had time to read them."""

import signal
import time


def raise_value():
    raise ValueError()


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.sigwait([signal.SIGUSR1])
for _ in range(300):
    try:
        raise_value()
    except ValueError:
        time.sleep(0.001)
time.sleep(1)
