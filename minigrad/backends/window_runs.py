"""Windows of images as long runs: where these begin, and the distance of their rows.

The padded image is split into phases, the pixels at multiples of the stride (with stride 1 there is
one phase), and each phase is flattened to one long row. Moving all windows by one position is then
an offset into that row. Between two rows of the image, such a row holds entries of no window.
"""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

MANY = 128  # positions in a row of a tile; with fewer, one axis after the other is faster


def are_large_tiles(how: Any, size: tuple[int, ...]) -> bool:
    """Whether a reduction over the windows' axes is faster than the other forms.

    It is if each window is the whole image of this size, or if windows with long rows tile the
    image without a remainder.
    """
    if how.kernel == size:
        return how.tiling
    if how.kernel[-1] < MANY or not how.tiling:
        return False
    return not any(n % k for n, k in zip(size, how.kernel, strict=True))


class WindowRuns:
    """The runs of windows of images (*lead, *size); the results have the size `out`.

    how      the windows: kernel, stride, padding and dilation of each spatial axis
    rows     entries of a phase along each axis
    steps    entries of the long row from one result to the next along each axis
    length   of a run, from the first to the last result in the long row
    """

    def __init__(self, how: Any, size: tuple, out: tuple):
        self.how, self.size, self.out = how, tuple(size), tuple(out)
        whole = [n + sum(pair) for n, pair in zip(size, how.padding, strict=True)]
        self.rows = [-(-n // step) for n, step in zip(whole, how.stride, strict=True)]
        self.steps = [prod(self.rows[i + 1 :]) for i in range(len(size))]
        self.length = 1 + sum((n - 1) * step for n, step in zip(out, self.steps, strict=True))

    def starts(self) -> Iterator[tuple]:
        """(phase, offset in it) of each kernel position."""
        how = self.how
        for offsets in product(*map(range, how.kernel)):
            moves = [k * d for k, d in zip(offsets, how.dilation, strict=True)]
            starts = [
                move // s * step
                for move, s, step in zip(moves, how.stride, self.steps, strict=True)
            ]
            yield tuple([move % s for move, s in zip(moves, how.stride, strict=True)]), sum(starts)
