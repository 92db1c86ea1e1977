"""K24 and K25: calls are independent of each other, and a large call equals many small ones."""

import numpy as np

from ...backends.blocks import spans
from ..case import Case, Context, differentiated, function_of, is_elementwise
from ..compare import both_in_one_graph, check_calls
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, Pullback, is_smooth_array
from ..numeric import normal, repeated
from ..spec import OpSpec, Sample
from .base import check
from .grown import of_grown

_STEP = 0.01  # the distance of the other call's arguments from the sample's
_LARGE = (1 << 19) + 9  # elements: over two blocks of backends/blocks.py, no round number
_MANY, _FEW = (1 << 15) + 9, 1000  # elements: ops have their large forms from 4,096 on
_FACTORS = (1.0, 0.3, 2.5, -1.0)
_SAME = {"float64": 1e-12, "float32": 2e-5}  # rounding by which two forms of an op may differ
_TYPICAL = 0.9  # quantile of the sizes of terms that may cancel; the median may come from a tail


@check("K24", "a call between forward and backward changes nothing; right at a second point",
       optional=True)  # fmt: skip
def k24(case: Case) -> int:
    """This finds state that a rule keeps outside of its call (the last input, the first one)."""
    function, rng = case.function(), case.rng("K24")
    xs = function.xs
    if not xs or not function.value(xs):
        raise DoesNotApply("a sample without a differentiable argument and result")
    us, vs = normal(rng, xs), normal(rng, function.value(xs))
    moved = [x + _STEP * u for x, u in zip(xs, us, strict=True)]
    count = check_calls(function, xs, moved, us, vs, "")
    if case.context.full or case.is_first_of_its_kind:
        count += both_in_one_graph(function, xs, moved, vs, "")
    return count


@check("K25", "large arguments: elements repeat with the values, else finite differences agree",
       per="op", optional=True)  # fmt: skip
def k25(spec: OpSpec, context: Context) -> int:
    """Blocks, threads and buffers of sums begin beyond some size; elements must not depend on
    it."""
    if not is_elementwise(spec):
        return of_grown(spec, context)
    sample = largest_sample(spec, context)
    small = tuple(x.reshape(-1) if isinstance(x, np.ndarray) else x for x in sample.args)
    n = max(x.size for x in small if isinstance(x, np.ndarray))
    few, many = (
        function_of(spec, args, sample.params)
        for args in (_resized(small, n), _resized(small, _LARGE))
    )
    ys = few.value(few.xs)
    vs = normal(context.rng(spec.name, "K25"), ys)
    expected = [*ys, *few.vjp(few.xs, vs)]
    found = [*many.value(many.xs), *many.vjp(many.xs, [repeated(v, _LARGE) for v in vs])]
    for what, a, b in zip(_names(many), found, expected, strict=True):
        same = np.isclose(a, repeated(b, _LARGE), rtol=1e-14, atol=0, equal_nan=True)
        if not same.all():
            i = int(np.argmin(same))
            raise GradcheckError(
                f"{what}{a[i]!r} at [{i}] among {_LARGE:,} elements, {b[i % n]!r} among {n:,}"
            )
    count = len(found) + among_few_and_many(spec, context, sample)
    known = {repr(sample.params)}
    for other in context.samples(spec, spec.dtypes[0]):
        if repr(other.params) not in known and _has_elements(other):
            known.add(repr(other.params))
            count += among_few_and_many(spec, context, other)
    return count


def largest_sample(spec: OpSpec, context: Context) -> Sample:
    """The sample with most elements: more than one, for values of either sign."""
    samples = context.samples(spec, spec.dtypes[0])
    samples = [sample for sample in samples if _has_elements(sample)]
    if not samples:
        raise DoesNotApply("no sample whose arguments are arrays with elements")
    return max(samples, key=lambda sample: sum(np.size(x) for x in sample.args))


def _has_elements(sample: Sample) -> bool:
    return all(x.size for x in sample.args if isinstance(x, np.ndarray))


def _resized(args: tuple, n: int) -> tuple:
    return tuple(repeated(x, n) if isinstance(x, np.ndarray) else x for x in args)


def among_few_and_many(spec: OpSpec, context: Context, sample: Sample) -> int:
    """A large array may have its own form, and another in float32 than in float64. This uses many
    different values near the sample's and their multiples, infinities, NaN and zeros. Each value
    and its gradient equal those in an array of a thousand. So does its second derivative where that
    of the first thousand is finite. Returns how many arrays were compared."""
    rng = context.rng(spec.name, "K25 of many values")
    factors = np.resize(np.repeat(_FACTORS, 7), _MANY)
    spread = factors * (1 + 0.01 * rng.standard_normal(_MANY))
    count = 0
    for dtype in [dtype for dtype in spec.dtypes if dtype in _SAME]:
        args = _with_special_values(
            tuple(
                [
                    (np.resize(x, _MANY) * spread).astype(dtype)
                    if is_smooth_array(x) and x.size
                    else np.resize(x, _MANY)
                    if isinstance(x, np.ndarray) and x.ndim
                    else x
                    for x in sample.args
                ]
            )
        )
        parts = [
            Function(
                spec.call,
                [x[span] if np.size(x) == _MANY else x for x in args],
                sample.params,
                differentiated(spec, args),
            )
            for span in (slice(None), *spans(_MANY, _FEW))
        ]
        values = [part.value_or_refusal(part.xs) for part in parts]
        taken = [ys for ys in values if ys is not None]
        if len(taken) < len(values):
            _require_refused_by_few(parts[0], values, dtype)
            return count
        found = [
            [*ys, *part.vjp(part.xs, [np.ones_like(y) for y in ys])]
            for part, ys in zip(parts, taken, strict=True)
        ]
        for what, many, *few in zip(_names(parts[0]), *found, strict=True):
            _require_as_among_few(many, np.concatenate(few), dtype, what)
            count += 1
        count += _second_among_few(parts[0], parts[1], dtype)
    return count


def _require_refused_by_few(many: Function, values: list, dtype: str) -> None:
    """If the op refuses the whole array, it must refuse some part of it as well."""
    if values[0] is None and not any(ys is None for ys in values[1:]):
        try:
            many.value(many.xs)
        except Exception as error:
            raise GradcheckError(
                f"{dtype}: the call raises {error!r} among {_MANY:,} elements, and accepts the "
                f"same elements {_FEW:,} at a time"
            ) from error


def _names(function: Function) -> list[str]:
    """Names of the result of a row of the table, and of its gradients."""
    return ["the result is ", *[f"the gradient of argument {i} is " for i in function.positions]]


def _with_special_values(args: tuple) -> tuple:
    """Infinities, NaN and zeros at some positions, each next to each: first and last of the
    array."""
    places = [i for i, x in enumerate(args) if is_smooth_array(x) and x.size == _MANY]
    if len(places) > 3:
        return args
    specials = (np.inf, -np.inf, np.nan, 0.0, -0.0)
    grid = np.meshgrid(*[specials] * len(places))
    for i, column in zip(places, grid, strict=True):
        args[i][: column.size] = args[i][-column.size :] = column.reshape(-1)
    return args


def _second_among_few(many: Function, few: Function, dtype: str) -> int:
    """How many second derivatives were compared, of all values and of the equal ones before
    them."""
    if not many.xs:
        return 0

    def second(function: Function) -> list:
        ys = function.value(function.xs)
        point = [*function.xs, *[np.ones_like(y) for y in ys]]
        return Pullback(function).vjp(point, [np.ones_like(x) for x in function.xs])

    pairs = [*zip(second(many), second(few), strict=True)]
    for found, expected in pairs:
        _require_as_among_few(found[: len(expected)], expected, dtype, "the second derivative is ")
    return len(pairs)


def _require_as_among_few(found: np.ndarray, expected: np.ndarray, dtype: str, what: str) -> None:
    sizes = np.abs(expected[np.isfinite(expected)])
    typical = np.quantile(sizes, _TYPICAL) if sizes.size else 0.0
    near_zero = 4 * np.finfo(found.dtype).eps * typical
    same = np.isclose(found, expected, rtol=_SAME[dtype], atol=near_zero, equal_nan=True)
    if not same.all():
        i = int(np.argmin(same))
        raise GradcheckError(
            f"{dtype}: {what}{found[i]!r} among {_MANY:,} elements, {expected[i]!r} among {_FEW}"
        )
