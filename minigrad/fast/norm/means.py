"""The blocks of a normalisation: means over some axes of large arrays."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import WHOLE, long_runs, outermost, pieces, single
from ...backends.pool import share


class Blocks:
    """The blocks of x for means over `axis`.

    complete: a block has all elements of its own means, which are computed in the same pass. If not
    (the batch of batch_norm is cut), the sums of all blocks come first. They are added in the order
    of the blocks: the number of threads makes no difference.
    """

    def __init__(self, x: Any, axis: tuple):
        self.count = max(1, prod([x.shape[k] for k in axis]))
        self.complete, self.pieces = True, [WHOLE] if x.size else []
        self.context = partial(long_runs, x, axis)
        along = None if single(x) else outermost(x, axis)
        if along is None:
            return
        # cutting an inner axis would give blocks of short runs: the first is cut, and sums are
        # added
        self.complete = along == 0 or 0 not in axis
        self.pieces = pieces(x, along if self.complete else 0)

    def totals(self, sums: Callable[[tuple], tuple]) -> list:
        """The totals of sums(piece) over all blocks."""
        parts: list = [None] * len(self.pieces)

        def work(i: int) -> None:
            parts[i] = sums(self.pieces[i])

        with self.context():
            share(work, range(len(parts)))
        return [np.add.reduce(part) for part in zip(*parts, strict=True)]

    def run(self, work: Callable[[tuple], Any]) -> None:
        """work(piece) for every block."""
        with self.context():
            if len(self.pieces) == 1:
                work(self.pieces[0])
            else:
                share(work, self.pieces)
