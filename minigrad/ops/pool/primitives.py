"""The primitives of pooling in any number of dimensions: the maximum or the sum of each window.

The entries at one position of every window are a strided slice of the padded image. So each forward
is a loop over the positions of a window, and each step takes all windows of all images at once:

    max_pool  y = max(y, x[at])       its gradient  y[at] += g / ties, where x[at] is the maximum
    sum_pool  y = y + x[at]           its gradient  y[at] += g

Each gradient is linear in g and has a transpose, which is the rule of that gradient. The family is
closed, so derivatives of any order come from these rules. The functions for users are in calls.py.
"""

from itertools import compress
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import accumulator, lowest
from ...engine.primitive import linear, primitive
from ..batching import full
from ..windows import Windows, inside, padded, positions

# -- the maximum -----------------------------------------------------------------------------


@primitive(residuals=["hits"])
def max_pool(x, *, how):
    """y = max of each window, where padding counts as −∞;  gx: ties of a window share equally

    x (..., *size) -> y (..., *out). A NaN is the maximum of its windows; several share, as in max.
    The residual: see max_pool_dx; here nothing is noted.
    """
    out = how.count("max_pool", x.shape[-len(how.kernel) :])
    image = padded(x, how.padding, lowest(x.dtype))
    first, *others = positions(how, out)
    y = image[first].copy()
    for at in others:
        np.maximum(y, image[at], out=y)
    return y, no_hits(x, how)


def no_hits(x: Any, how: Windows) -> Any:
    """The residual of a max_pool that has noted nothing: no entries, under the leading axes."""
    return array_module(x).empty((*x.shape[: -len(how.kernel)], 0), np.uint8)


@max_pool.vjp("x")
def max_pool_gx(g, x, y, hits, how):
    return max_pool_dx(g, x, y, hits, how=how)


@linear(arrays="a x y_max hits", constants=["x", "y_max", "hits"])
def max_pool_dx(a, x, y_max, hits=None, *, how):
    """Every entry of a, in equal shares, at those positions of its window where x is the maximum.

    hits: for each window, as bits, which of its positions those are, where a forward has noted it
    (on_gpu/pooling.py); x need not be read then. None, or without entries: x says.
    """
    size, wide = x.shape[-len(how.kernel) :], accumulator(a.dtype) or a.dtype
    at, maximal, ties = maxima_of(x, y_max, how)
    shares = a.astype(wide, copy=False) / ties.astype(wide)
    y = padded(array_module(x).zeros(x.shape, wide), how.padding)
    for i, is_maximal in zip(at, maximal, strict=True):
        y[i] += np.where(is_maximal, shares, 0)
    return y[inside(how.padding, size)].astype(x.dtype)


def maxima_of(x: Any, y_max: Any, how: Windows) -> tuple[list, list, Any]:
    """For each position in a window: its index, and where x has the maximum there; and at how many
    positions each window has it, or 1. Padding never has it. The maximum NaN is every NaN.
    """
    size = x.shape[-len(how.kernel) :]
    at = positions(how, y_max.shape[-len(size) :])
    there, image = padded(array_module(x).ones(size, np.bool_), how.padding), padded(x, how.padding)
    is_nan = y_max != y_max
    maximal = [there[i] & ((image[i] == y_max) | is_nan & (image[i] != image[i])) for i in at]
    return at, maximal, np.maximum(sum(maximal), 1)


@max_pool_dx.vjp("a")
def max_pool_dx_ga(g, x, y_max, how):
    return max_pool_pick(g, x, y_max, how=how)


@linear(constants=["x", "y_max"])
def max_pool_pick(a, x, y_max, *, how):
    """The mean of a (of x's shape) over those positions of each window where x is the maximum."""
    at, maximal, ties = maxima_of(x, y_max, how)
    image = padded(a.astype(accumulator(a.dtype) or a.dtype, copy=False), how.padding)
    y = array_module(x).zeros(y_max.shape, image.dtype)
    for i, is_maximal in zip(at, maximal, strict=True):
        y += np.where(is_maximal, image[i], 0)
    return (y / ties.astype(y.dtype)).astype(x.dtype)


@max_pool_pick.vjp("a")
def max_pool_pick_ga(g, x, y_max, how):
    return max_pool_dx(g, x, y_max, how=how)


@max_pool.jvp
def max_pool_jvp(x, x_t, y, how):
    return max_pool_pick(x_t, x, y, how=how)


# -- the mean --------------------------------------------------------------------------------


@linear
def sum_pool(x, *, how, divisor=1):
    """y = Σ of each window / divisor, padding counts as 0 ;  gx = g / divisor, spread over windows

    divisor: a number; or ((before, after), …), for each axis how much padding counts: then each
    window is divided by how many of its positions lie in x or that padding. 16-bit floats are added
    up and divided in float32: a sum may be out of range, its mean not.
    """
    size = x.shape[-len(how.kernel) :]
    out = how.count("sum_pool", size)
    image = padded(x.astype(accumulator(x.dtype) or x.dtype, copy=False), how.padding)
    y = array_module(x).zeros((*x.shape[: -len(size)], *out), image.dtype)
    for at in positions(how, out):
        y += image[at]
    return (y / divisors(y, how, size, divisor)).astype(x.dtype, copy=False)


def divisors(y: Any, how: Windows, size: tuple, divisor: Any) -> Any:
    """What y (..., *out) is divided by, see sum_pool: a number, or an array (*out) of y's dtype."""
    if type(divisor) is not tuple:
        return divisor
    return positions_counted(array_module(y), how, size, divisor).astype(y.dtype)


def positions_counted(xp: Any, how: Windows, size: tuple, counted: tuple) -> Any:
    """How many positions of each window lie in the image or the padding `counted`; shape (*out)."""
    y = xp.ones((), np.int64)
    outs = how.count("sum_pool", size)
    for n, out, along, (before, after) in zip(size, outs, how.axes(), counted, strict=True):
        kernel, stride, (start, _), dilation = along
        pixel = xp.arange(out)[:, None] * stride - start + xp.arange(kernel) * dilation
        y = y[..., None] * ((pixel >= -before) & (pixel < n + after)).sum(-1)
    return y


@sum_pool.vjp("x")
def sum_pool_gx(g, x_shape, how, divisor):
    return sum_pool_dx(g, size=x_shape[-len(how.kernel) :], how=how, divisor=divisor)


@linear
def sum_pool_dx(a, *, size, how, divisor=1):
    """Every entry of a / divisor, added to its window's positions: the transpose of sum_pool."""
    share = a.astype(accumulator(a.dtype) or a.dtype, copy=False)
    share = share / divisors(share, how, tuple(size), divisor)
    y = padded(array_module(a).zeros((*a.shape[: -len(size)], *size), share.dtype), how.padding)
    for at in positions(how, a.shape[-len(size) :]):
        y[at] += share
    return y[inside(how.padding, size)].astype(a.dtype)


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
