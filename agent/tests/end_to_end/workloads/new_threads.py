"""A new thread twenty times a second, that sleeps for two seconds: they are made by Python and by the C library in turn."""

import ctypes
import threading
import time

import truth

_START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def sleeps(_=None):
    time.sleep(2)


_started = _START(sleeps)


def starts():
    c_library = ctypes.CDLL(None)
    threads = []
    while True:
        thread = ctypes.c_ulong()
        c_library.pthread_create(ctypes.byref(thread), None, _started, None)
        c_library.pthread_detach(thread)
        time.sleep(0.05)
        threads.append(threading.Thread(target=sleeps))
        threads[-1].daemon = True
        threads[-1].start()
        time.sleep(0.05)


if __name__ == "__main__":
    truth.ready()
    starts()
