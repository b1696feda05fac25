"""Burns processor time in workers of `multiprocessing`, one for each way to start them, and prints their ids."""

import multiprocessing
import os
import time


def burn(ids, pid):
    ids.put(os.getpid())
    # It would outlive a program that is killed.
    while os.path.exists("/proc/%d" % pid):
        for _ in range(100000): pass


if __name__ == "__main__":
    pids = []
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        ids = context.Queue()
        context.Process(target=burn, args=(ids, os.getpid())).start()
        pids.append(ids.get())
    print("ready", flush=True)
    print(*pids, flush=True)
    time.sleep(3600)
