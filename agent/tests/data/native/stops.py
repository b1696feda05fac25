# Lets gdb tell what it sees when a program stops: the registers and the frames of all threads.
#
# What is told stands on lines that begin with "@ "; the last one of a stop is "@ done".

import gdb

# In the order of their numbers in DWARF.
REGISTERS = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"]
REGISTERS += ["r%d" % number for number in range(8, 16)] + ["rip", "fs_base"]

# Other frames are not on the stack: gdb infers them.
KINDS = {gdb.NORMAL_FRAME: "normal", gdb.SIGTRAMP_FRAME: "signal"}

SETTINGS = [
    "pagination off",
    "confirm off",
    "backtrace past-main on",
    "debuginfod enabled off",
    "disable-randomization off",
    "print thread-events off",
    "print inferior-events off",
    "style enabled off",
]

for setting in SETTINGS:
    gdb.execute("set " + setting)
# By this programs stop themselves at random instructions.
gdb.execute("handle SIGPROF stop print nopass", to_string=True)


def tell(*words):
    # gdb may have left a line without an end.
    gdb.write("\n@ %s\n" % " ".join(map(str, words)))


def stop(*commands):
    """Runs commands, then tells where the program has stopped."""
    try:
        for command in commands:
            gdb.execute(command, to_string=True)
        inferior = gdb.selected_inferior()
        if inferior.pid:
            selected = gdb.selected_thread()
            tell("pid", inferior.pid)
            for thread in sorted(inferior.threads(), key=lambda thread: thread.num):
                thread.switch()
                tell_thread(thread)
            selected.switch()
    except gdb.error as error:
        tell("error", str(error).replace("\n", " "))
    tell("done")
    gdb.flush()


def tell_thread(thread):
    frame = gdb.newest_frame()
    values = [int(frame.read_register(name)) & (2**64 - 1) for name in REGISTERS]
    tell("thread", thread.ptid[1], *values)
    while frame is not None:
        if frame.type() in KINDS:
            tell("frame", KINDS[frame.type()], frame.pc(), frame.name() or "?")
        last = frame
        try:
            frame = frame.older()
        except gdb.error as error:
            tell("end", str(error).replace("\n", " "))
            return
    tell("end", gdb.frame_stop_reason_string(last.unwind_stop_reason()))
