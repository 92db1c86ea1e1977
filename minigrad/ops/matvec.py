"""Matrices times vectors, and vectors times matrices, in stacks."""

from typing import Any

import numpy as np

from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_like

__all__ = ["matvec", "vecmat"]


def _check(name: str, a: Any, b: Any, fits: bool, rule: str) -> None:
    if not fits:
        raise ValueError(f"{name}: {rule}; got {a.shape} and {b.shape}")


@composite(numpy=getattr(np, "matvec", ()))
def matvec(a: Any, b: Any) -> Any:
    """y_i = Σ_k a_ik b_k: a (…, m, n), b (…, n) -> (…, m); leading axes broadcast."""
    a, b = array_like(a), array_like(b)
    fits = a.ndim > 1 and b.ndim > 0 and a.shape[-1] == b.shape[-1]
    _check("matvec", a, b, fits, "a must be (…, m, n) and b (…, n) with the same n")
    return op.matmul(a, op.expand_dims(b, axis=-1))[..., 0]


@composite(numpy=getattr(np, "vecmat", ()))
def vecmat(a: Any, b: Any) -> Any:
    """y_k = Σ_i conj(a_i) b_ik: a (…, m), b (…, m, n) -> (…, n); leading axes broadcast."""
    a, b = array_like(a), array_like(b)
    fits = b.ndim > 1 and a.ndim > 0 and a.shape[-1] == b.shape[-2]
    _check("vecmat", a, b, fits, "a must be (…, m) and b (…, m, n) with the same m")
    row = op.expand_dims(a.conj() if a.dtype.kind == "c" else a, axis=-2)
    return op.matmul(row, b)[..., 0, :]
