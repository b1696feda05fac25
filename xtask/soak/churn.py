# What a long-lived program can do that never ends: churn.py WHAT
#
#   code     compiles and runs ever new functions
#   forks    forks; each other child executes another program
#   jit      maps, runs and unmaps code, and writes a growing perf map
#   threads  starts and ends threads with ever new names
#   steady   is busy in the same functions all the time
#   once     uses some milliseconds and ends

import ctypes
import mmap
import os
import sys
import threading
import time

clock = getattr(time, "thread_time", None) or getattr(time, "process_time", None) or time.clock


def spin(seconds):
    end = clock() + seconds
    while clock() < end:
        for _ in range(200):
            pass


def code(number):
    name = "function_%d" % number
    text = "\n" * (number % 5000) + "def %s(spin):\n    spin(0.001)\n" % name
    scope = {}
    exec(compile(text, "/generated/%d.py" % (number % 100000), "exec"), scope)
    scope[name](spin)
    time.sleep(0.02)


def forks(number):
    pid = os.fork()
    if pid == 0:
        spin(0.002)
        if number % 2:
            os.execv("/bin/true", ["/bin/true"])
        os._exit(0)
    os.waitpid(pid, 0)
    time.sleep(0.05)


def jit(number):
    # mov ecx, 2000000; again: dec ecx; jnz again; ret
    turn = b"\xb9\x80\x84\x1e\x00\xff\xc9\x75\xfc\xc3"
    pages = mmap.mmap(-1, 65536, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    at = number % 6000 * 10
    pages[at : at + len(turn)] = turn
    place = ctypes.c_char.from_buffer(pages)
    address = ctypes.addressof(place) + at
    with open("/tmp/perf-%d.map" % os.getpid(), "a") as names:
        names.write("%x a generated_%d\n" % (address, number))
    ctypes.CFUNCTYPE(None)(address)()
    del place
    pages.close()
    time.sleep(0.05)


def threads(number):
    thread = threading.Thread(target=spin, args=(0.002,), name="worker-%d" % number)
    thread.start()
    thread.join()
    time.sleep(0.01)


def steady(_):
    spin(0.03)
    time.sleep(0.07)


def once(_):
    spin(0.02)
    sys.exit(0)


def main(work):
    number = 0
    while True:
        number += 1
        work(number)


main(globals()[sys.argv[1]])
