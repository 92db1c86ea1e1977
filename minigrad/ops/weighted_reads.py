"""Weighted sums of a few pixels of each image, at indices given for each result.

Every interpolation (grid_sample, resize) has this form: K pixels with K weights for each result,
the same for all channels. Each of the three ops here is the derivative of Σ u · weights · x[places]
with respect to one of its three factors, so the derivatives of each op are the other two.

With the channels last, all channels of a pixel are contiguous: a read copies rows, and its
transpose, the sum back into the image, is a sparse matrix times rows.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.blocks import over_leading
from ..backends.device import array_module
from ..backends.dtypes import common_dtype
from ..engine.primitive import multilinear
from ..engine.registry import op
from .batching import one_more_of_all
from .index.scattering import sum_weighted_rows
from .index.taking import add_along_axis

__all__ = ["weighted_reads", "weighted_reads_dw", "weighted_reads_dx"]


@multilinear(arrays="x weights places", constants=["places"])
def weighted_reads(x, weights, places):
    """y[…, c, p] = Σ_k weights[…, k, p] x[…, c, places[…, k, p]]

    x (…, C, S), weights and places (…, K, P) -> (…, C, P). Index S, one past the last
    entry, reads 0. IndexError for indices outside 0 … S.
    """
    lead = _check(x.shape[-1], places, x, weights=weights)
    if not _plain(x, weights, places):
        reads = enumerate(_reads_in_words(x, places))
        return sum([weights[..., k, None, :] * read for k, read in reads], 0)
    y = np.empty((*lead, x.shape[-2], places.shape[-1]), common_dtype(x, weights))
    over_leading(_read, 2, *_flat(y, x, weights, places))
    return y


@multilinear(arrays="u weights places", constants=["places"])
def weighted_reads_dx(u, weights, places, *, count):
    """y[…, c, s] = Σ weights[…, k, p] u[…, c, p] over k and p with places[…, k, p] = s < count

    u (…, C, P), weights and places (…, K, P) -> (…, C, count): the transpose of weighted_reads.
    """
    lead = _check(count, places, u, weights=weights, u=u)
    if not _plain(u, weights, places):
        values = u[..., :, None, :] * weights[..., None, :, :]
        values = values.reshape((*values.shape[:-2], prod(values.shape[-2:])))
        index = places.reshape((*lead, 1, prod(places.shape[-2:])))
        shape = (*values.shape[:-1], count + 1)
        return add_along_axis.forward(values, index, axis=-1, shape=shape)[..., :count]
    y = np.empty((*lead, u.shape[-2], count), common_dtype(u, weights))
    over_leading(_add, 2, *_flat(y, u, weights, places))
    return y


@multilinear(arrays="u x places", constants=["places"])
def weighted_reads_dw(u, x, places):
    """y[…, k, p] = Σ_c u[…, c, p] x[…, c, places[…, k, p]]

    u (…, C, P), x (…, C, S), places (…, K, P) -> (…, K, P): the gradient of the weights.
    """
    lead = _check(x.shape[-1], places, u, x, u=u)
    if not _plain(u, x, places):
        return np.stack([(u * read).sum(-2) for read in _reads_in_words(x, places)], -2)
    y = np.empty((*lead, *places.shape[-2:]), common_dtype(u, x))
    over_leading(_multiply, 2, *_flat(y, u, x, places))
    return y


@weighted_reads.vjp("x")
def weighted_reads_rule_x(g, weights, places, x_shape):
    return op.weighted_reads_dx(g, weights.conj(), places, count=x_shape[-1])


@weighted_reads.vjp("weights")
def weighted_reads_rule_weights(g, x, places):
    return op.weighted_reads_dw(g, x.conj(), places)


@weighted_reads_dx.vjp("u")
def weighted_reads_dx_rule_u(g, weights, places):
    return op.weighted_reads(g, weights.conj(), places)


@weighted_reads_dx.vjp("weights")
def weighted_reads_dx_rule_weights(g, u, places):
    return op.weighted_reads_dw(u.conj(), g, places)


@weighted_reads_dw.vjp("u")
def weighted_reads_dw_rule_u(g, x, places):
    return op.weighted_reads(x.conj(), g, places)


@weighted_reads_dw.vjp("x")
def weighted_reads_dw_rule_x(g, u, places, x_shape):
    return op.weighted_reads_dx(u.conj(), g, places, count=x_shape[-1])


for _op in (weighted_reads, weighted_reads_dx, weighted_reads_dw):
    _op.batch(one_more_of_all)


def _check(count: int, places: Any, *images: Any, weights: Any = None, u: Any = None) -> tuple:
    """The leading axes, which all arrays share. Places lie in 0 … count, weights beside them."""
    lead = places.shape[:-2]
    fits = all(x.ndim == places.ndim > 1 and x.shape[:-2] == lead for x in images)
    fits = fits and len({x.shape[-2] for x in images}) == 1
    fits = fits and (weights is None or weights.shape == places.shape)
    if not fits or (u is not None and u.shape[-1] != places.shape[-1]):
        weighed = "" if weights is None else f", weights {weights.shape}"
        raise ValueError(
            "needs images (…, C, .), and weights and places (…, K, P), with the same …; got "
            f"{', '.join([str(x.shape) for x in images])}{weighed}, places {places.shape}"
        )
    if places.dtype.kind not in "iu":
        raise TypeError(f"places must hold integers, got {places.dtype}")
    if type(places) is np.ndarray and places.size:
        low, high = int(places.min()), int(places.max())
        if low < 0 or high > count:
            raise IndexError(f"places run from {low} to {high}; there are 0..{count}, the last a 0")
    return lead


def _reads_in_words(x: Any, places: Any) -> list:
    """x[places] of each k, in calls that arrays other than NumPy's support."""
    nothing = array_module(x).zeros((*x.shape[:-1], 1), dtype=x.dtype)
    x = np.concatenate([x, nothing], axis=-1)
    shape = (*x.shape[:-1], places.shape[-1])
    return [
        np.take_along_axis(x, np.broadcast_to(places[..., k, None, :], shape), -1)
        for k in range(places.shape[-2])
    ]


# -- blocks of examples, on NumPy's arrays -------------------------------------------------------


def _plain(*arrays: Any) -> bool:
    return all(type(x) is np.ndarray for x in arrays)


def _flat(*arrays: Any) -> list:
    """(…, ., .) as (n, ., .); a view of an array that is contiguous."""
    n = prod(arrays[0].shape[:-2])
    return [x.reshape((n, *x.shape[-2:])) for x in arrays]


def _rows(x: Any, dtype: Any, more: int = 0) -> Any:
    """x (n, C, S) with the channels last, as rows (n (S + more), C); those that are more are 0."""
    n, channels, count = x.shape
    rows = np.empty((n, count + more, channels), dtype)
    rows[:, :count] = x.swapaxes(1, 2)
    rows[:, count:] = 0
    return rows.reshape((n * (count + more), channels))


def _row_numbers(places: Any, count: int) -> Any:
    """Which of the rows (n (count + 1), C) the places (n, K, P) are."""
    return places + np.arange(0, len(places) * (count + 1), count + 1)[:, None, None]


def _read(y: Any, x: Any, weights: Any, places: Any) -> None:
    n, channels, count = y.shape
    rows, total = _rows(x, y.dtype, 1), np.zeros((n * count, channels), y.dtype)
    numbers = _row_numbers(places, x.shape[2])
    for k in range(places.shape[1]):
        values = rows.take(numbers[:, k].reshape(-1), axis=0)
        values *= weights[:, k].reshape((-1, 1))
        total += values
    y[...] = total.reshape((n, count, channels)).swapaxes(1, 2)


def _add(y: Any, u: Any, weights: Any, places: Any) -> None:
    n, channels, count = y.shape
    shape = (n * places.shape[2], places.shape[1])
    number = _row_numbers(places, count).swapaxes(1, 2).reshape(shape)
    weights = weights.swapaxes(1, 2).reshape(shape)
    total = sum_weighted_rows(_rows(u, y.dtype), weights, number, n * (count + 1))
    y[...] = total.reshape((n, count + 1, channels))[:, :count].swapaxes(1, 2)


def _multiply(y: Any, u: Any, x: Any, places: Any) -> None:
    rows, factor = _rows(x, y.dtype, 1), _rows(u, y.dtype)
    numbers, ones = _row_numbers(places, x.shape[2]), np.ones(x.shape[1], y.dtype)
    for k in range(places.shape[1]):
        values = rows.take(numbers[:, k].reshape(-1), axis=0)
        values *= factor
        y[:, k] = np.matmul(values, ones).reshape(y[:, k].shape)
