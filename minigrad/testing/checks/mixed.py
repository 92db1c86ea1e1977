"""Mixed dtypes, a part of K15: one argument of another dtype than the others."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...backends.dtypes import resolve_dtype
from ..case import DOUBLE, Case, differentiated, function_of, is_elementwise
from ..errors import GradcheckError
from ..function import Arrays, Function, is_smooth_array, replaced
from ..numeric import normal
from .forward import widened
from .nearness import agree
from .roundings import along_itself, coarsest, size_of_terms

# the dtype of the other arguments if one has this dtype
_BESIDE = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float64",
    "complex64": "complex128",
}


def of_mixed_dtypes(case: Case) -> int:
    """For how many arguments in another dtype the gradients were compared with those in one dtype.

    float64: one argument in whole numbers, for elementwise ops also of unsigned 8 bits, and a
    Python number. complex128: one real argument, also with every second sign turned. Other dtypes:
    one argument in the case's dtype, the others in the next wider one. Ops may refuse a mixture,
    and values outside their domain. At the fast level float32 is mixed in every sample, others in
    the first one of each kind.
    """
    if len(differentiated(case.spec, case.sample.args)) < 2:
        return 0
    if not (case.context.full or case.dtype == "float32" or case.is_first_of_its_kind):
        return 0
    return sum(as_of_one_dtype(case, *mixture) for mixture in mixtures(case))


def mixtures(case: Case) -> Iterator[tuple[str, tuple, tuple]]:
    """(the mixture in words, such arguments, the same numbers in double precision)."""
    args = case.sample.args
    wide = tuple(widened(x) for x in args)
    for i in differentiated(case.spec, args):
        if case.dtype == "float64":
            whole = _whole(args[i])
            if np.isfinite(whole).all():
                what = f"argument {i} is in whole numbers"
                yield what, replaced(args, i, whole.astype(np.int64)), replaced(args, i, whole)
            if is_elementwise(case.spec) and args[i].size:
                number = args[i].reshape(-1)[0].item()
                alike = replaced(args, i, np.full_like(args[i], number))
                yield f"argument {i} is a Python number", replaced(args, i, number), alike
                small = np.abs(_whole(args[i])) % 200  # −x and 1 − x wrap round in unsigned numbers
                if np.isfinite(small).all():
                    what = f"argument {i} is in whole numbers of 8 bits"
                    yield what, replaced(args, i, small.astype(np.uint8)), replaced(args, i, small)
        elif case.dtype == "complex128":
            if args[i].dtype.kind == "c":
                others = [k for k, x in enumerate(args) if k != i and is_smooth_array(x)]
                for what, places in (("real", [i]), ("complex", others)):
                    for sign in (1, -1):
                        mixed, alike = _real(args, places, sign)
                        yield f"argument {i} alone is {what}", mixed, alike
        elif args[i].dtype == resolve_dtype(case.dtype):
            others = [_in_dtype(x, _BESIDE[case.dtype]) for x in args]
            yield (
                f"argument {i} alone is in {case.dtype}",
                replaced(tuple(others), i, args[i]),
                wide,
            )


def _whole(x: np.ndarray) -> np.ndarray:
    """Whole numbers near x, none of them 0 and not all of them ±1."""
    return np.copysign(np.ceil(np.abs(x)) + np.arange(x.size).reshape(x.shape) % 2, x)


def _real(args: tuple, places: list[int], sign: int) -> tuple[tuple, tuple]:
    """args with the arrays at these positions real, and the same numbers in complex arrays.

    sign: the factor of every second real number. A negative number has a logarithm only among
    complex numbers.
    """
    real, alike = list(args), list(args)
    for i in places:
        real[i] = args[i].real.copy()
        real[i].reshape(-1)[::2] *= sign
        alike[i] = real[i].astype(args[i].dtype)
    return tuple(real), tuple(alike)


def _in_dtype(x: Any, dtype: str) -> Any:
    """x in this dtype if it is of that kind and narrower."""
    to = np.dtype(dtype)
    narrower = is_smooth_array(x) and x.dtype.itemsize < to.itemsize
    return x.astype(to) if narrower and (x.dtype.kind == "c") == (to.kind == "c") else x


def as_of_one_dtype(case: Case, what: str, args: tuple, wide_args: tuple) -> int:
    """1 if the op takes the mixture and its gradients equal those of one dtype, else 0.

    With complex numbers among the arguments it may refuse a real one outside of its real domain.
    """
    spec, params = case.spec, case.sample.params
    mixed = function_of(spec, args, params)
    wide = Function(spec.call, wide_args, params, mixed.positions)
    try:
        values, exact_values = mixed.value(mixed.xs), wide.value(wide.xs)
    except Exception:
        return 0
    if not mixed.xs or not _comparable(values, exact_values):
        return 0
    if case.dtype == "complex128" and any(np.isnan(y).any() for y in values):
        return 0
    vs = normal(case.rng("K15", what), values)
    wide_vs = [v.astype(y.dtype) for v, y in zip(vs, exact_values, strict=True)]
    if case.dtype in DOUBLE:
        for k, (y, exact_y) in enumerate(zip(values, exact_values, strict=True)):
            agree(y, exact_y, f"result {k}, where {what},")
    found, exact = mixed.vjp(mixed.xs, vs), wide.vjp(wide.xs, wide_vs)
    for k, (g, d) in enumerate(zip(found, exact, strict=True)):
        if not np.isfinite(d).all():
            continue
        where = f"the gradient of argument {mixed.positions[k]}, where {what},"
        if g.dtype.kind != "c":
            d = np.real(d)
        if case.dtype in DOUBLE:
            agree(g, d, where)
            continue
        eps = 4 * coarsest(case)  # parts that depend on the narrow argument alone have its dtype
        if not (np.abs(widened(g) - d) <= eps * size_of_terms(case, wide, wide_vs, k, d)).all():
            raise GradcheckError(
                f"{where} is off by {float(np.max(np.abs(widened(g) - d))):.3g} from that in "
                "double precision"
            )
        along_itself(g, d, eps, where)
    return 1


def _comparable(ys: Arrays, exact: Arrays) -> bool:
    """Whether the mixture has as many results, finite, of the same shapes and kinds."""
    alike = [(y.shape, y.dtype.kind) for y in ys] == [(y.shape, y.dtype.kind) for y in exact]
    return bool(ys) and alike and all(np.isfinite(y).all() for y in exact)
