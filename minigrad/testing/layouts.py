"""The same numbers in other memory layouts."""

from collections.abc import Iterator

import numpy as np


def layouts(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same values in other memory: Fortran order, rows of wider ones, sliced, reversed strides.
    Also read-only at an odd address, as in a file mapped into memory."""
    if a.ndim > 1:
        yield "Fortran order", np.asfortranarray(a)
        padded = np.full((*a.shape[:-1], a.shape[-1] + 1), -7, a.dtype)
        padded[..., :-1] = a
        yield "in rows of a wider array", padded[..., :-1]
    if a.ndim:
        wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), -7, a.dtype)
        if a.ndim > 2:  # in memory the second axis is the first: neither C nor Fortran order
            wide = wide.swapaxes(0, 1).copy().swapaxes(0, 1)
        wide[..., ::2] = a
        yield "sliced" if a.ndim < 3 else "sliced and permuted", wide[..., ::2]
        back = (slice(None, None, -1),) * a.ndim
        yield "reversed strides", a[back].copy()[back]
    odd = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    odd[...] = a
    odd.flags.writeable = False
    yield "read-only at an odd address", odd


def repeated(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """One value at every position, or one row in every row: the same memory (stride 0)."""
    if a.size:
        yield "stride 0", np.broadcast_to(a.reshape(-1)[0], a.shape)
        if a.ndim > 1:
            yield "stride 0 along its first axis", np.broadcast_to(a[:1], a.shape)
