"""K1: the forward equals NumPy's."""

from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, finfo, is_differentiable, is_floating
from ...engine.primitive import Primitive
from ...tensor_api.tensor import Tensor
from ..case import Case
from ..errors import GradcheckError
from ..function import as_array, as_tensors, is_smooth_array
from .base import check


@check("K1", "forward as NumPy: values, dtype, shape, exceptions", per="every", gradient=False)
def k1(case: Case) -> int:
    """The op on tensors against the reference in double precision, and against itself on arrays.

    Without a reference, the op on tensors must still equal the op on plain arrays. A Function,
    which takes tensors alone, must equal its own second call.
    """
    args = case.sample.args
    if case.spec.reference is None:
        expected, source = _on_plain_arrays(case), "the op on plain arrays"
        wide = expected
    else:
        wide = _reference_in_double(case)
        expected, source = _reference_as_it_is(case), "the reference"
    found = case.call(*as_tensors(args))
    if len(found) != len(wide):
        raise GradcheckError(f"{len(found)} results, {source} gives {len(wide)}")
    for i, (y, exact, same) in enumerate(zip(found, wide, expected, strict=True)):
        if not isinstance(y, Tensor):
            raise GradcheckError(
                f"result {i} is a {type(y).__name__} though an argument is a tensor"
            )
        _compare(case, i, as_array(y), np.asarray(exact), same, source)
    return len(found)


def _on_plain_arrays(case: Case) -> list:
    """The results without a tensor among the arguments, if the function takes plain arrays."""
    try:
        return case.call(*case.sample.args)
    except (TypeError, AttributeError):
        if isinstance(case.spec.call, Primitive):
            raise
        return [as_array(y) for y in case.call(*as_tensors(case.sample.args))]


def _reference_in_double(case: Case) -> list:
    """The right result: the reference on the same values, with every float in double precision."""
    try:
        return case.reference(*[widened(x) for x in case.sample.args])
    except Exception as error:
        kind = type(error)
        try:
            case.call(*as_tensors(case.sample.args))
        except kind:
            raise GradcheckError(
                f"the sample is outside the reference's domain ({error}); make it an ErrorSample"
            ) from error
        raise GradcheckError(
            f"the reference raises {kind.__name__}: {error}; the op gives a result"
        ) from error


def widened(x: Any) -> Any:
    """x with floats in float64 and complex numbers in complex128."""
    if not is_smooth_array(x):
        return x
    return x.astype(np.float64 if is_floating(x.dtype) else np.complex128)


def _reference_as_it_is(case: Case) -> list:
    """The reference on the sample's own dtype, for NumPy's result dtype. None if it refuses."""
    try:
        return case.reference(*case.sample.args)
    except Exception:
        return [None] * len(case.reference(*[widened(x) for x in case.sample.args]))


def _compare(case: Case, i: int, y: np.ndarray, exact: np.ndarray, same: Any, source: str) -> None:
    if y.shape != exact.shape:
        raise GradcheckError(f"result {i} has shape {y.shape}, {source} {exact.shape}")
    wanted = expected_dtypes(case, exact, same)
    if y.dtype not in wanted:
        allowed = " or ".join(dict.fromkeys(str(dtype) for dtype in wanted))
        raise GradcheckError(f"result {i} has dtype {y.dtype}, expected {allowed}")
    if not is_differentiable(y.dtype):
        wrong = ~np.atleast_1d(y == exact)
    else:
        wide = np.complex128 if y.dtype.kind == "c" else np.float64
        a, b = y.astype(wide), np.asarray(exact.astype(y.dtype), dtype=wide)
        with np.errstate(all="ignore"):
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            near = np.abs(a - b) <= tolerance(case, y.dtype, exact)
            wrong &= ~(near & np.isfinite(b))
        wrong = np.atleast_1d(wrong)
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(wrong)[0])[: y.ndim]
        raise GradcheckError(
            f"result {i} at {list(where)} is {y[where]!r}, {source} gives {exact[where]!r} "
            f"({int(wrong.sum())} of {wrong.size} differ)"
        )


def expected_dtypes(case: Case, exact: np.ndarray, same: Any) -> list[np.dtype]:
    """NumPy's own result dtype if the reference is NumPy's; else that or the arguments'.

    SciPy and hand-written references widen 16-bit floats; an op keeps its argument's dtype.
    """
    if not is_differentiable(exact.dtype):
        return [exact.dtype]
    given = [] if same is None else [np.asarray(same).dtype]
    if (
        given
        and case.dtype != "bfloat16"
        and (case.spec.reference is None or _is_numpy(case.spec.reference))
    ):
        return given
    smooth = [x.dtype for x in case.sample.args if is_smooth_array(x)]
    if smooth:
        widest: Any = max(smooth, key=lambda dtype: dtype.itemsize)
        if case.dtype == "bfloat16" and exact.dtype.kind == "c":
            widest = np.result_type(widest, np.complex64)
        real = widest.kind == "c" and exact.dtype.kind != "c"
        given.append(np.empty(0, widest).real.dtype if real else widest)
    return given


def _is_numpy(function: Any) -> bool:
    if isinstance(function, np.ufunc):
        return getattr(np, function.__name__, None) is function
    return (getattr(function, "__module__", None) or "").startswith("numpy")


def _has_size(x: Any) -> bool:
    return is_smooth_array(x) and x.size > 0


def tolerance(case: Case, dtype: np.dtype, exact: np.ndarray) -> Any:
    """4 ULP of the result, and √n roundings of the size of the summed terms.

    16-bit sums are formed in float32 and rounded once, so no √n and no sum counts for them.
    """
    eps = float(finfo(dtype).eps)
    summed = [] if accumulator(dtype) is not None else [exact]
    sizes = [float(np.max(np.abs(x))) for x in (*summed, *case.sample.args) if _has_size(x)]
    n = max([np.size(x) for x in case.sample.args]) if summed else 1
    scale = max([size for size in sizes if np.isfinite(size)] + [0.0])
    return 4 * eps * np.abs(exact) + eps * np.sqrt(n) * scale
