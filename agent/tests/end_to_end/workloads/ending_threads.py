"""As many threads as the argument says, each of which ends when its id is read."""

import sys
import threading
import truth

ends = {}
threads = {}


def wait(started):
    tid = threading.get_native_id()
    ends[tid], threads[tid] = threading.Event(), threading.current_thread()
    started.release()
    ends[tid].wait()


threading.stack_size(128 << 10)
started = threading.Semaphore(0)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=wait, args=(started,), daemon=True).start()
    started.acquire()
truth.ready()
for line in sys.stdin:
    ends[int(line)].set()
    threads[int(line)].join()
    print("ended", flush=True)
