"""Threads that wait each for something else, all of the time, and one that computes."""

import os
import select
import socket
import threading
import time

import truth


def in_sleep():
    time.sleep(1000)


def in_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def in_socket():
    ours, theirs = socket.socketpair()
    ours.recv(1)


def in_pipe():
    reading, writing = os.pipe()
    os.read(reading, 1)


def in_poll():
    reading, writing = os.pipe()
    select.select([reading], [], [])


def in_child():
    child = os.fork()
    if child == 0:
        # Ends with the workload: nobody else has the other end of the pipe.
        os.close(closed_at_the_end)
        os.read(held_open, 1)
        os._exit(0)
    children.append(child)
    os.waitpid(child, 0)


def computes():
    while True:
        sum(range(1000))


if __name__ == "__main__":
    held_open, closed_at_the_end = os.pipe()
    children = []
    for wait in (in_sleep, in_lock, in_socket, in_pipe, in_poll, in_child, computes):
        truth.start(wait.__name__, wait)
    # To fork takes long where the interpreter warns of it, for which it imports modules.
    while not children:
        time.sleep(0.01)
    # All of them wait.
    time.sleep(0.3)
    truth.ready()
    time.sleep(1000)
