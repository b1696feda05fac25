"""One thread runs two functions in turns, each for 200 ms of its CPU time, and then sleeps for 300 ms."""

import time

CPU_SECONDS = 0.2
SLEEP_SECONDS = 0.3


def spin():
    end = time.thread_time() + CPU_SECONDS
    while time.thread_time() < end:
        sum(range(100))


def first():
    spin()


def second():
    spin()


def main():
    print("ready", flush=True)
    while True:
        first()
        second()
        time.sleep(SLEEP_SECONDS)


main()
