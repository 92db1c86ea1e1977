"""K31: near the ends of a dtype, value and gradient follow the same law as before.

Many functions multiply their value by 2^(k d) when their arguments are multiplied by 2^k. Norms
have d = 1, normalisations and cosines d = 0, a square root d = ½; some follow such a law only far
out, as √(1 + x²). Their derivatives are then multiplied by 2^(k (d − 1)). A power of two causes no
rounding. So the law holds up to the largest and down to the smallest numbers, as long as the result
is in range. A rule that squares its argument breaks it half-way there.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ...backends.dtypes import bfloat16, finfo, is_floating, resolve_dtype
from ..case import Context, function_of
from ..errors import DoesNotApply, GradcheckError
from ..function import Arrays, Function
from ..numeric import normal
from ..spec import OpSpec, Sample
from .base import check

_NEAR, _FAR = 20, 30  # exponents between which the law is measured, in float64, of either sign
_ENDS = {
    "float32": (50, 70, 100, 116), "float64": (300, 530, 800, 1000), "bfloat16": (50, 70, 100),
}  # fmt: skip
_SAME = 1e-9  # of the largest: tolerated difference of two values of the law
_BROKEN = {"float32": 1e-3, "float64": 1e-7, "bfloat16": 0.1}
_SAMPLES = 3  # of an op, at the fast level
_QUARTERS = 4  # degrees are whole, halves or quarters


@check("K31", "huge and tiny arguments: the value and the gradient scale as they do near 1",
       per="op", optional=True)  # fmt: skip
def k31(spec: OpSpec, context: Context) -> int:
    """All floating arguments at once, and each alone, times powers of two."""
    count = 0
    for dtype in _ENDS:
        if dtype not in spec.dtypes or (dtype == "bfloat16" and bfloat16 is None):
            continue
        samples = context.samples(spec, dtype)
        for sample in samples if context.full else samples[:_SAMPLES]:
            count += _of_sample(spec, context, sample, dtype)
    if not count:
        raise DoesNotApply("it does not scale with its arguments")
    return count


def _of_sample(spec: OpSpec, context: Context, sample: Sample, dtype: str) -> int:
    wide = [x.astype(np.float64) if _is_real(x) else x for x in sample.args]
    exact = function_of(spec, wide, sample.params)
    narrow = function_of(spec, sample.args, sample.params)
    if not narrow.xs or any(not _is_real(x) for x in narrow.xs):
        return 0
    count, n = 0, len(narrow.xs)
    for chosen in [[*range(n)], *[[i] for i in range(n)]] if n > 1 else [[0]]:
        for sign in (1, -1):
            rng = context.rng(spec.name, "K31", sample.name, sign)
            found = _at(exact, chosen, sign * _NEAR, None, rng)
            if found is None:
                continue
            ys, gs, vs = found
            further = _at(exact, chosen, sign * _FAR, vs, rng)
            degree = further and _degree(ys, further[0], sign)
            if further is None or degree is None or not _holds(ys + gs, further, chosen, degree,
                                                               sign):  # fmt: skip
                continue
            count += _to_the_end(narrow, chosen, sign, degree, vs, sample, dtype)
    return count


def _is_real(x: object) -> bool:
    return isinstance(x, np.ndarray) and is_floating(x.dtype)


def _at(
    function: Function, chosen: Sequence[int], k: int, vs: Arrays | None, rng: np.random.Generator
) -> tuple[Arrays, Arrays, Arrays] | None:
    """(values, gradients, cotangents) with the chosen arguments times 2^k; None if one is refused
    or not finite."""
    xs = [_times(x, k) if i in chosen else x for i, x in enumerate(function.xs)]
    ys = function.value_or_refusal(xs)
    if not ys or not all(np.isfinite(y).all() and is_floating(y.dtype) for y in ys):
        return None
    vs = normal(rng, ys) if vs is None else vs
    if [v.shape for v in vs] != [y.shape for y in ys]:
        return None
    gs = function.vjp(xs, [v.astype(y.dtype) for v, y in zip(vs, ys, strict=True)])
    return (ys, gs, vs) if all(np.isfinite(g).all() for g in gs) else None


def _times(x: np.ndarray, k: int) -> np.ndarray:
    return np.ldexp(x.astype(np.float64), k).astype(x.dtype)


def _degree(ys: Arrays, zs: Arrays, sign: int) -> list[float] | None:
    """The degree of each result, from values at two scales; None if a value is 0 or no degree
    fits."""
    found = []
    for y, z in zip(ys, zs, strict=True):
        a, b = np.abs(y).max(initial=0), np.abs(z).max(initial=0)
        if not a or not b:
            return None
        d = np.log2(b / a) / (sign * (_FAR - _NEAR))
        rounded = round(d * _QUARTERS) / _QUARTERS
        if abs(d - rounded) > _SAME:
            return None
        found.append(rounded)
    return found if len(set(found)) == 1 else None


def _holds(near: Arrays, further: tuple, chosen: Sequence[int], degree: list, sign: int) -> bool:
    """Whether all numbers at `near`, times the law's power of two, equal those `further` out."""
    k = sign * (_FAR - _NEAR)
    pairs = zip(near, further[0] + further[1], strict=True)
    powers = _powers(len(further[0]), len(further[1]), chosen, degree[0])
    for (a, b), d in zip(pairs, powers, strict=True):
        expected = a * 2.0 ** (k * d)
        if (np.abs(b - expected) > _SAME * np.abs(expected).max(initial=0)).any():
            return False
    return True


def _powers(results: int, arguments: int, chosen: Sequence[int], d: float) -> Iterator[float]:
    """The degrees of the results and of the gradients."""
    yield from [d] * results
    yield from [d - 1 if i in chosen else d for i in range(arguments)]


def _to_the_end(
    function: Function, chosen: Sequence[int], sign: int, degree: list, vs: Arrays, sample: Sample,
    dtype: str,
) -> int:  # fmt: skip
    """How many values and gradients far out equal those at 2^±30 times a power of two."""
    rng = np.random.default_rng(0)  # unused: the cotangents are given
    base = _at(function, chosen, sign * _FAR, vs, rng)
    if base is None:
        return 0
    ys, gs, _ = base
    powers, count = [*_powers(len(ys), len(gs), chosen, degree[0])], 0
    info = finfo(resolve_dtype(dtype))
    low, high = float(info.tiny) * 2**12, float(info.max) / 2**12
    for end in _ENDS[dtype]:
        k = sign * end
        xs = [_times(x, k) if i in chosen else x for i, x in enumerate(function.xs)]
        if not all(_within(x, low, high) for x in xs):
            continue
        wanted = [a.astype(np.longdouble) * np.longdouble(2) ** ((k - sign * _FAR) * d)
                  for a, d in zip(ys + gs, powers, strict=True)]  # fmt: skip
        if not all(_within(a, low, high) for a in wanted):
            continue
        zs = function.value(xs)
        found = zs + function.vjp(xs, [v.astype(z.dtype) for v, z in zip(vs, zs, strict=True)])
        for i, (a, b) in enumerate(zip(wanted, found, strict=True)):
            most = np.abs(a).max(initial=0)
            wrong = ~(np.abs(b.astype(a.dtype) - a) <= _BROKEN[dtype] * most)
            if wrong.any():
                at = tuple(int(j) for j in np.argwhere(wrong)[0])
                what = f"result {i}" if i < len(ys) else _gradient_name(function, i - len(ys))
                scaled = ", ".join(function.names[function.positions[j]] for j in chosen)
                raise GradcheckError(
                    f"{sample.name}: {what} at {list(at)} in {dtype} with {scaled} times 2^{k} is "
                    f"{float(b[at])!r}; the law that it follows from 2^{sign * _NEAR} on, of "
                    f"degree {degree[0]:g}, gives {float(a[at])!r}. Perhaps a square or a product "
                    "inside is beyond the range of the dtype"
                )
        count += len(found)
    return count


def _gradient_name(function: Function, i: int) -> str:
    return f"the gradient of argument {function.names[function.positions[i]]}"


def _within(x: np.ndarray, low: float, high: float) -> bool:
    """Whether all nonzero values lie between them."""
    size = np.abs(x[x != 0])
    return bool(((size >= low) & (size <= high)).all())
