"""Constants like a given tensor (zeros_like …): the forms for rules, since they suit any device."""

import numpy as np

from ..backends.dtypes import is_number, require_fit
from ..engine.primitive import primitive
from .axes import constant_array

__all__: list[str] = []  # mg.zeros_like and its kin, with requires_grad=: tensor_api/create.py


@primitive(numpy=np.zeros_like, differentiable=False)
def zeros_like(x, dtype=None, shape=None):
    """Zeros of x's shape, or of `shape`, on its device."""
    return np.zeros_like(x, dtype=dtype, shape=shape)


@primitive(numpy=np.ones_like, differentiable=False)
def ones_like(x, dtype=None, shape=None):
    """Ones of x's shape, or of `shape`, on its device."""
    return np.ones_like(x, dtype=dtype, shape=shape)


@primitive(numpy=np.empty_like, differentiable=False)
def empty_like(x, dtype=None, shape=None):
    """Uninitialised memory of x's shape, or of `shape`, on its device."""
    return np.empty_like(x, dtype=dtype, shape=shape)


@primitive(numpy=np.full_like, differentiable=False)
def full_like(x, fill_value=0, dtype=None, shape=None):
    """One value in x's shape, or in `shape`, on its device; as a number it must fit an integer
    dtype.
    """
    if is_number(fill_value):
        require_fit(fill_value, x.dtype if dtype is None else np.dtype(dtype))
    fill_value = constant_array(fill_value, "fill_value")
    return np.full_like(x, fill_value, dtype=dtype, shape=shape)
