"""Weighted means, covariances and histograms."""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import (
    accumulator,
    common_dtype,
    is_differentiable,
    is_floating,
    resolve_dtype,
)
from ..engine.graph import detached, raw, wrap
from ..engine.primitive import linear
from ..engine.registry import op
from ..modes import deterministic
from ..tensor_api.composite import composite, on_its_gpu
from ..tensor_api.tensor import Tensor
from .axes import (
    array_beside,
    array_like,
    as_floating,
    constant_array,
    module_of,
    on_host,
    weights_of,
)
from .index.in_order import sum_in_order
from .scaling import is_lost, overflow_ignored, power_of_two

__all__ = [
    "average", "bincount", "corrcoef", "cov", "histogram", "histogram2d", "histogramdd",
]  # fmt: skip


@composite(numpy=np.average)
def average(
    x: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """y = Σ w x / Σ w over `axis`; with returned=True also Σ w, of y's shape.

    weights: of x's shape, or of x's lengths along `axis`, one axis or several; None: the mean.
    """
    x = array_like(x)
    if weights is None:
        y = op.mean(x, axis=axis, keepdims=keepdims)
        total = np.full(y.shape, x.size / max(y.size, 1), dtype=y.dtype)
    else:
        w = array_like(weights)
        dtype = common_dtype(x.dtype, w.dtype)
        # a product of integers would wrap round, a float16 sum overflow
        wide = accumulator(dtype) if is_differentiable(dtype) else np.float64
        if wide is not None:
            x, w = (op.astype(v, dtype=wide) for v in (x, w))
        w = weights_of("average", w, x, axis)
        total = op.sum(w, axis=axis, keepdims=keepdims)
        with overflow_ignored():
            sums = op.sum(x * w, axis=axis, keepdims=keepdims)
        if is_lost(sums) or is_lost(total):  # with weights of about 1 they may not be
            weights = w / power_of_two(w)
            sums = op.sum(x * weights, axis=axis, keepdims=keepdims)
            y = sums / op.sum(weights, axis=axis, keepdims=keepdims)
        else:
            y = sums / total
        if accumulator(dtype):
            y = op.astype(y, dtype=dtype)
    if not returned:
        return y
    return y, op.broadcast_to(op.astype(total, dtype=y.dtype, copy=False), shape=y.shape)


@composite(numpy=np.cov)
@on_its_gpu
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """C = (X − mean) diag(w) (X − mean)ᴴ / f for variables in the rows of X = [m; y].

    w = fweights · aweights, f = Σw − ddof Σ(w aweights)/Σw (Σw − ddof without aweights); ddof is
    1, or 0 with bias=True. The counts fweights are constants. Where f ≤ 0 there is a division by
    0, as in NumPy. dtype: that of the computation, and of C.
    """
    x = _variables(m, rowvar)
    if y is not None:
        x = op.concatenate([x, _variables(y, rowvar)], axis=0)
    x = _wanted(x, dtype, "cov")
    narrow = x.dtype
    x = op.astype(x, dtype=accumulator(narrow) or narrow, copy=False)
    ddof = (0 if bias else 1) if ddof is None else ddof
    n = x.shape[1]
    if fweights is None and aweights is None:
        centred = x - op.mean(x, axis=1, keepdims=True)
        c = op.matmul(centred, centred.conj().T)
        c = c / max(n - ddof, 0)
    else:
        x = as_floating(x)
        w = a = module_of(x).ones(n) if aweights is None else _weights(aweights, "aweights", n)
        if fweights is not None:
            w = a * _weights(constant_array(fweights, "fweights"), "fweights", n)
        real = raw(x).real.dtype
        if is_floating(w.dtype) and w.dtype.itemsize < real.itemsize:
            w, a = op.astype(w, dtype=real), op.astype(a, dtype=real)
        total = op.sum(w)  # as precise as the weights or x, and so is f
        f = total - ddof * (1 if aweights is None else op.sum(w * a) / total)
        f = op.where(f > 0, f, 0)
        w = op.astype(w, dtype=x.dtype)
        mean = op.sum(x * w, axis=1, keepdims=True) / total
        centred = x - op.astype(mean, dtype=x.dtype)
        c = op.astype(op.matmul(centred * w, centred.conj().T) / f, dtype=x.dtype)
    if accumulator(narrow):
        c = op.astype(c, dtype=narrow)
    return op.squeeze(c) if c.shape == (1, 1) else c


def _wanted(x: Any, dtype: Any, name: str) -> Any:
    """x in the dtype asked for, which has room for fractions, and for complex x's two parts."""
    dtype = resolve_dtype(dtype)
    if dtype is None:
        return x
    if not is_differentiable(dtype) or x.dtype.kind == "c" != dtype.kind:
        raise TypeError(f"{name}: dtype={dtype} would cut off parts of a result of {x.dtype}; take "
                        "a floating or complex one, and y.astype")  # fmt: skip
    return op.astype(x, dtype=dtype, copy=False)


def _weights(weights: Any, name: str, n: int) -> Any:
    """The checked weights of n observations; fweights are integers: how often each was observed."""
    w = array_like(weights)
    if w.shape != (n,):
        raise ValueError(f"cov: {name} holds one weight for each of the {n} observations, shape "
                         f"({n},), got shape {w.shape}")  # fmt: skip
    values = raw(w)
    if name == "fweights" and (values != values.round()).any():
        raise TypeError(f"cov: fweights counts observations, got fractions, {w.dtype}; "
                        "weights that are not counts are aweights")  # fmt: skip
    if (values < 0).any():
        raise ValueError(f"cov: {name} must be 0 or more, got {values.min()}")
    return w


def _variables(m: Any, rowvar: bool) -> Any:
    """The variables as rows: (variables, observations)."""
    m = array_like(m)
    if m.ndim > 2:
        raise ValueError(f"cov: variables and observations are two axes, got shape {m.shape}")
    if m.ndim < 2:
        return m.reshape((1, -1))
    return m if rowvar else m.T


@composite(numpy=np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """R_ij = C_ij / √(C_ii C_jj), C = cov(x, y); within −1 … 1 also where it is rounded."""
    xs = [array_like(v) for v in (x, y) if v is not None]
    narrow = resolve_dtype(dtype) or common_dtype(*(v.dtype for v in xs))
    wide = accumulator(narrow)  # a covariance is as far from 1 as the square of its variables
    with overflow_ignored():
        c = cov(*xs, rowvar=rowvar, dtype=wide or dtype)
    if is_lost(op.diagonal(c) if c.ndim else c):  # of the variables over powers of two it is not
        xs = [x / power_of_two(x, -1 if rowvar or x.ndim == 1 else 0) for x in map(as_floating, xs)]
        c = cov(*xs, rowvar=rowvar, dtype=wide or dtype)
    if c.ndim == 0:
        c = c / c
    else:
        d = op.sqrt(op.real(op.diagonal(c)))
        c = c / d.reshape((-1, 1)) / d.reshape((1, -1))
    c = op.astype(c, dtype=narrow) if wide else c
    # of what rounding adds the constant alone is taken away: a clip would end the derivatives
    parts = [op.real(c), op.imag(c)] if c.dtype.kind == "c" else [c]
    over = [detached(part - op.clip(part, -1, 1)) for part in parts]
    return c - (over[0] if len(over) == 1 else over[0] + 1j * over[1])


@linear(constants=["index"])
def bin_sums(weights, index, *, bins=0):
    """y_b = Σ weights over index = b ;  gw = g[index].  weights, index (n,) -> y (bins,)"""
    if weights.dtype.kind == "c":
        return bin_sums(weights.real, index, bins=bins) + 1j * bin_sums(
            weights.imag, index, bins=bins
        )
    if deterministic.required and array_module(weights) is not np:
        return sum_in_order(weights, index, bins)
    return np.bincount(index, weights, minlength=bins).astype(weights.dtype, copy=False)


@bin_sums.vjp("weights")
def bin_sums_gw(g, index):
    return op.take(g, index)


def _bin_numbers(x: Any) -> Any:
    """The x of bincount, checked."""
    index = array_like(x)
    if not hasattr(x, "dtype") and not index.size:  # an empty list has NumPy's float64
        index = index.astype(np.intp)
    if index.ndim != 1 or index.dtype.kind not in "biu":
        raise TypeError(
            f"bincount: x holds the numbers of bins, integers in a vector, got {index.dtype} "
            f"{index.shape}; mg.histogram counts fractions, x.ravel() makes a vector"
        )
    if index.size and (least := int(index.min())) < 0:
        raise ValueError(f"bincount: the numbers of bins begin at 0, got {least}; shift x first")
    return index


@composite(numpy=np.bincount)
@on_its_gpu
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer of x (n,) occurs; with weights, the sum of theirs (differentiable)."""
    index = _bin_numbers(constant_array(x))
    if weights is None:
        return _as_given(np.bincount(index, minlength=minlength), x)
    w = array_like(weights)
    if w.shape != index.shape:
        raise ValueError(f"bincount: weights {w.shape} must have the shape of x {index.shape}")
    bins = max(minlength, int(index.max()) + 1 if index.size else 0)
    y = bin_sums(w if is_differentiable(w.dtype) else w.astype(np.float64), index, bins=bins)
    return _as_given(y, x)


def _as_given(y: Any, *inputs: Any) -> Any:
    """The array y as a tensor if one of the inputs is one, though its values alone were used."""
    return wrap(y) if any(isinstance(x, Tensor) for x in inputs) and not hasattr(y, "node") else y


@composite(numpy=np.histogram)
@on_its_gpu
def histogram(
    x: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Any, Any]:
    """(y, edges): y_b = Σ weights of the x in bin b, the last bin with its right edge.

    Differentiable in weights, and through the edges. The bin of an x is constant; edges are those
    given, or go from the least x to the largest. With density y is divided by Σ y and the widths.
    """
    values = array_like(constant_array(x)).ravel()
    given, wanted, bins = (x, bins, weights), bins, constant_array(bins)
    range = constant_span(range)
    if weights is None:
        counts, places = np.histogram(values, bins, range)
        edges = edges_of(places, x, wanted, range)
        if density:
            counts = counts / np.diff(edges) / counts.sum()
        return _as_given(counts, *given), _as_given(edges, *given)
    w = array_like(weights)
    if w.shape != np.shape(constant_array(x)):
        raise ValueError(f"histogram: weights {w.shape} must have the shape of x, {np.shape(x)}")
    if isinstance(bins, str):
        raise TypeError(
            f"histogram: bins={bins!r} chooses edges for x without weights; give their number, or "
            "mg.histogram(x, bins)[1]"
        )
    places = np.histogram(values, bins, range)[1]
    index = _bin_of(values, places)
    inside = np.flatnonzero((index >= 0) & (index < len(places) - 1))
    y = bin_sums(op.take(w.reshape(-1), inside), index[inside], bins=len(places) - 1)
    edges = edges_of(places, x, wanted, range)
    if density:
        y = as_floating(y)
        y = y / op.sum(y) / np.diff(edges).astype(y.dtype)
    return _as_given(y, *given), _as_given(edges, *given)


def constant_span(span: Any) -> Any:
    """NumPy's `range`, of one axis or of each, without tensors; TypeError for a gradient."""
    if isinstance(span, list | tuple):
        return type(span)(constant_span(end) for end in span)
    return on_host(constant_array(span, "range")) if isinstance(span, Tensor) else span


def edges_of(edges: Any, x: Any, bins: Any, span: Any) -> Any:
    """Edges as what they are made of: those that were given, or steps from the least x to the
    largest. Their numbers are those of the array `edges`."""
    if isinstance(bins, Tensor) and bins.ndim:
        source = bins
    elif span is None and isinstance(x, Tensor) and (x.requires_grad or x.level):
        low, high = op.min(x), op.max(x)
        ends, step = (raw(low), raw(high)), edges[-1] - edges[0]
        share = (edges - edges[0]) / step if ends[0] < ends[1] else np.zeros_like(edges)
        source = low * (1 - share) + high * share  # one number in all of x: ½ more and less
    else:
        return edges
    if not is_differentiable(source.dtype):
        return edges
    return edges + (source - detached(source))  # the second adds nothing but a derivative


def _bin_of(values: Any, edges: Any) -> Any:
    """The bin of each value, the last one with its right edge; −1 and len(edges) − 1 outside."""
    index = np.searchsorted(edges, values, side="right") - 1
    index[values == edges[-1]] = len(edges) - 2
    return index


@composite(numpy=np.histogramdd)
@on_its_gpu
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, list]:  # fmt: skip
    """(y, edges of each axis): y[b] = Σ weights of the points of sample (n, d) in the box b.

    Differentiable in weights, as histogram is; density divides by Σ y and the boxes' volumes.
    """
    parts = tuple(sample) if isinstance(sample, list | tuple) else (sample,)
    edges_given = tuple(bins) if isinstance(bins, list | tuple) else (bins,)
    given, wanted = (*parts, *edges_given, weights), bins
    points = sample if isinstance(sample, list | tuple) else array_like(constant_array(sample))
    if isinstance(points, list | tuple):  # d coordinates (n,), as in NumPy
        points = np.stack([array_like(constant_array(x)) for x in points], -1)
    points = points.reshape(-1, 1) if points.ndim == 1 else points
    if isinstance(bins, list | tuple):
        bins = [constant_array(b) for b in bins]  # numbers of bins, or edges
        bins = [b if np.ndim(b) == 0 else array_beside(b, points) for b in bins]
    range = constant_span(range)
    counts, places = np.histogramdd(points, constant_array(bins), range)
    edges = _edges_of_each(places, sample, wanted, range)
    if weights is None:
        y = counts if not density else _by_volume(counts, edges) / counts.sum()
        return _as_given(y, *given), [_as_given(e, *given) for e in edges]
    w = array_like(weights)
    if w.shape != points.shape[:1]:
        raise ValueError(
            f"histogramdd: weights {w.shape} must have a number for each of the "
            f"{len(points)} points"
        )
    along = [_bin_of(x, e) for x, e in zip(points.T, places, strict=True)]
    index, inside = np.zeros_like(along[0]), np.ones_like(along[0], bool)
    for i, n in zip(along, counts.shape, strict=True):
        index = index * n + i
        inside &= (i >= 0) & (i < n)
    inside = np.flatnonzero(inside)
    w = op.take(w if is_differentiable(w.dtype) else w.astype(np.float64), inside)
    y = op.reshape(bin_sums(w, index[inside], bins=counts.size), shape=counts.shape)
    y = _by_volume(y / op.sum(y), edges) if density else y
    return _as_given(y, *given), [_as_given(e, *given) for e in edges]


def _edges_of_each(places: Any, sample: Any, bins: Any, span: Any) -> list:
    """edges_of for each axis of histogramdd."""
    if isinstance(sample, Tensor):
        sample = [sample[:, k] for k in range(sample.shape[1])] if sample.ndim > 1 else [sample]
    given = isinstance(bins, list | tuple)
    return [
        edges_of(e, sample[k] if isinstance(sample, list | tuple) else None,
                 bins[k] if given else bins, None if span is None else span[k])
        for k, e in enumerate(places)
    ]  # fmt: skip


def _by_volume(y: Any, edges: list) -> Any:
    """y over the boxes' volumes."""
    for axis, e in enumerate(edges):
        widths = np.diff(e)
        if is_differentiable(y.dtype):
            widths = op.astype(widths, dtype=y.dtype, copy=False)
        y = y / widths.reshape((-1,) + (1,) * (len(edges) - 1 - axis))
    return y


@composite(numpy=np.histogram2d)
@on_its_gpu
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(h, edges of x, edges of y): histogramdd of the points (x_i, y_i)."""
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):  # the same edges for both
        bins = [bins, bins]
    h, (along_x, along_y) = histogramdd((x, y), bins, range, density, weights)
    return h, along_x, along_y
