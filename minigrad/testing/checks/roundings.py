"""The tolerance of a gradient in a narrow dtype against the one in double precision (K15)."""

import numpy as np

from ...backends.dtypes import finfo
from ..case import Case, is_elementwise
from ..errors import GradcheckError
from ..function import Function, is_smooth_array
from .forward import widened
from .spread import summed_to

# of a gradient, in its own direction: a wrong factor adds up there, roundings cancel
_SHARE = 0.05


def size_of_terms(case: Case, wide: Function, vs: list, i: int, d: np.ndarray) -> np.ndarray:
    """max(|d|, 1) times √n of the n terms that may be summed into each entry of d.

    If an elementwise op broadcast, the terms are known. Their roundings may be far larger than
    those of a sum in which they cancelled.
    """
    if not is_elementwise(case.spec) or d.size == vs[0].size:
        return np.maximum(np.abs(d), 1) * np.sqrt(summed(case, d, vs))
    arrays = np.broadcast_arrays(*[x for x in wide.args if isinstance(x, np.ndarray)])
    rest = iter(arrays)
    args = [next(rest) if isinstance(x, np.ndarray) else x for x in wide.args]
    full = Function(wide.fn, args, wide.params, wide.positions)
    terms = np.maximum(np.abs(full.vjp(full.xs, vs)[i]), 1)
    return np.sqrt(summed_to(terms**2, d.shape))


def along_itself(g: np.ndarray, d: np.ndarray, rounding: float, what: str) -> None:
    """|⟨g − d, d⟩| ≤ 5 % of ⟨d, d⟩, and the rounding of terms of size one that cancelled in d."""
    size = float(np.linalg.norm(d))
    error = abs(float(np.vdot(d, widened(g) - d).real))
    if not error <= _SHARE * size**2 + rounding * size:
        raise GradcheckError(
            f"{what} in {g.dtype} is {100 * error / size**2:.3g} % off from that in double "
            "precision, taken as a whole: a factor is wrong, or a part is missing"
        )


def coarsest(case: Case) -> float:
    """ε of the least precise floating argument or of the case's dtype."""
    dtypes = [x.dtype for x in case.sample.args if is_smooth_array(x)]
    return max(float(finfo(dtype).eps) for dtype in dtypes)


def summed(case: Case, g: np.ndarray, vs: list) -> float:
    """How many terms one entry of the gradient may sum."""
    sizes = max([v.size for v in vs] + [1])
    if is_elementwise(case.spec):
        return max(1.0, sizes / max(g.size, 1))
    return max([np.size(x) for x in case.sample.args] + [sizes, 1])
