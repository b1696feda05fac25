"""Grows by arrays of numpy and by data frames of pandas, one function each, and keeps all of it.

Prints what `resident.grow_by_each` does. The argument is the folder of both packages.
"""

import sys

import resident

sys.path.insert(0, sys.argv[1])
import numpy
import pandas

kept = []


def grow_ones():
    kept.append(numpy.ones(6 << 20))


def grow_product():
    matrix = numpy.ones((1800, 1800))
    # Not that of matrices, which has memory of its own in threads of its own.
    kept.extend([matrix, matrix * 2])


def grow_small_arrays():
    kept.extend([numpy.full(200, i) for i in range(20000)])


def grow_frame():
    columns = {name: numpy.arange(1 << 20) for name in "abcd"}
    # Of which it makes copies.
    kept.extend([columns, pandas.DataFrame(columns)])


# What numpy and pandas allocate once.
(numpy.ones((8, 8)) * 2).sum()
pandas.DataFrame({"a": numpy.arange(8)})
resident.grow_by_each((grow_ones, grow_product, grow_small_arrays, grow_frame))
