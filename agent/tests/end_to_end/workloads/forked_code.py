# A program that makes machine code and starts a copy of itself. Both run the code on one processor
# for two seconds, and each has a name of its own for it.

import ctypes
import mmap
import os
import time

# push %rbp; mov %rsp, %rbp; 1: dec %rdi; jnz 1b; pop %rbp; ret
CODE = b"\x55\x48\x89\xe5\x48\xff\xcf\x75\xfb\x5d\xc3"

memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(CODE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(address)


def call_it(role):
    with open("/tmp/perf-%d.map" % os.getpid(), "w") as names:
        names.write("%x %x made by the %s\n" % (address, len(CODE), role))
    end = time.time() + 2
    while time.time() < end:
        function(1000000)


def by_parent():
    call_it("parent")


def by_child():
    call_it("child")
    os._exit(0)


os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
# The agent learns of the memory.
end = time.time() + 0.5
while time.time() < end:
    function(1000000)
child = os.fork()
if child == 0:
    by_child()
by_parent()
os.waitpid(child, 0)
for pid in (os.getpid(), child):
    os.remove("/tmp/perf-%d.map" % pid)
