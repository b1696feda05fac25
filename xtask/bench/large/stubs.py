"""Run by gdb: prints for each address in the file that the variable ADDRESSES names that is in a stub
of the procedure linkage table a line with it, then as addr2line the stub's name, and file and line.
"""

import os

import gdb

with open(os.environ["ADDRESSES"]) as addresses:
    for text in addresses:
        # For example `malloc@plt + 4 in section .plt`; `*ABS*+0xaa0c0@plt` where the function has no
        # name, because the library chooses one as it is loaded.
        found = gdb.execute("info symbol " + text, to_string=True).split(" ")[0]
        if found.endswith("@plt") and not found.startswith("*"):
            print("%s\n%s\n??:0" % (text.strip(), found))
