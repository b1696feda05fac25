"""What the interpreter itself says about a stack, in words of every version from 2.7 on."""

import os
import sys
import threading
import time

# A long text is not written at once, and other threads write too.
_writing = threading.Lock()


def ready():
    """Tells that the workload is at work."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def start(name, function, *arguments):
    """Starts a thread that does not keep the process alive."""
    thread = threading.Thread(target=function, args=arguments, name=name)
    thread.daemon = True
    thread.start()
    return thread


def thread_id():
    """The kernel's id of this thread."""
    return int(os.path.basename(os.readlink("/proc/thread-self")))


_schedule = threading.local()


def blocked_clock():
    """A clock of this thread that stands still while it runs or waits for a processor, in seconds (3.7 and later)."""
    if not hasattr(_schedule, "file"):
        _schedule.file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    nanoseconds_runnable = int(os.pread(_schedule.file, 100, 0).split()[1])
    return time.perf_counter() - time.thread_time() - nanoseconds_runnable / 1e9


def _thread_name():
    """The name that can be seen from outside: in Python 2 that is the kernel's."""
    name = threading.current_thread().name
    if sys.version_info >= (3,) or name == "MainThread":
        return name
    with open("/proc/thread-self/comm") as command:
        return command.read().strip()


def report():
    """Prints the thread's name and id, and the stack of the caller as if it stood on its next line.

    The caller's next line is therefore the one that uses all the CPU.
    """
    frames = []
    frame = sys._getframe(1)
    line = frame.f_lineno + 1
    while frame is not None:
        code = frame.f_code
        # Since 3.11.
        name = getattr(code, "co_qualname", code.co_name)
        frames.append("%s (%s:%d)" % (name, code.co_filename, line))
        frame = frame.f_back
        line = frame and frame.f_lineno
    text = "%s\t%d\t%s\n" % (_thread_name(), thread_id(), ";".join(reversed(frames)))
    with _writing:
        os.write(1, text.encode())
