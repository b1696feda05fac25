"""What the interpreter itself says about a stack."""

import os
import sys
import threading

# A long text is not written at once, and other threads write too.
_writing = threading.Lock()


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
    name = threading.current_thread().name
    text = "%s\t%d\t%s\n" % (name, threading.get_native_id(), ";".join(reversed(frames)))
    with _writing:
        os.write(1, text.encode())
