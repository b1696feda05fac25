"""Forks three workers when it is told to, and then executes another script."""

import os
import subprocess
import sys
import time

import truth


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass


def work():
    burn(0.8)
    sys.stdout.write("fork %d %f\n" % (os.getpid(), time.process_time()))
    sys.stdout.flush()
    os._exit(0)


truth.ready()
sys.stdin.readline()
workers = []
for _ in range(3):
    worker = os.fork()
    if worker == 0: work()
    workers.append(worker)
for worker in workers: os.waitpid(worker, 0)
other = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unmatched.py")
subprocess.check_call([sys.executable, "-s", "-B", other, "0.5"])
sys.stdin.read()
