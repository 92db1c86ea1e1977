"""fingerprint(array): a few bytes that show whether the bits of an array have changed.

A large array is read as 64-bit words in rows of 1,021, which are added up twice. The plain sum
changes with any one element. The sum of rows times their numbers changes when rows are exchanged.
Only a deliberate change leaves all sums equal.
"""

from typing import Any

import numpy as np

_WORDS = 1021
_LARGE = 8 * _WORDS  # bytes; smaller arrays are hashed byte by byte


def fingerprint(array: np.ndarray) -> tuple[Any, ...]:
    """Equal for two arrays of equal dtype, shape and bits, in any memory order.

    It compares bits, not numbers: −0 is not 0, and a NaN is equal to itself.
    """
    kind = (array.dtype, array.shape)
    if array.nbytes <= _LARGE or array.dtype.hasobject:
        return *kind, hash(array.tobytes())
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    rows, rest = divmod(data.size, _LARGE)
    words = data[: rows * _LARGE].view(np.uint64).reshape(rows, _WORDS)
    sums = np.add.reduce(words, axis=0)
    numbered = np.einsum("i,ij->j", np.arange(rows, dtype=np.uint64), words)
    rest_of_it = data[data.size - rest :].tobytes()
    return *kind, hash(sums.tobytes() + numbered.tobytes() + rest_of_it)
