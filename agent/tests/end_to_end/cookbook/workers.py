"""A master and three workers that it forks before there is work."""

import os
import time


def handle(number):
    """Stands for a request; the third worker has the expensive ones."""
    return render(20000 if number == 2 else 4000)


def render(rows):
    return "".join(str(row * row) for row in range(rows))


def work(number, master):
    while os.getppid() == master:
        handle(number)
        time.sleep(0.005)
    os._exit(0)


def main():
    master = os.getpid()
    for number in range(3):
        if os.fork() == 0:
            work(number, master)
    print("ready", flush=True)
    while True:
        time.sleep(1)


main()
