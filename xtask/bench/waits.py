"""Threads that compute, and threads that wait in several ways, which all count how long they were in each function.

The numbers are nanoseconds: of thread NTH in function F in number 8 * NTH + F, of its CPU time while it held the
interpreter's lock in number 8 * NTH + 7; what the computing threads have finished is number 63.

Arguments: SECONDS
"""

import hashlib
import itertools
import random
import socket
import threading
import time

from work_units import counts, seconds

END = time.time() + seconds()
CPU = 7
UNITS = 63
BYTES = bytes(400000)

lock = threading.Lock()


def computes(rng):
    """Some milliseconds with the interpreter's lock, always the same work."""
    total = 0
    for i in range(40000):
        total = (total + i) & 0xFFFF


def hashes(rng):
    """A millisecond without it."""
    hashlib.sha256(BYTES).digest()


def sleeps_long(rng):
    time.sleep(rng.uniform(0.01, 0.03))


def sleeps_shortly(rng):
    time.sleep(rng.uniform(0.0003, 0.0007))


def takes_lock(rng):
    """Waits for the thread that keeps it."""
    with lock:
        pass


def keeps_lock(rng):
    with lock:
        time.sleep(rng.uniform(0.002, 0.006))


def reads_socket(rng):
    socket_of_this_thread.pair[0].recv(1)


socket_of_this_thread = threading.local()


def writes_later(end):
    """Lets another thread read a byte now and then."""
    rng = random.Random(1)
    while time.time() < END:
        time.sleep(rng.uniform(0.003, 0.008))
        end.send(b"x")


FUNCTIONS = [computes, hashes, sleeps_long, sleeps_shortly, takes_lock, keeps_lock, reads_socket]


def work(nth, *functions):
    rng = random.Random(nth)
    if reads_socket in functions:
        socket_of_this_thread.pair = socket.socketpair()
        threading.Thread(target=writes_later, args=(socket_of_this_thread.pair[1],), daemon=True).start()
    first = 8 * nth
    for function in itertools.cycle(functions):
        if time.time() > END:
            break
        number = first + FUNCTIONS.index(function)
        cpu = time.thread_time_ns()
        before = time.perf_counter_ns()
        function(rng)
        counts[number] += time.perf_counter_ns() - before
        if function is computes:
            counts[first + CPU] += time.thread_time_ns() - cpu
            counts[UNITS] += 1


for nth, functions in enumerate(
    [
        (computes, hashes),
        (computes, hashes),
        (sleeps_long, takes_lock),
        (sleeps_shortly, takes_lock),
        (keeps_lock, sleeps_long),
        (reads_socket, sleeps_shortly),
        (sleeps_long, sleeps_shortly, computes),
    ]
):
    # Number 63 is not one of these.
    assert 8 * nth + CPU < UNITS
    threading.Thread(target=work, args=(nth,) + functions, daemon=True).start()
time.sleep(seconds())
