"""How near two results of the same computation must be: the same bits, 4 ULP, or a sum's error."""

from collections.abc import Iterator

import numpy as np

from ...backends.dtypes import finfo
from ..case import is_elementwise
from ..errors import GradcheckError
from ..spec import OpSpec

_EXACT_FAMILIES = {"shape", "index", "indexing"}
_EXACT_OPS = {"add", "mul", "sub", "neg", "positive"}


def is_exact(spec: OpSpec) -> bool:
    """Whether memory layout may not change a bit: ops that only move values, add and mul."""
    families = set(spec.module.removeprefix("minigrad.testing.samples").split("."))
    return spec.name in _EXACT_OPS or bool(families & _EXACT_FAMILIES)


def require_near(
    spec: OpSpec, a: np.ndarray, b: np.ndarray, what: str, terms: float = 1.0
) -> None:
    """a and b agree as layout allows for this op (K5, K6).

    terms   how many numbers the engine summed into each entry where the op broadcast: NumPy's
            sums depend on layout, so a gradient that was reduced has a sum's error
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        raise GradcheckError(f"{what}: {a.dtype} {a.shape} became {b.dtype} {b.shape}")
    if is_exact(spec) and terms <= 1:
        wrong = ~same_bits(a, b)
    else:
        wrong = ~(np.abs(a - b) <= _bound(spec, a, terms)) & ~same_bits(a, b)
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(np.atleast_1d(wrong))[0])[: a.ndim]
        raise GradcheckError(f"{what}: {a[where]!r} became {b[where]!r} at {list(where)}")


def _bound(spec: OpSpec, a: np.ndarray, terms: float) -> np.ndarray:
    eps = float(finfo(a.dtype).eps)
    if is_elementwise(spec) and terms <= 1:
        return 4 * eps * np.abs(a)
    return 16 * eps * np.sqrt(max(a.size, terms, 1)) * np.max(np.abs(a), initial=0.0) + 0 * np.abs(a)


def broadcast_terms(spec: OpSpec, g: np.ndarray, results: list) -> float:
    """How many entries of an elementwise op's result went into one entry of a gradient."""
    sizes = [y.size for y in results]
    return max([1.0, *[size / max(g.size, 1) for size in sizes]]) if is_elementwise(spec) else 1.0


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise: the same bytes; so −0 is not 0, and a NaN equals itself."""
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


def layouts(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same values in other memory: Fortran order, sliced, reversed strides, read-only."""
    if a.ndim > 1:
        yield "Fortran order", np.asfortranarray(a)
    if a.ndim:
        wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), -7, a.dtype)
        wide[..., ::2] = a
        yield "sliced", wide[..., ::2]
        back = (slice(None, None, -1),) * a.ndim
        yield "reversed strides", a[back].copy()[back]
    frozen = a.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen


def repeated(a: np.ndarray) -> np.ndarray:
    """One value in every place, all of them the same memory (stride 0)."""
    return np.broadcast_to(a.reshape(-1)[0], a.shape)
