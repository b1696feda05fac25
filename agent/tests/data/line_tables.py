"""Compiles the standard library and writes, for every code object, its line table and what the
interpreter itself says about each instruction.

All numbers are little-endian: u32 format, i32 first line, u32 bytes of the table, u32 count of
instructions, the table, then a u32 line for each two bytes of bytecode, 0 for none.
"""

import array
import ctypes
import dis
import os
import struct
import sys
import sysconfig
import types

LNOTAB, RANGES, LOCATIONS = 1, 2, 3
FORMAT = LNOTAB if sys.version_info < (3, 10) else RANGES if sys.version_info < (3, 11) else LOCATIONS

# Data for tests of other tools: not sources of this version, or made to be wrong.
LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "bad_coding", "data", "badsyntax"}


def line_of_instruction(code, offset, ask=ctypes.pythonapi.PyCode_Addr2Line):
    return ask(ctypes.py_object(code), offset)


def lines_by_starts(code, count):
    """`dis.findlinestarts`, each line up to the next start."""
    lines = array.array("I", bytes(4 * count))
    starts = list(dis.findlinestarts(code))
    for (start, line), (end, _) in zip(starts, starts[1:] + [(2 * count, None)]):
        lines[start // 2 : end // 2] = array.array("I", [line]) * (end // 2 - start // 2)
    return lines


def lines_by_ranges(code, count):
    """`co_lines`."""
    lines = array.array("I", bytes(4 * count))
    for start, end, line in code.co_lines():
        lines[start // 2 : end // 2] = array.array("I", [line or 0]) * (end // 2 - start // 2)
    return lines


def write(code, out):
    count = len(code.co_code) // 2
    if FORMAT == LNOTAB:
        table, lines = code.co_lnotab, lines_by_starts(code, count)
    else:
        table, lines = code.co_linetable, lines_by_ranges(code, count)
    assert len(lines) == count
    # The function that tracebacks use, for the first, the last and a few between.
    for index in range(0, count, 1 + count // 16):
        line = line_of_instruction(code, 2 * index)
        assert max(line, 0) == lines[index], (code, index, line, lines[index])
    out.write(struct.pack("<IiII", FORMAT, code.co_firstlineno, len(table), count))
    out.write(table)
    out.write(lines.tobytes())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            write(constant, out)


def main():
    out = sys.stdout.buffer
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
            except (SyntaxError, ValueError):
                # Some tests are about sources that do not compile.
                assert "test" in folder or "test" in name, (folder, name)
                continue
            write(code, out)
    out.flush()


main()
