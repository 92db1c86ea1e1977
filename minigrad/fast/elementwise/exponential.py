"""Exponentials and smooth activations: large arrays in blocks, and logaddexp of float32."""

from typing import Any

import numpy as np

from ...backends.blocks import BLOCK, LARGE
from ...custom.variants import ANY, Variant, add
from ...ops import normal
from ...ops.activation import (
    gelu,
    gelu_derivative,
    logsigmoid,
    mish,
    mish_derivative,
    softplus,
    tanhshrink,
)
from ...ops.elementwise.exponential import log1p, logaddexp
from ...ops.elementwise.near_one import log_of_1_plus
from ..blocked import blockwise, in_blocks, piecewise

# -- in blocks -----------------------------------------------------------------------------------


def _is_real(x: Any) -> bool:
    return x.dtype.kind != "c"


def _by_erfc_or_tanh(x: Any, approximate: str = "none") -> bool:
    """Whether gelu is computed in another way than for float32."""
    return approximate == "tanh" or not normal.takes(x)


def _is_computed(x: Any, slope: Any = None, approximate: str = "none") -> bool:
    """Whether gelu's derivative must be computed, as no slope was saved."""
    return slope is None


def in_large_blocks(op: Any, when: Any = None) -> None:
    """Add a variant that takes blocks of 1 MB through all steps of the op's reference."""
    fn = blockwise(op.reference)
    add(op, Variant(fn, "cpu", when, 2 * BLOCK, name="blocks", followed=True))


for _op in (softplus, logsigmoid, tanhshrink, mish, mish_derivative):
    in_large_blocks(_op)
in_large_blocks(gelu, _by_erfc_or_tanh)
in_large_blocks(gelu_derivative, _is_computed)
add(
    log1p,
    Variant(in_blocks(np.log1p), "cpu", _is_real, least=LARGE, name="blocks", followed=True),
)

# -- logaddexp of float32 ------------------------------------------------------------------------

_FAR = 1e38  # at this distance from 0 a difference may overflow


def logaddexp_by_exp(a: Any, b: Any) -> Any:
    """logaddexp in a quarter of the time of a C library call for every element."""
    if type(a) is np.ndarray and type(b) is np.ndarray and a.dtype.char == "f" == b.dtype.char:
        if a.size < 2 * BLOCK > b.size:
            return _log_of_sum(a, b)
    arrays = [x for x in (a, b) if type(x) is not float and type(x) is not int]
    for x in arrays:
        if not isinstance(x, np.ndarray | np.generic) or x.dtype.char != "f":
            return np.logaddexp(a, b)
    if not arrays or (arrays[0].size < 2 * BLOCK and arrays[-1].size < 2 * BLOCK):
        return _log_of_sum(a, b) if arrays else np.logaddexp(a, b)
    return piecewise(_log_of_sum, (a, b), {})


def _log_of_sum(a: Any, b: Any) -> Any:
    """log(eᵃ + eᵇ) = max(a, b) + log(1 + e^−|a − b|)"""
    most, least = np.maximum(a, b), np.minimum(a, b)
    if most.size and most.item(most.argmax()) < _FAR and least.item(least.argmin()) > -_FAR:
        return log_of_1_plus(np.exp(least - most)) + most
    with np.errstate(invalid="ignore", over="ignore"):
        apart = -np.abs(a - b)
    if apart.size and np.isnan(apart.item(apart.argmax())):
        # two equal infinities; the maximum below restores a NaN
        apart = np.where(np.isnan(apart), apart.dtype.type(0), apart)
    return log_of_1_plus(np.exp(apart)) + np.maximum(a, b)


add(logaddexp, Variant(logaddexp_by_exp, ANY, name="exp and log1p"))
