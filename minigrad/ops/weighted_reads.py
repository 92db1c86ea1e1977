"""Weighted sums of a few pixels of each image, at indices given for each result.

Every interpolation (grid_sample, resize) has this form: K pixels with K weights for each result,
the same for all channels. Each of the three ops here is the derivative of Σ u · weights · x[places]
with respect to one of its factors. So the derivatives of each op are the other two.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import common_dtype
from ..engine.primitive import multilinear
from ..engine.registry import op
from .axes import accumulate
from .batching import one_more_of_all
from .index.taking import add_along_axis

__all__ = ["weighted_reads", "weighted_reads_dw", "weighted_reads_dx"]


@multilinear(arrays="x weights places", constants=["places"])
def weighted_reads(x, weights, places):
    """y[…, c, p] = Σ_k weights[…, k, p] x[…, c, places[…, k, p]]

    x (…, C, S), weights and places (…, K, P) -> (…, C, P). Index S, one past the last
    entry, reads 0. IndexError for indices outside 0 … S.
    """
    lead = check(x.shape[-1], places, x, weights=weights)
    shape = (*lead, x.shape[-2], places.shape[-1])
    y = array_module(x).zeros(shape, common_dtype(x, weights))
    for k, read in enumerate(_reads(x, places)):
        y += weights[..., k, None, :] * read
    return y


@multilinear(arrays="u weights places", constants=["places"])
def weighted_reads_dx(u, weights, places, *, count):
    """y[…, c, s] = Σ weights[…, k, p] u[…, c, p] over k and p with places[…, k, p] = s < count

    u (…, C, P), weights and places (…, K, P) -> (…, C, count): the transpose of weighted_reads.
    """
    lead = check(count, places, u, weights=weights, u=u)
    values = u[..., :, None, :] * weights[..., None, :, :]
    values = values.reshape((*values.shape[:-2], prod(values.shape[-2:])))
    index = places.reshape((*lead, 1, prod(places.shape[-2:])))
    shape = (*values.shape[:-1], count + 1)
    return add_along_axis.forward(values, index, axis=-1, shape=shape)[..., :count]


@multilinear(arrays="u x places", constants=["places"])
def weighted_reads_dw(u, x, places):
    """y[…, k, p] = Σ_c u[…, c, p] x[…, c, places[…, k, p]]

    u (…, C, P), x (…, C, S), places (…, K, P) -> (…, K, P): the gradient of the weights.
    """
    check(x.shape[-1], places, u, x, u=u)
    y = array_module(x).empty(places.shape, common_dtype(u, x))
    for k, read in enumerate(_reads(x, places)):
        y[..., k, :] = accumulate(np.sum, u * read, axis=-2)
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


def check(count: int, places: Any, *images: Any, weights: Any = None, u: Any = None) -> tuple:
    """The leading axes, which all arrays share. Places lie in 0 … count; each has a weight."""
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


def _reads(x: Any, places: Any) -> list:
    """x[…, c, places[…, k, p]] for each k, and 0 for the place behind the last entry."""
    nothing = array_module(x).zeros((*x.shape[:-1], 1), dtype=x.dtype)
    x = np.concatenate([x, nothing], axis=-1)
    shape = (*x.shape[:-1], places.shape[-1])
    return [
        np.take_along_axis(x, np.broadcast_to(places[..., k, None, :], shape), -1)
        for k in range(places.shape[-2])
    ]
