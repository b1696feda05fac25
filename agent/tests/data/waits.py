"""Threads that wait, one for each way to do it, and threads that want the GIL.

Each writes its name and its thread ID in a line to the standard output before it waits; the last line is
that of the main thread, which waits for the end of the standard input. Runs on all versions.
"""

import fcntl
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

try:
    import queue
except ImportError:
    import Queue as queue

FOREVER = 3600


def announce(name):
    thread = os.path.basename(os.readlink("/proc/thread-self"))
    os.write(1, ("%s %s\n" % (name, thread)).encode())


held = threading.Lock()
held.acquire()
held_recursive = threading.RLock()
held_recursive.acquire()
empty = queue.Queue()
condition = threading.Condition()
event = threading.Event()
silent, silent_writer = os.pipe()
silent_socket, other_socket = socket.socketpair()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1)
controller, terminal = os.openpty()
child = subprocess.Popen(
    ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=True
)
folder = tempfile.mkdtemp()
locked_file = open(os.path.join(folder, "locked"), "w")
fcntl.flock(locked_file, fcntl.LOCK_EX)
named_pipe = os.path.join(folder, "pipe")
os.mkfifo(named_pipe)


def lock_acquire():
    held.acquire()


def lock_acquire_with_time_limit():
    held.acquire(True, FOREVER)


def rlock_acquire():
    held_recursive.acquire()


def queue_get():
    empty.get()


def queue_get_with_time_limit():
    empty.get(True, FOREVER)


def condition_wait():
    with condition:
        condition.wait()


def condition_wait_with_time_limit():
    with condition:
        condition.wait(FOREVER)


def event_wait():
    event.wait()


def event_wait_with_time_limit():
    event.wait(FOREVER)


def thread_join():
    forever.join()


def file_lock():
    with open(locked_file.name) as same:
        fcntl.flock(same, fcntl.LOCK_SH)


def record_lock():
    # The child of `hold_record` has it.
    with open(os.path.join(folder, "records"), "r+") as same:
        fcntl.lockf(same, fcntl.LOCK_EX)


def time_sleep():
    time.sleep(FOREVER)


def select_nothing():
    select.select([], [], [], FOREVER)


def poll_nothing():
    select.poll().poll(FOREVER * 1000)


def select_pipe():
    select.select([silent], [], [])


def select_pipe_with_time_limit():
    select.select([silent], [], [], FOREVER)


def poll_pipe():
    polled = select.poll()
    polled.register(silent, select.POLLIN)
    polled.poll()


def epoll_pipe():
    polled = select.epoll()
    polled.register(silent, select.EPOLLIN)
    polled.poll()


def socket_receive():
    silent_socket.recv(1)


def socket_read():
    os.read(silent_socket.fileno(), 1)


def socket_accept():
    listener.accept()


def pipe_read():
    os.read(silent, 1)


def terminal_read():
    os.read(terminal, 1)


def child_wait():
    child.wait()


def open_named_pipe():
    os.open(named_pipe, os.O_RDONLY)


def hold_record():
    """Starts a process that holds the lock of a file until this process ends."""
    path = os.path.join(folder, "records")
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "sys.stdout.write('!'); sys.stdout.flush(); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=True,
    )
    holder.stdout.read(1)
    return holder


def spin():
    number = 0
    while True:
        number += 1


SPIN_IN_INTERPRETER = """
import os, threading

def spin(name):
    thread = os.path.basename(os.readlink("/proc/thread-self"))
    os.write(1, ("%s %s\\n" % (name, thread)).encode())
    os.write(STARTED, b"!")
    number = 0
    while True:
        number += 1

second = threading.Thread(target=spin, args=("own_gil_2",))
second.start()
spin("own_gil_1")
"""
started, started_writer = os.pipe()
SPIN_IN_INTERPRETER = SPIN_IN_INTERPRETER.replace("STARTED", str(started_writer))


def spin_in_interpreter():
    """Two threads of an interpreter with a GIL of its own, from 3.12 on."""
    if sys.version_info >= (3, 13):
        import _interpreters

        # A keyword in 2.7.
        run = getattr(_interpreters, "exec")
        run(_interpreters.create("isolated"), SPIN_IN_INTERPRETER)
    else:
        import _xxsubinterpreters

        created = _xxsubinterpreters.create(isolated=True)
        _xxsubinterpreters.run_string(created, SPIN_IN_INTERPRETER)


def start(function, name):
    def run():
        announce(name)
        function()

    thread = threading.Thread(target=run)
    thread.daemon = True
    thread.start()
    return thread


holder = hold_record()
forever = start(time_sleep, "time_sleep")
waits = [
    lock_acquire,
    rlock_acquire,
    queue_get,
    condition_wait,
    event_wait,
    thread_join,
    file_lock,
    record_lock,
    select_nothing,
    poll_nothing,
    select_pipe,
    select_pipe_with_time_limit,
    poll_pipe,
    epoll_pipe,
    socket_receive,
    socket_read,
    socket_accept,
    pipe_read,
    terminal_read,
    child_wait,
    open_named_pipe,
]
# 2.7 waits for a limited time by sleeping and looking again.
if sys.version_info >= (3, 2):
    waits += [
        lock_acquire_with_time_limit,
        queue_get_with_time_limit,
        condition_wait_with_time_limit,
        event_wait_with_time_limit,
    ]
for wait in waits:
    start(wait, wait.__name__)
if sys.version_info >= (3, 12):
    threading.Thread(target=spin_in_interpreter, daemon=True).start()
    os.read(started, 1)
    os.read(started, 1)
start(spin, "spin_1")
start(spin, "spin_2")
time.sleep(0.2)
announce("main")
sys.stdin.read()
for name in ["locked", "pipe", "records"]:
    os.remove(os.path.join(folder, name))
os.rmdir(folder)
os._exit(0)
