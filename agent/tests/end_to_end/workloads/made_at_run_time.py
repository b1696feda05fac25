"""Makes machine code at run time, says what it is called, and runs it."""

import ctypes
import mmap
import os
import truth

# push %rbp; mov %rsp, %rbp; 1: dec %rdi; jnz 1b; pop %rbp; ret
CODE = b"\x55\x48\x89\xe5\x48\xff\xcf\x75\xfb\x5d\xc3"
NAME = "made by hand"

memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(CODE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
with open("/tmp/perf-%d.map" % os.getpid(), "w") as names:
    names.write("%x %x %s\n" % (address, len(CODE), NAME))
function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(address)


def work():
    while True:
        function(50000000)


truth.ready()
work()
