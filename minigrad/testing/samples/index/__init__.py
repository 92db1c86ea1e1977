"""Samples of indexing, ordering and diagonals."""

import numpy as np


def ints(*values):
    return np.array(values)


TWICE = ints(0, 2, 2, -1)
MASK = np.array([[True, False, True], [False, True, True]])


def added(x, places, shape):
    """Zeros of `shape` with x added at these flat positions, one for each element of x."""
    if x.shape != places.shape:
        raise ValueError("one place for each element")
    y = np.zeros(shape, x.dtype)
    np.add.at(y.reshape(-1), places, x)
    return y


def one(value):
    """The value, which may not be an array of several."""
    if np.ndim(value):
        raise ValueError("one value is needed")
    return value
