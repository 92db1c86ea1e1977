"""K24 and K25: one call knows nothing of another, and a large call is many small ones."""

import numpy as np

from ...ops.blocks import spans
from ..case import Case, Context, differentiated, is_elementwise
from ..compare import check_calls
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, is_smooth_array
from ..numeric import normal, repeated
from ..spec import OpSpec, Sample
from .base import check
from .grown import of_grown

_STEP = 0.01  # how far the other call's arguments lie from the sample's
_LARGE = (1 << 19) + 9  # elements: more than two blocks of ops/blocks.py, and no round number
_MANY, _FEW = (1 << 15) + 9, 1000  # elements: ops have their large forms from 4,096 on
_FACTORS = (1.0, 0.3, 2.5, -1.0)
_SAME = {"float64": 1e-12, "float32": 2e-5}  # what two forms of an op may round apart


@check("K24", "a call between forward and backward changes nothing; right at a second point",
       optional=True)  # fmt: skip
def k24(case: Case) -> int:
    """What a rule keeps outside of its call (the last input, the first one) shows here."""
    function, rng = case.function(), case.rng("K24")
    xs = function.xs
    if not xs or not function.value(xs):
        raise DoesNotApply("a sample without a differentiable argument and result")
    us, vs = normal(rng, xs), normal(rng, function.value(xs))
    moved = [x + _STEP * u for x, u in zip(xs, us, strict=True)]
    return check_calls(function, xs, moved, us, vs, "")


@check("K25", "large arguments: elements repeat with the values, else finite differences agree",
       per="op", optional=True)  # fmt: skip
def k25(spec: OpSpec, context: Context) -> int:
    """Sums of blocks, threads and buffers begin beyond some size; elements do not notice."""
    if not is_elementwise(spec):
        return of_grown(spec, context)
    sample = largest_sample(spec, context)
    small = tuple(x.reshape(-1) if isinstance(x, np.ndarray) else x for x in sample.args)
    n = max(x.size for x in small if isinstance(x, np.ndarray))
    few, many = (
        Function(spec.call, args, sample.params, differentiated(spec, args))
        for args in (_resized(small, n), _resized(small, _LARGE))
    )
    ys = few.value(few.xs)
    vs = normal(context.rng(spec.name, "K25"), ys)
    pairs = [
        *zip(ys, many.value(many.xs), strict=True),
        *zip(
            few.vjp(few.xs, vs),
            many.vjp(many.xs, [repeated(v, _LARGE) for v in vs]),
            strict=True,
        ),
    ]
    for expected, found in pairs:
        if not np.allclose(found, repeated(expected, _LARGE), rtol=1e-14, atol=0, equal_nan=True):
            raise GradcheckError(f"an element of {_LARGE:,} is not what it is among {n:,}")
    return len(pairs) + among_few_and_many(spec, context, sample, small)


def largest_sample(spec: OpSpec, context: Context) -> Sample:
    """The sample with most elements: more than one, so that there are values of either sign."""
    samples = context.samples(spec, spec.dtypes[0])
    sizes = [[x.size for x in s.args if isinstance(x, np.ndarray)] for s in samples]
    if not any(map(all, sizes)):
        raise DoesNotApply("no sample whose arguments are arrays with elements")
    return max(zip(samples, sizes, strict=True), key=lambda pair: all(pair[1]) and sum(pair[1]))[0]


def _resized(args: tuple, n: int) -> tuple:
    return tuple(repeated(x, n) if isinstance(x, np.ndarray) else x for x in args)


def among_few_and_many(spec: OpSpec, context: Context, sample: Sample, args: tuple) -> int:
    """A large array may have a form of its own, in float32 another than in float64: of many
    different values near the sample's and their multiples, each one and its gradient is what it is
    in an array of a thousand. Returns how many arrays were compared.
    """
    rng = context.rng(spec.name, "K25 of many values")
    factors = np.resize(np.repeat(_FACTORS, 7), _MANY)
    spread = factors * (1 + 0.01 * rng.standard_normal(_MANY))
    count = 0
    for dtype in [dtype for dtype in spec.dtypes if dtype in _SAME]:
        values = tuple(
            [
                (np.resize(x, _MANY) * spread).astype(dtype) if is_smooth_array(x) and x.size else x
                for x in args
            ]
        )
        parts = [
            Function(
                spec.call,
                [x[span] if np.size(x) == _MANY else x for x in values],
                sample.params,
                differentiated(spec, values),
            )
            for span in (slice(None), *spans(_MANY, _FEW))
        ]
        found = []
        for part in parts:
            ys = part.value_or_refusal(part.xs)
            if ys is None:
                return count
            found.append([*ys, *part.vjp(part.xs, [np.ones_like(y) for y in ys])])
        for many, *few in zip(*found, strict=True):
            expected = np.concatenate(few)
            near_zero = 4 * np.finfo(many.dtype).eps * np.nanmedian(np.abs(expected))
            same = np.isclose(many, expected, rtol=_SAME[dtype], atol=near_zero, equal_nan=True)
            if not same.all():
                i = int(np.argmin(same))
                raise GradcheckError(
                    f"{dtype}: {many[i]!r} among {_MANY:,} elements, {expected[i]!r} among {_FEW}"
                )
            count += 1
    return count
