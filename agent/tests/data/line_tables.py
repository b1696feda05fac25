"""Compiles the standard library and writes, for every code object, its line table and what the
interpreter itself says about each instruction.

All numbers are little-endian: u32 format, i32 first line, u32 bytes of the table, u32 bytes of a
unit, u32 count of units, the table, then a u32 line for each unit of the bytecode, 0 for none.

Runs on every version from 2.7 on.
"""

import dis
import os
import struct
import sys
import sysconfig
import types

try:
    import ctypes
except ImportError:
    # Some builds are made without it.
    ctypes = None

LNOTAB, RANGES, LOCATIONS, UNSIGNED_LNOTAB = 1, 2, 3, 4
FORMAT = (
    UNSIGNED_LNOTAB if sys.version_info < (3,)
    else LNOTAB if sys.version_info < (3, 10)
    else RANGES if sys.version_info < (3, 11)
    else LOCATIONS
)
# Instructions stand at multiples of this.
UNIT = 1 if sys.version_info < (3, 6) else 2

# Data for tests of other tools: not sources of this version, or made to be wrong.
LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "bad_coding", "data", "badsyntax"}


def line_of_instruction(code, offset):
    """What tracebacks say."""
    return ctypes.pythonapi.PyCode_Addr2Line(ctypes.py_object(code), offset)


def starts_as_ranges(code):
    """`dis.findlinestarts`, each line up to the next start."""
    starts = list(dis.findlinestarts(code))
    for (start, line), (end, _) in zip(starts, starts[1:] + [(len(code.co_code), None)]):
        yield start, end, line


def write(code, out):
    count = len(code.co_code) // UNIT
    if FORMAT in (LNOTAB, UNSIGNED_LNOTAB):
        table, ranges = code.co_lnotab, starts_as_ranges(code)
    else:
        table, ranges = code.co_linetable, code.co_lines()
    lines = [0] * count
    for start, end, line in ranges:
        start, end = start // UNIT, end // UNIT
        lines[start:end] = [line or 0] * (end - start)
    assert len(lines) == count
    # For the first, the last and a few between also the function that tracebacks use.
    for index in range(0, count, 1 + count // 16) if ctypes else ():
        line = line_of_instruction(code, UNIT * index)
        assert max(line, 0) == lines[index], (code, index, line, lines[index])
    out.write(struct.pack("<IiIII", FORMAT, code.co_firstlineno, len(table), UNIT, count))
    out.write(table)
    out.write(struct.pack("<%dI" % count, *lines))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            write(constant, out)


def main():
    out = getattr(sys.stdout, "buffer", sys.stdout)
    root = sysconfig.get_paths()["stdlib"]
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for name in sorted(files):
            if not name.endswith(".py"):
                continue
            with open(os.path.join(folder, name), "rb") as file:
                source = file.read()
            try:
                code = compile(source, name, "exec", dont_inherit=True)
            except (SyntaxError, TypeError, ValueError):
                # Some tests are about sources that do not compile.
                assert "test" in folder or "test" in name, (folder, name)
                continue
            write(code, out)
    out.flush()


main()
