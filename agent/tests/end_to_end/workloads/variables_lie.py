"""A thread that waits with objects that say of themselves what is not so."""

import ctypes
import gc
import sys
import time

HEAD = object.__basicsize__
IS_OLD = sys.version_info[0] == 2


def set_word(value, offset, word):
    ctypes.c_size_t.from_address(id(value) + offset).value = word


def wait_with(honest):
    endless = [1, 2, 3]
    all_of_it = [1, 2, 3]
    elsewhere = [1, 2, 3]
    repeated = (1, 2, 3)
    text = "text" * 2 + str(honest)
    data = bytes(bytearray(b"data" * 2))
    number = 2 ** 100 + honest
    table = {"a": honest}
    wrong_class = [honest]
    no_class = [honest]
    nested = [[honest]]
    escape = "\x1b[31m\n\u202e"
    set_word(endless, HEAD, 2 ** 60)
    set_word(all_of_it, HEAD, 2 ** 60)
    set_word(all_of_it, HEAD + 16, 2 ** 61)
    set_word(elsewhere, HEAD + 8, 2 ** 46)
    set_word(repeated, HEAD, 2 ** 62)
    set_word(text, HEAD, 2 ** 61)
    set_word(data, HEAD, 2 ** 61)
    set_word(number, HEAD, 2 ** 50)
    set_word(table, HEAD + 8 * IS_OLD, 2 ** 40)
    set_word(wrong_class, HEAD - 8, id(str))
    set_word(no_class, HEAD - 8, 2 ** 47 - 8)
    set_word(nested[0], HEAD, 2 ** 59)
    print("ready")
    sys.stdout.flush()
    time.sleep(10000)


gc.disable()
wait_with(7)
