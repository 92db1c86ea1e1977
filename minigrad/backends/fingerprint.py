"""fingerprint(array): a few bytes that tell whether an array still holds the bits that it held.

A large array is read as 64-bit words in rows of 1,021, and the rows are added up twice: as they
are, which one changed element changes, and times their numbers, which rows that change places
change. A change that leaves all sums equal has to be made for it.
"""

from typing import Any

import numpy as np

_WORDS = 1021
_LARGE = 8 * _WORDS  # bytes; below, the bytes themselves are taken


def fingerprint(array: np.ndarray) -> tuple[Any, ...]:
    """What two arrays have in common that are equal in dtype, shape and bits, in any memory order.

    Bits, not numbers: −0 is not 0, and a NaN is equal to itself.
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
