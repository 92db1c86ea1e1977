"""The same numbers in other memory."""

from collections.abc import Iterator

import numpy as np


def layouts(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same values in other memory: Fortran order, sliced, reversed strides, read-only."""
    if a.ndim > 1:
        yield "Fortran order", np.asfortranarray(a)
    if a.ndim:
        wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), -7, a.dtype)
        wide[..., ::2] = a
        yield "sliced", wide[..., ::2]
        back = (slice(None, None, -1),) * a.ndim
        yield "reversed strides", a[back].copy()[back]
    frozen = a.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen


def repeated(a: np.ndarray) -> np.ndarray:
    """One value in every place, all of them the same memory (stride 0)."""
    return np.broadcast_to(a.reshape(-1)[0], a.shape)
