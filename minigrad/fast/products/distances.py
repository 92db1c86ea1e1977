"""Distances of all pairs of rows without the array of differences.

Between n and m rows of d numbers there are n m d differences, which cost more to write to memory
than to compute. Here they are computed block by block. Euclidean distances need none of them where
two matrix products give the same digits: y² = |a_i|² + |b_j|² − 2 a_i·b_j and, with w = g/y,
ga_i = a_i Σ_j w_ij − Σ_j w_ij b_j. That holds where the subtraction cancels no digits of y's dtype.
Numbers of up to 32 bits are multiplied in float64, which is enough for
y² > (|a_i|² + |b_j|²)/10⁶; for float64 numbers it is enough for y² > (|a_i|² + |b_j|²)/4. Nearer
pairs, and all pairs for other p, are computed from their differences.
"""

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...backends.blocks import on_threads, scratch, spans
from ...backends.dtypes import accumulator, common_dtype
from ...custom.rule_variants import vjp_variant
from ...custom.variants import Variant, add
from ...engine.registry import op
from ...ops.axes import as_floating, sum_to
from ...ops.reduce.spread import divided, p_norm, p_norm_dx
from ..index.rows import sum_rows
from ..reduce.forms import p_norm_dx as by_quotients


def row_distances(a: Any, b: Any, p: float = 2.0) -> Any:
    a, b = as_floating(a), as_floating(b)
    if "c" in (a.dtype.kind, b.dtype.kind) or a.shape[-1] != b.shape[-1]:
        return None  # the reference raises the error
    pairs = _Pairs.of(a, b, p)
    y = np.empty((*pairs.lead, a.shape[-2], b.shape[-2]), pairs.dtype)
    pairs.fill(pairs.stacked(y))
    return y


@vjp_variant(op.row_distances, name="blocks", on=("cpu",))
def row_distances_gradients(g, a, b, y, p, needs):
    if not all(isinstance(x, np.ndarray) for x in (g, a, b, y)):
        return None
    pairs = _Pairs.of(a, b, p)
    found = pairs.pull(pairs.stacked(g), pairs.stacked(y), needs)
    return [
        None
        if h is None
        else sum_to(h.reshape((*pairs.lead, *h.shape[1:])), x.shape).astype(x.dtype, copy=False)
        for h, x in zip(found, (a, b), strict=True)
    ]


AT_ONCE = 1 << 16  # numbers of a block, differences or distances: 512 kB of float64
NEAR = 1 / 8  # of a block's pairs: if more are too near for products, all take differences
ROWS = 32  # at least, of a product: with fewer, BLAS reads b for little work
SHARES = 8  # at most, partial sums of b's gradient, which threads share


def _blocks(s: int, m: int, each: int, least: int = ROWS) -> list[tuple[slice, slice]]:
    """(examples, rows) that cut s × m rows with `each` numbers into blocks of AT_ONCE numbers.

    They depend only on the shapes, not on threads.
    """
    rows = max(AT_ONCE // max(each, 1), least)
    if m <= rows:
        return [(span, slice(0, m)) for span in spans(s, rows // max(m, 1))]
    return [(slice(i, i + 1), span) for i in range(s) for span in spans(m, rows)]


class _Pairs(NamedTuple):
    """All pairs of rows of a (s, m, d) and b (s, n, d), s examples in a stack.

    a, b     the rows in the dtype of the computation
    squares  |a_i|² (s, m) and |b_j|² (s, n), for p = 2
    safe     products are exact enough where y² ≥ safe (|a_i|² + |b_j|²)
    far      products are exact enough where y² is at least this, for every pair
    lead     the leading axes joined in s; dtype: of the distances
    """

    a: Any
    b: Any
    p: float
    squares: tuple
    safe: float
    far: float
    lead: tuple
    dtype: Any

    @classmethod
    def of(cls, a: Any, b: Any, p: float) -> "_Pairs":
        dtype = common_dtype(a, b)
        wide = np.result_type(dtype, np.float64) if p == 2 else accumulator(dtype) or dtype
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if not a.shape[:-2] == lead == b.shape[:-2]:
            a, b = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
        a, b = (x.astype(wide, copy=False).reshape((prod(lead), *x.shape[-2:])) for x in (a, b))
        if p != 2:
            return cls(a, b, p, (), 0.0, np.nan, lead, dtype)
        safe = 0.25 if dtype == wide else 2.0**-20
        with np.errstate(all="ignore"):
            squares = tuple([np.vecdot(x, x) for x in (a, b)])
            most = sum(float(square.max(initial=0)) for square in squares)
        # if 8 · most overflows, some y² might too: then each pair is tested
        far = safe * most + np.finfo(wide).tiny if 8 * most < np.inf else np.nan
        return cls(a, b, p, squares, safe, far, lead, dtype)

    def stacked(self, x: Any) -> Any:
        """x (…, ., .) as (s, ., .); a view where it is contiguous."""
        return x.reshape((len(self.a), *x.shape[-2:]))

    def fill(self, y: Any) -> None:
        """Write the distances to y (s, m, n)."""

        def work(piece: tuple) -> None:
            self._part(piece)._fill(y[piece])

        self._run(work, _blocks(*y.shape), y)

    def pull(self, g: Any, y: Any, needs: list[bool]) -> list:
        """The gradients of a and b, None if not needed, for a cotangent g of the distances y."""
        (s, m, d), (_, n, _) = self.a.shape, self.b.shape
        blocks = _blocks(s, m, n)
        wide, shares = self.a.dtype, 1
        runs = [(0, [piece]) for piece in blocks]
        if len(blocks) > s > 0:  # b's gradient adds up the blocks of an example
            count = len(blocks) // s
            each = -(-count // SHARES)
            shares = -(-count // each)
            runs = [
                (k, blocks[i * count : (i + 1) * count][k * each : (k + 1) * each])
                for i in range(s)
                for k in range(shares)
            ]
        ha = np.zeros((s, m, d), wide) if needs[0] else None
        hb = np.zeros((s, shares, n, d), wide) if needs[1] else None

        def work(run: tuple) -> None:
            k, pieces = run
            for piece in pieces:
                self._part(piece)._pull(
                    g[piece], y[piece],
                    None if ha is None else ha[piece], None if hb is None else hb[piece[0], k],
                )  # fmt: skip

        self._run(work, runs, y)
        if hb is not None:
            hb = hb[:, 0] if shares == 1 else hb.sum(1)
        return [ha, hb]

    def _run(self, work: Any, pieces: list, y: Any) -> None:
        if y.size:
            with np.errstate(all="ignore"):  # such pairs are found and computed from differences
                on_threads(work, pieces, y)

    # one block

    def _part(self, piece: tuple) -> "_Pairs":
        """Some examples, and some rows of a of each."""
        squares = self.squares and (self.squares[0][piece], self.squares[1][piece[0]])
        return self._replace(a=self.a[piece], b=self.b[piece[0]], squares=squares)

    def _fill(self, y: Any) -> None:
        if self.p == 2:
            square = np.matmul(self.a * -2, self.b.swapaxes(1, 2))
            square += self.squares[0][:, :, None]
            square += self.squares[1][:, None, :]
            near = self._near(square)
            if near is not None:
                y[...] = np.sqrt(square, out=square)
                for e, i, j in self._listed(near, y):
                    y[e, i, j] = _norms(self.a[e, i] - self.b[e, j], 2)
                return
        for piece, x in self._from_differences():
            y[piece] = _norms(x, self.p)

    def _pull(self, g: Any, y: Any, ha: Any, hb: Any) -> None:
        """Add to ha and hb, where they are not None."""
        wide = self.a.dtype  # the dtype where 1/y of a tiny y is finite
        g, y = (c.astype(wide, copy=False) for c in (g, y))
        if self.p == 2:
            near = self._near(np.square(y))
            if near is not None and self._pull_by_products(g, y, near, ha, hb):
                return
        for piece, x in self._from_differences():
            h = _slopes(g[piece], x, y[piece], self.p)
            if ha is not None:  # as a product, which is several times as fast as NumPy's sum
                ha[piece] += np.matmul(np.ones(h.shape[2], h.dtype), h)
            if hb is not None:
                hb[piece[0]] -= h.sum(1)

    def _pull_by_products(self, g: Any, y: Any, near: Any, ha: Any, hb: Any) -> bool:
        """Add to ha and hb, if that is finite; whether it is: ∞ a − ∞ b is NaN where ∞ (a − b) is
        not."""
        w = g / y
        w[np.unravel_index(near, y.shape)] = 0
        sums = w.sum(2), w.sum(1)
        if not all(np.isfinite(total).all() for total in sums):
            return False
        if ha is not None:
            ha += sums[0][:, :, None] * self.a
            ha -= np.matmul(w, self.b)
        if hb is not None:
            hb += sums[1][:, :, None] * self.b
            hb -= np.matmul(w.swapaxes(1, 2), self.a)
        for e, i, j in self._listed(near, y):
            x = self.a[e, i] - self.b[e, j]
            x *= divided(g[e, i, j], y[e, i, j])[:, None]
            if ha is not None:
                ha += sum_rows(x, e * ha.shape[1] + i, ha.shape[0] * ha.shape[1]).reshape(ha.shape)
            if hb is not None:
                hb -= sum_rows(x, e * hb.shape[1] + j, hb.shape[0] * hb.shape[1]).reshape(hb.shape)
        return True

    def _near(self, square: Any) -> Any:
        """The flat indices in y² of pairs that are too near for products, or not finite.

        None: there are so many that computing the differences of all pairs is faster.
        """
        if square.min() >= self.far:
            return np.empty(0, np.intp)
        tiny = np.finfo(square.dtype).tiny  # equal rows are near at the origin, too
        a, b = (self.safe * x + tiny for x in self.squares)
        serves = square >= a[:, :, None] + b[:, None, :]
        if np.isnan(self.far):
            serves &= square < np.inf
        near = np.flatnonzero(~serves)
        return near if near.size <= NEAR * square.size else None

    def _listed(self, near: Any, y: Any) -> Iterator[tuple]:
        """The near pairs, some at a time: (example, row of a, row of b)."""
        for span in spans(near.size, max(1, AT_ONCE // max(1, self.a.shape[-1]))):
            yield np.unravel_index(near[span], y.shape)

    def _from_differences(self) -> Iterator[tuple]:
        """The block in smaller blocks: (its index, its differences (., ., n, d))."""
        s, m, d = self.a.shape
        for piece in _blocks(s, m, self.b.shape[1] * d, least=1):
            yield piece, self.a[piece][:, :, None] - self.b[piece[0]][:, None]


def _norms(x: Any, p: float) -> Any:
    """‖x‖ₚ along the last axis; x is overwritten."""
    if p not in (1, 2):
        return p_norm.forward(x, -1, p=p)
    ones = np.ones(x.shape[-1], x.dtype)
    if p == 1:
        return np.matmul(np.abs(x, out=x), ones)
    total = np.matmul(np.square(x, out=scratch.empty("squares", x.shape, x)), ones)
    lost = ~((total >= np.finfo(x.dtype).tiny) & (total < np.inf))
    y = np.sqrt(total)
    if lost.any():
        y[lost] = p_norm.forward(x[lost], -1, p=2)
    return y


def _slopes(g: Any, x: Any, y: Any, p: float) -> Any:
    """g times the slopes of y = ‖x‖ₚ in x."""
    if p != 1:
        h = by_quotients(g, x, y, -1, False, p)
        return p_norm_dx(g, x, y, -1, False, p) if h is None else h
    h = np.copysign(x.dtype.type(1), x)  # np.sign branches for each element: five times as long
    h *= g[..., None]
    none = ~(np.abs(x) > 0)
    if none.any():  # the slope at 0 is 0, at NaN NaN
        h[none] = x[none]
    return h


add(op.row_distances, Variant(row_distances, "cpu", name="blocks"))
