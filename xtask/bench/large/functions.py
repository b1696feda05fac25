"""Run by gdb: prints for each address in the file that the variable ADDRESSES names a line with it,
then as addr2line for each function, the innermost inlined one first, its name, and file and line.
Only the innermost function has a line.
"""

import os

import gdb

with open(os.environ["ADDRESSES"]) as addresses:
    for text in addresses:
        address = int(text, 16)
        print("0x%x" % address)
        place = gdb.find_pc_line(address)
        line = place.line
        try:
            block = gdb.block_for_pc(address)
        except RuntimeError:
            block = None
        while block is not None and not block.is_global and not block.is_static:
            if block.function is not None:
                print(block.function.name)
                print("??:%d" % line)
                line = 0
            block = block.superblock
