"""The primitives of pooling in any number of dimensions: the maximum or the sum of each window.

calls.py has what users call.

The maximum runs pairwise over shifted slices, one axis after the other: for 2 × 2 windows that is
two passes of np.maximum, forty times as fast as `max` over two axes of reshaped windows.
"""

from collections.abc import Callable
from functools import partial
from itertools import compress
from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import accumulator, is_floating, lowest
from ...engine.primitive import linear, primitive
from .. import image_layout
from ..batching import full
from ..blocks import BLOCK, over_leading
from ..elementwise.selection import keep
from ..image_layout import scratch_like
from ..in_place import WHOLE, keep_into
from ..shifts import Shifts, Tiles, Views, placed
from ..windows import IDLE, Windows, every, fold, padded
from . import tiles

# Elements of the largest array in a block: calls must be long. Milliseconds of the gradient of
# max_pool2d(2), 32×32×32×32, for 2^17 … 2^20: on one thread 2.0, 1.3, 1, 1, on two 2.3, 1.4, 1, 1.2
IMAGES = 2 * BLOCK
FEW_PLACES = 3  # of a tile, up to which its places are taken one after the other


def _slide(combine: Callable, y: Any, x: Any, how: Windows) -> None:
    """y = combine (np.maximum, np.add) over each window of the padded x, axis after axis."""
    out = y.shape[-len(how.kernel) :]
    for i, (kernel, stride, _, dilation) in enumerate(how.axes()):
        later = (slice(None),) * (len(out) - 1 - i)
        parts = [x[(..., every(k * dilation, stride, out[i]), *later)] for k in range(kernel)]
        into = None if later else y
        x = combine(parts[0], parts[1], out=into) if kernel > 1 else parts[0]
        for part in parts[2:]:
            combine(x, part, out=x)
    if x is not y:
        y[...] = x


def _images(fill: Callable, how: Windows, x: Any, size: tuple, *arrays: Any) -> Any:
    """A new array (..., *size) like x, filled by fill(y, *arrays) in blocks; in the order of x."""
    lead = x.shape[: -len(size)]
    if len(lead) == 2 and image_layout.turned(x) and image_layout.lies_places_first(x):
        y = image_layout.empty((*lead, *size), x.dtype)
        arrays = tuple(map(image_layout.places_first, arrays))
        image_layout.over_strips(fill, how.tiling, IMAGES, y, *arrays)
        return y
    y = array_module(x).empty((*lead, *size), x.dtype)
    return over_leading(fill, len(size), y, *arrays, block=IMAGES)


# -- the maximum -----------------------------------------------------------------------------


@primitive(residuals=["hits"])
def max_pool(x, *, how):
    """y = max of each window, where padding counts as −∞;  gx: ties of a window share equally

    x (..., *size) -> y (..., *out). A NaN is the maximum of its windows; several share, as in max.
    The residual: see max_pool_dx; here nothing is noted.
    """
    dims = len(how.kernel)

    def fill(y: Any, x: Any) -> None:
        _slide(np.maximum, y, padded(x, how.padding, lowest(x.dtype), "padded"), how)

    y = _images(fill, how, x, how.count("max_pool", x.shape[-dims:]), x)
    return y, no_hits(x, how)


def no_hits(x: Any, how: Windows) -> Any:
    """The residual of a max_pool that has noted nothing: no entries, under the leading axes."""
    return array_module(x).empty((*x.shape[: -len(how.kernel)], 0), np.uint8)


@max_pool.vjp("x")
def max_pool_gx(g, x, y, hits, how):
    return max_pool_dx(g, x, y, hits, how=how)


@linear(arrays="a x y_max hits", constants=["x", "y_max", "hits"])
def max_pool_dx(a, x, y_max, hits=None, *, how):
    """Every entry of a, in equal shares, at those places of its window where x is the maximum.

    hits: for each window, as bits, which of its places those are, where a forward has noted it
    (on_gpu/pooling.py); x need not be read then. None, or without entries: x says.
    """
    dims = len(how.kernel)
    shifts = placed(how, x, x.shape[-dims:], y_max.shape[-dims:])

    def by_place(y: Any, a: Any, x: Any, y_max: Any) -> None:
        hits, ties = _hits(x, y_max, shifts)
        shares = np.divide(
            shifts.spread(a, "block 1"), ties, out=ties if a.dtype == x.dtype else None
        )
        shares = shares.astype(accumulator(a.dtype) or a.dtype, copy=False)
        shifts.put(_kept(shares, hits), y, shares)

    fill = partial(tiles.shares, how) if tiles.suits(how, x, a) else by_place
    if fill is by_place and type(shifts) is Tiles and prod(how.kernel) > FEW_PLACES:
        fill = partial(_shares_by_cover, how, shifts)
    return _images(fill, how, x, x.shape[-dims:], a, x, y_max)


@max_pool_dx.vjp("a")
def max_pool_dx_ga(g, x, y_max, how):
    return max_pool_pick(g, x, y_max, how=how)


@linear(constants=["x", "y_max"])
def max_pool_pick(a, x, y_max, *, how):
    """The mean of a (of x's shape) over those places of each window where x is the maximum."""
    dims = len(how.kernel)
    shifts = placed(how, x, x.shape[-dims:], y_max.shape[-dims:])

    def fill(y: Any, a: Any, x: Any, y_max: Any) -> None:
        hits, ties = _hits(x, y_max, shifts)
        total = array_module(a).zeros_like(ties, dtype=accumulator(a.dtype) or a.dtype)
        for run, hit in zip(shifts.places(a), hits, strict=True):
            total += keep(run, hit)
        y[...] = shifts.result(total / ties)

    return _images(fill, how, x, y_max.shape[-dims:], a, x, y_max)


@max_pool_pick.vjp("a")
def max_pool_pick_ga(g, x, y_max, how):
    return max_pool_dx(g, x, y_max, how=how)


@max_pool.jvp
def max_pool_jvp(x, x_t, y, how):
    return max_pool_pick(x_t, x, y, how=how)


def _hits(x: Any, y_max: Any, shifts: Shifts | Tiles | Views) -> tuple[Any, Any]:
    """For each place in a window, the run of where it holds the maximum; and how many do (or 1),
    in x's dtype. Both in scratch memory. Where a window has NaNs, it is these that do.
    """
    never = np.nan if is_floating(x.dtype) else 0  # padding never ties
    top, runs = shifts.spread(y_max, "block 0"), shifts.places(x, never)
    hits = scratch_like("axis 0", top.shape, top, np.bool_, count=(len(runs),))
    for run, hit in zip(runs, hits, strict=True):
        np.equal(run, top, out=hit)
    count = scratch_like("axis 1", top.shape, top, np.uint8 if len(runs) < 256 else np.uint32)
    _count(hits, count)
    if _has_nan(shifts.result(count), x):
        lost = top != top
        for run, hit in zip(shifts.places(x), hits, strict=True):  # padding is 0 here
            hit |= (run != run) & lost
        _count(hits, count)
    count += (count == 0).view(np.uint8)  # of no window; np.maximum(count, 1) is ten times slower
    ties = scratch_like("axis 2", top.shape, top, x.dtype)
    ties[...] = count
    return hits, ties


def _count(hits: Any, count: Any) -> None:
    count[...] = hits[0]
    for hit in hits[1:]:
        count += hit.view(np.uint8)


def _has_nan(count: Any, x: Any) -> bool:
    """Whether no place of some window equals its maximum, as beside a NaN; on a GPU, where it would
    wait for the answer: whether that may be so.
    """
    return is_floating(x.dtype) and (array_module(x) is not np or not count.all())


def _shares_by_cover(how: Windows, tiles: Tiles, y: Any, a: Any, x: Any, y_max: Any) -> None:
    """y = every entry of a, in equal shares, at those places of its tile where x is the maximum.

    What belongs to a tile is copied to all its places first: a dozen calls on whole images, where
    place after place would be four for each, with the tiles' width between two elements.
    """
    hits = scratch_like("axis 0", x.shape, x, np.bool_)
    over_tiles = scratch_like("block 0", x.shape, x)
    tiles.cover(over_tiles, y_max)
    np.equal(x, over_tiles, out=hits)
    small = prod(how.kernel) < 256
    count = scratch_like("block 1", y_max.shape, y_max, np.uint8 if small else np.uint32)
    _slide(np.add, count, hits.view(np.uint8) if small else hits.astype(np.uint32), how)
    if _has_nan(count, x):
        hits |= (x != x) & (over_tiles != over_tiles)
        _slide(np.add, count, hits.view(np.uint8) if small else hits.astype(np.uint32), how)
        count += (count == 0).view(np.uint8)
    shares = np.divide(a, count.astype(x.dtype))
    over_tiles = scratch_like("block 0", x.shape, shares)
    tiles.cover(over_tiles, shares)
    if y.dtype == shares.dtype and type(y) is np.ndarray:
        keep_into(y, over_tiles, hits)
    else:
        y[...] = keep(over_tiles, hits)


def _kept(x: Any, hits: Any) -> list[Callable[[Any], None]]:
    """For each place, what writes x where it is hit, else 0: as `keep`, a tenth of the time of
    copying with where=.

    What is written to may have gaps; what is done in two steps is done in scratch memory first.
    """
    whole = WHOLE.get(x.dtype.itemsize)

    def in_words(out: Any, hit: Any) -> None:
        out[...] = keep(x, hit)

    if whole is None or type(x) is not np.ndarray:
        return [partial(in_words, hit=hit) for hit in hits]
    bits, of_x = scratch_like("block 2", x.shape, x, whole), x.view(whole)

    def by_bits(out: Any, hit: Any) -> None:
        np.copyto(bits, hit)
        np.multiply(bits, of_x, out.view(whole))

    return [partial(by_bits, hit=hit) for hit in hits.view(np.int8)]


# -- the mean --------------------------------------------------------------------------------


@linear
def sum_pool(x, *, how, divisor=1):
    """y = Σ of each window / divisor, padding counts as 0 ;  gx = g / divisor, spread over windows

    divisor: a number; or ((before, after), …), for each axis how much padding counts: then each
    window is divided by how many of its places lie in x or that padding. 16-bit floats are added up
    and divided in float32: a sum may be out of range, its mean not.
    """
    dims = len(how.kernel)

    def fill(y: Any, x: Any) -> None:
        wide = x.astype(accumulator(x.dtype) or x.dtype, copy=False)
        total = y if wide.dtype == y.dtype else array_module(x).empty(y.shape, wide.dtype)
        _slide(np.add, total, padded(wide, how.padding, name="padded"), how)
        if by is not None:
            total /= by
        if total is not y:
            y[...] = total

    by = _divisors(x, how, x.shape[-dims:], divisor)
    return _images(fill, how, x, how.count("sum_pool", x.shape[-dims:]), x)


def _divisors(x: Any, how: Windows, size: tuple, divisor: Any) -> Any:
    """What sums are divided by: a number, an array (*out) beside x, or None for 1."""
    if type(divisor) is not tuple:
        return None if divisor == 1 else divisor
    wide = accumulator(x.dtype) or x.dtype
    return places_counted(array_module(x), how, size, divisor).astype(wide)


def places_counted(xp: Any, how: Windows, size: tuple, counted: tuple) -> Any:
    """How many places of each window lie in the image or the padding `counted`; shape (*out)."""
    y = xp.ones((), np.int64)
    outs = how.count("sum_pool", size)
    for n, out, along, (before, after) in zip(size, outs, how.axes(), counted, strict=True):
        kernel, stride, (start, _), dilation = along
        place = xp.arange(out)[:, None] * stride - start + xp.arange(kernel) * dilation
        y = y[..., None] * ((place >= -before) & (place < n + after)).sum(-1)
    return y


@sum_pool.vjp("x")
def sum_pool_gx(g, x_shape, how, divisor):
    return sum_pool_dx(g, size=x_shape[-len(how.kernel) :], how=how, divisor=divisor)


@linear
def sum_pool_dx(a, *, size, how, divisor=1):
    """Every entry of a / divisor, added to all places of its window: the transpose of sum_pool."""
    dims = len(size)

    def fill(y: Any, a: Any) -> None:
        wide = a.astype(accumulator(a.dtype) or a.dtype, copy=False)
        wide, lead = wide if by is None else wide / by, a.shape[:-dims]
        if type(shifts) is Tiles:
            shifts.cover(y, wide)
            return
        if type(shifts) is Views:
            copied = partial(np.copyto, src=wide, casting="unsafe")
            shifts.put([copied] * prod(how.kernel), y, wide)
            return
        for i, along in enumerate(how.axes()):  # windows of all axes are windows of windows
            one = Windows.from_axes([along if j == i else IDLE for j in range(dims)])
            out = wide.shape[-dims:]
            spread = wide.reshape((*lead, *(1,) * dims, *out))
            spread = np.broadcast_to(spread, (*lead, *one.kernel, *out))
            wide = fold(spread, one, (*out[:i], size[i], *out[i + 1 :]), at=len(lead))
        y[...] = wide

    by = _divisors(a, how, tuple(size), divisor)
    shifts = placed(how, a, tuple(size), a.shape[-dims:])
    return _images(fill, how, a, size, a)


@sum_pool_dx.vjp("a")
def sum_pool_dx_ga(g, how, divisor):
    return sum_pool(g, how=how, divisor=divisor)


def _leading(op_, xs, batched, params):
    """All of these take any number of leading axes; the batch is one more."""
    given = [x is not None for x in xs]  # max_pool_dx may have no hits
    found = iter(full([x for x in xs if x is not None], list(compress(batched, given))))
    return op_(*[next(found) if is_given else None for is_given in given], **params)


for _op in (max_pool, max_pool_dx, max_pool_pick, sum_pool, sum_pool_dx):
    _op.batch(_leading)
