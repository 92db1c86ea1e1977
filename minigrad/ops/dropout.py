"""Dropout. A mask is drawn once per call, kept for the backward, and selects, never multiplies.

Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting, 2014.
"""

from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import device_of
from ..backends.dtypes import accumulator
from ..engine.primitive import linear, primitive
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_like, as_floating, constant_like
from .batching import behind, full, one_more_of_all
from .elementwise.selection import keep

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "feature_alpha_dropout"]


@primitive(residuals=["mask"])
def drop(x, *, p, shared=(), generator=None):
    """y = x/(1 − p) where kept, else 0; each place is kept with probability 1 − p ;  gx likewise

    One draw counts for all places along the axes `shared`.
    """
    if generator is not None and not hasattr(generator, "random"):
        raise TypeError(
            f"generator must be an np.random.Generator, got {generator!r:.60}; "
            "np.random.default_rng(seed) makes one"
        )
    shape = [1 if k in shared else n for k, n in enumerate(x.shape)]
    draws = (generator or random.generator_on(device_of(x))).random(shape, dtype=np.float32)
    mask = constant_like(draws >= p, x)
    return drop_dx(x, mask, p=p), mask


@drop.vjp("x")
def drop_gx(g, mask, p):
    return drop_dx(g, mask, p=p)


@linear(constants=["mask"])
def drop_dx(a, mask, *, p):
    """a/(1 − p) where the mask holds, else 0: what drop does to x, and its transpose

    16-bit floats are multiplied in float32: the factor in 16 bits would be off by up to 0.4 %.
    """
    kept = keep(a, mask)
    if p == 1:
        return kept
    wide = kept.astype(accumulator(a.dtype) or a.dtype, copy=False)
    return (wide * scale_of(p)).astype(a.dtype, copy=False)


@drop_dx.vjp("a")
def drop_dx_ga(g, mask, p):
    return drop_dx(g, mask, p=p)


drop_dx.batch(one_more_of_all)


def scale_of(p: float) -> float:
    """The factor of the kept elements; for p = 1 there are none."""
    return 1.0 if p == 1 else 1 / (1 - float(p))


@drop.batch
def drop_batch(op_, xs, batched, params):
    """Another mask for every example."""
    (x,) = full(xs, batched)
    shared = behind(tuple(params["shared"]), x.ndim - 1)
    return op_(x, **{**params, "shared": shared})


def _checked(name: str, x: Any, p: float) -> Any:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p is the probability of 0, from 0 to 1; got p={p}")
    return as_floating(array_like(x))


@composite
def dropout(
    x: Any, p: float = 0.5, training: bool = True, generator: np.random.Generator | None = None
) -> Any:
    """y = 0 with probability p, else x/(1 − p): the mean stays ;  gx = g/(1 − p) where kept

    training=False or p=0: x itself. The mask comes from `generator`, or from the library's
    (mg.manual_seed). ValueError for p outside [0, 1].
    """
    x = _checked("dropout", x, p)
    return drop(x, p=p, generator=generator) if training and p else x


@composite
def dropout1d(
    x: Any, p: float = 0.5, training: bool = True, generator: np.random.Generator | None = None
) -> Any:
    """Dropout of whole channels: x (N, C, L) or (C, L), each channel of an example kept or 0."""
    return _of_channels("dropout1d", x, 1, p, training, generator)


@composite
def dropout2d(
    x: Any, p: float = 0.5, training: bool = True, generator: np.random.Generator | None = None
) -> Any:
    """Dropout of whole channels: x (N, C, H, W) or (C, H, W), each of an example kept or 0."""
    return _of_channels("dropout2d", x, 2, p, training, generator)


def _of_channels(name: str, x: Any, dims: int, p: float, training: bool, generator: Any) -> Any:
    x = _checked(name, x, p)
    if x.ndim not in (dims + 1, dims + 2):
        raise ValueError(f"{name}: x must have {dims + 1} or {dims + 2} axes, got shape {x.shape}")
    shared = tuple(range(x.ndim - dims, x.ndim))
    return drop(x, p=p, shared=shared, generator=generator) if training and p else x


@composite
def alpha_dropout(
    x: Any, p: float = 0.5, training: bool = False, generator: np.random.Generator | None = None
) -> Any:
    """y = a (x where kept, else α) + b, with a and b that keep mean 0 and variance 1 after selu

    α = −λα of selu, its limit at −∞ (Klambauer et al., Self-normalizing networks, 2017).
    """
    x = _checked("alpha_dropout", x, p)
    return _alpha_drop(x, p, (), generator) if training and p else x


@composite
def feature_alpha_dropout(
    x: Any, p: float = 0.5, training: bool = False, generator: np.random.Generator | None = None
) -> Any:
    """alpha_dropout of whole channels: x (N, C, ...), each channel of an example kept or all α."""
    x = _checked("feature_alpha_dropout", x, p)
    if x.ndim < 2:
        raise ValueError(
            f"feature_alpha_dropout: x must be (N, C, ...), got shape {x.shape}; use alpha_dropout"
        )
    return _alpha_drop(x, p, tuple(range(2, x.ndim)), generator) if training and p else x


def _alpha_drop(x: Any, p: float, shared: tuple, generator: Any) -> Any:
    """alpha_dropout's formula; one draw counts for all places along the axes `shared`."""
    if p == 1:
        return drop(x, p=1.0)
    low = -1.7580993408473766
    kept = drop(op.ones_like(x), p=p, shared=shared, generator=generator) != 0
    a = ((1 - p) * (1 + p * low * low)) ** -0.5
    return op.where(kept, x, low) * a - a * p * low
