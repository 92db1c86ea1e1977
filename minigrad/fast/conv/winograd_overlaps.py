"""The transpose of reading Winograd's tiles from images (winograd.py), for images pixels first.

A tile reads four pixels d of an axis, and the next tile begins two pixels further. From m, the
gradient of a transformed tile, the gradient of its pixels is

    B m = m₀, m₁ − m₂ + m₃, m₁ + m₂ − m₀, −m₃

The last two pixels are the first two of the next tile: they are added there. Along several axes
this happens one axis after the other, the first axis last. Along the first axis a piece ends in the
middle of an image (winograd_tiles.py). Its last two rows are the first of the next piece: they are
kept in a separate array, and added when all pieces are done. No two threads then write to the same
memory, and the order of the sums is always the same.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...backends.blocks import Steps, scratch
from ...backends.image_layout import places
from .winograd_axis import OVERLAPS, at_axis, by_products
from .winograd_tiles import Piece, finite, tiles_of


class _Terms(NamedTuple):
    """A tile's four pixels along an axis: even₀, odd₀ and, of the next tile, even₁, −odd₁."""

    even: Any
    odd: Any
    next_even: Any
    next_odd: Any


class Overlaps:
    """Images y (N, C, *size), pixels first, filled piece by piece, by any thread.

    out: the size of the convolution's results; before: pixels before y's first that a tile sees.
    """

    def __init__(self, y: Any, out: tuple, before: tuple):
        self.rows, self.size, self.before = places(y), y.shape[2:], before
        self.last = tiles_of(out)[0]  # where the last piece of an image ends
        self.borders: list[tuple[Piece, Any]] = []  # rows for the next piece: (2, ..., run)

    def add(self, m: Any, piece: Piece, steps: Steps) -> Callable[[], bool]:
        """Append the steps that write B m of the piece's m (4ᵃ, tiles, channels).

        Returns a function that tells, after these steps, whether all of it is finite.
        """
        axes, y = len(self.size), self._of(piece)

        def write() -> tuple:
            x, early = m.reshape((*(4,) * axes, *piece.tiles, y.shape[-1])), []
            for i in range(axes - 1, 0, -1):
                rest = x.shape[2 * i + 2 :]
                shape = (*(4,) * i, *piece.tiles[:i], self.size[i], *rest)
                into = scratch.empty(f"axis {i - 1}", shape, m)
                terms = _terms(x, i, early)
                early += _along(terms, 2 * i, self.before[i], into, piece.tiles[i] + 1)
                x = into
            return early, _terms(x, 0, early)

        sizes = (m.shape, piece.tiles, self.size, self.before[1:])
        key = ("overlaps", *sizes, m.dtype, by_products(y))
        early, terms = scratch.written(key, write) if scratch.keeps(m) else write()
        steps += early
        count, skipped = piece.tiles[0], self.before[0] - 2 * piece.start
        whole = piece.start + count == self.last
        steps += _along(terms, 0, skipped, y, count + whole)
        own = y[_rows(0, count + whole, skipped, len(y))]
        if whole:
            return lambda: finite(own)
        border = np.empty((2, *y.shape[1:]), m.dtype)
        self.borders.append((piece, border))
        steps += [
            (np.copyto, (border[0], terms.next_even[-1])),
            (np.multiply, (terms.next_odd[-1], -1, border[1])),
        ]
        return lambda: finite(own) and finite(border)

    def finish(self) -> list[Piece]:
        """Add the rows that pieces share. Returns the pieces where such a sum is not finite."""
        bad = []
        for piece, border in self.borders:
            end, y = piece.start + piece.tiles[0], self._of(piece)
            own = _rows(end, end + 1, self.before[0], len(y))
            first = 2 * end - self.before[0]
            y[own] += border[own.start - first : own.stop - first]
            if not finite(y[own]):
                bad.append(piece)
        return bad

    def _of(self, piece: Piece) -> Any:
        """The piece's images, a view (*size, run)."""
        y = self.rows[..., piece.images, :]
        return y.reshape((*self.size, y.shape[-2] * y.shape[-1]))


def _rows(first: int, stop: int, skipped: int, n: int) -> slice:
    """Which of n pixels are the first two of the tiles first..stop."""
    return slice(*(min(max(2 * tile - skipped, 0), n) for tile in (first, stop)))


def _terms(x: Any, axis: int, steps: Steps) -> _Terms:
    """Append the steps for the terms of B m along an axis: its components are axis `axis` of x."""
    first, *_, last = [x[at_axis(axis, k)] for k in range(4)]
    sums = scratch.empty("padded", (2, *first.shape), x)
    steps += OVERLAPS.steps(
        x, axis, sums.transpose((*range(1, axis + 1), 0, *range(axis + 1, x.ndim)))
    )
    return _Terms(first, sums[0], sums[1], last)


def _along(terms: _Terms, axis: int, skipped: int, y: Any, stop: int) -> Steps:
    """y = the sums of terms: the first two pixels of each of the tiles 0..stop, where y has them.

    Tiles and y's pixels are along `axis`; `skipped` of the tiles' pixels come before y's first. The
    last tile's share of the next one is separate pixels, if `stop` counts that tile.
    """
    count, n = terms.even.shape[axis], y.shape[axis]
    steps: Steps = []
    for parity, (own, earlier, combine) in enumerate((
        (terms.even, terms.next_even, np.add),
        (terms.odd, terms.next_odd, np.subtract),
    )):  # fmt: skip
        low = -((parity - skipped) // 2)  # the tiles low..high have such a pixel in y
        high = min(stop, (n - 1 + skipped - parity) // 2 + 1)

        def of(tiles: slice, parity: int = parity) -> Any:
            first, stop = (2 * tile + parity - skipped for tile in (tiles.start, tiles.stop))
            return y[at_axis(axis, slice(first, stop, 2))]

        if low <= 0 < high:
            steps.append((np.copyto, (of(slice(0, 1)), own[at_axis(axis, slice(0, 1))])))
        both = slice(max(low, 1), min(high, count))
        if both.start < both.stop:
            before = slice(both.start - 1, both.stop - 1)
            pair = own[at_axis(axis, both)], earlier[at_axis(axis, before)]
            steps.append((combine, (*pair, of(both))))
        if low <= count < high:
            alone, into = earlier[at_axis(axis, slice(-1, None))], of(slice(count, count + 1))
            # np.negative is wrong for some strides where NumPy (2.4) has its AVX-512 loops
            steps.append((np.multiply, (alone, -1 if parity else 1, into)))
    return steps
