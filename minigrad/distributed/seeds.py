"""Random numbers of ranks."""

import numpy as np

from ..backends.random import manual_seed
from .ranks import world


def seed(number: int, shared: bool = False) -> np.random.Generator:
    """Start the library's generators from `number`; each rank has another stream.

    Dropout must differ between ranks, so the streams do: rank r draws from the r-th child of number
    (NumPy's SeedSequence), for any number of ranks. With shared=True all have the same stream, for
    draws that must agree, such as a model that DataParallel does not broadcast.
    """
    if shared:
        return manual_seed(number)
    child = np.random.SeedSequence(number, spawn_key=(world().rank,))
    return manual_seed(int(child.generate_state(1, np.uint64)[0]))
