"""Tolerances for two results of the same computation: the same bits, 8 ULP, or a sum's error."""

import numpy as np

from ...backends.dtypes import finfo, is_differentiable
from ..case import is_elementwise
from ..errors import GradcheckError
from ..spec import OpSpec

_EXACT_FAMILIES = {"shape", "index", "indexing"}
# By bytes of a real number, relative to the largest entry: a batch may sum in another order
AGREE = {8: 1e-10, 4: 1e-4, 2: 5e-2}
_EXACT_OPS = {"add", "mul", "sub", "neg", "positive"}


def moves_values(spec: OpSpec) -> bool:
    """Whether the op's family only moves values."""
    families = set(spec.module.removeprefix("minigrad.testing.samples").split("."))
    return bool(families & _EXACT_FAMILIES)


def require_near(
    spec: OpSpec, a: np.ndarray, b: np.ndarray, what: str, sizes: list[int], scale: float = 0.0
) -> None:
    """a and b agree as layout allows for this op (K5, K6).

    sizes   of the op's results, then of its arguments: they bound the number of terms summed into
            each entry of a. NumPy's order of addition depends on layout, so the error bound of a
            sum is the tolerance
    scale   of the terms of such a sum, which may have cancelled in a
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        raise GradcheckError(f"{what}: {a.dtype} {a.shape} became {b.dtype} {b.shape}")
    wrong = ~same_bits(a, b)
    bound = allowed(spec, a, sizes, scale)
    if bound is not None:
        wrong &= ~(np.abs(a - b) <= bound)
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(np.atleast_1d(wrong))[0])[: a.ndim]
        raise GradcheckError(f"{what}: {a[where]!r} became {b[where]!r} at {list(where)}")


def allowed(spec: OpSpec, a: np.ndarray, sizes: list[int], scale: float = 0.0) -> np.ndarray | None:
    """The tolerance for a: None for none, 8 ULP for elementwise ops, else √n roundings.

    NumPy's loops for contiguous arrays and for others may round a value differently, and a
    derivative squares that: 1/(3y²) of cbrt changes by 5.
    """
    eps = float(finfo(a.dtype).eps)
    row = is_elementwise(spec)
    if (row or moves_values(spec)) and sizes[0] <= a.size:
        # A complex product is four multiplications, which NumPy fuses only in contiguous loops.
        exact = moves_values(spec) or (spec.name in _EXACT_OPS and a.dtype.kind != "c")
        return None if exact else 8 * eps * np.abs(a)
    return np.full(a.shape, 16 * eps * np.sqrt(max(sizes)) * np.max(np.abs(a), initial=scale))


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise: the same bytes. So −0 is not 0, and a NaN equals itself."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    width = a.dtype.itemsize
    equal = a.reshape(-1).view(np.uint8) == b.reshape(-1).view(np.uint8)
    return equal.reshape(a.size, width).all(axis=1).reshape(a.shape)


def require_same_bits(a: np.ndarray, b: np.ndarray, what: str) -> None:
    if a.shape != b.shape or a.dtype != b.dtype or not same_bits(a, b).all():
        raise GradcheckError(f"{what}: {_first_difference(a, b)}")


def _first_difference(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {a.shape} became {b.dtype} {b.shape}"
    where = tuple(int(k) for k in np.argwhere(np.atleast_1d(~same_bits(a, b)))[0])[: a.ndim]
    return f"{a[where]!r} became {b[where]!r} at {list(where)}"


def agree(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """The result of a transform, `what`, equals the op's alone, to rounding."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise GradcheckError(
            f"{what} is {found.dtype} {found.shape}, alone {expected.dtype} {expected.shape}"
        )
    part = AGREE[np.real(found).itemsize] if is_differentiable(found.dtype) else 0.0
    if part and expected.size:
        room = part * np.abs(expected).max()
        if room < np.inf and (np.abs(found - expected) <= room).all():  # the common case, and fast
            return
    finite = np.abs(expected[np.isfinite(expected)])
    close = np.isclose(found, expected, part, part * finite.max(initial=0.0), equal_nan=True)
    if not close.all():
        where = tuple(int(i) for i in np.argwhere(~np.atleast_1d(close))[0])[: found.ndim]
        raise GradcheckError(
            f"{what} at {list(where)} is {found[where]!r}, alone {expected[where]!r}"
        )
