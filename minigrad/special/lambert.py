"""Lambert's W and Wright's ω, the solutions of w eʷ = x and w + log w = x."""

from typing import Any

import numpy as np

from ..engine.primitive import elementwise, primitive
from ..engine.registry import op
from ..ops.axes import array_like, widen
from ..ops.elementwise.support import in_float32, special_function
from ..tensor_api.composite import composite

__all__: list[str] = []  # the names are those of mg.special

_lambertw = special_function("lambertw")


def _wrightomega_dx(y: Any) -> Any:
    """y/(1 + y), 1 where y is infinite; 1/(1 + 1/y) alone is no use behind a y of 0."""
    y = widen(y)
    large = np.abs(y) > 2
    inverse, small = 1 / np.where(large, y, 2), np.where(large, 0, y)
    return np.where(large, 1 / (1 + inverse), small / (1 + small))


wrightomega = elementwise(
    in_float32(special_function("wrightomega")),
    dx=_wrightomega_dx,
    doc="y + log y = x, real or complex: y = W(eˣ) for real x ;  dy/dx = y/(1 + y)",
)


@primitive(kind="elementwise")
def lambert_w(x, branch=0):
    """y eʸ = x, complex, on one of its branches ;  dy/dx = e⁻ʸ/(1 + y)"""
    single = x.dtype == np.complex64
    return _lambertw(x, branch, 1e-8).astype(np.complex64 if single else np.complex128, copy=False)


@lambert_w.partial("x")
def lambert_w_dx(y):
    return np.exp(-y) / (1 + y)


@composite
def lambertw(z: Any, k: int = 0, tol: float = 1e-8) -> Any:
    """y eʸ = z on the branch k, 0 the principal one ;  dy/dz = e⁻ʸ/(1 + y), ∞ at z = −1/e

    Complex, as SciPy's: of a real z ≥ −1/e the branches 0 and, below 0, −1 are real; take .real.
    `tol` is SciPy's argument; the derivative does not depend on it.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise TypeError(f"lambertw: the branch k must be an integer, got {k!r}")
    z = array_like(z)
    if z.dtype.kind != "c":
        z = op.cast(z, dtype=np.result_type(z.dtype, np.complex64))
    return lambert_w(z, branch=int(k))
