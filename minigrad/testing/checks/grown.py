"""K25 of ops that are not elementwise: right for large arguments too.

Finite differences check gradients, and the reference checks values: the gradient of a wrong value
may be right.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from time import thread_time

import numpy as np

from ..case import DOUBLE, Case, Context, function_of
from ..compare import check_direction
from ..conduct import one_argument_alone, require_same_gradients, some_results
from ..errors import DoesNotApply, GradcheckError, Inconclusive
from ..function import Arrays, Function, Pullback, as_array, as_tensors, is_smooth_array, results
from ..numeric import normal
from ..spec import OpSpec, Sample
from .forward import k1
from .large_forms import require_half_precision, require_recorded, require_single_precision
from .pushed import require_modes_agree
from .sizes import resized, takes

_LARGE = (1 << 16) + 4999  # elements: more than a block or buffer of most ops, and no round number
_LARGE_FORMS = 1 << 12  # elements from which ops have other forms
_LARGER = (1 << 19) + 9  # more than some blocks that threads share
_RUNG = 4  # the growth from one call to the next on the way there
_MOST = 1 << 18  # elements of the results of such a call; the next may have 16 times as many
_LONGEST = 0.02  # seconds of processor time of such a call; the next may take 16 times as long
_STEP = 0.01  # the spread of repeated values, as a share of them
_NEARLY = 1e-9  # of the largest value: tolerated difference of a value and the reference's
_NEAR = 2.0**-12  # of a unit: the step of finite differences; some of many elements lie at kinks


def of_grown(spec: OpSpec, context: Context) -> int:
    """For how many ways of growing a sample finite differences were conclusive.

    At the fast level the first conclusive sample and way of growing suffice. At the full level
    every sample is grown in both double dtypes, the first one also to a larger size. The number
    includes the op's large samples that agreed.
    """
    large = sum(of_large(spec, context, sample) for sample in large_samples(spec, context))
    count = 0
    for dtype in [dtype for dtype in spec.dtypes if dtype in DOUBLE] or spec.dtypes[:1]:
        for sample in context.samples(spec, dtype):
            before = count
            for growth in growths(sample):
                found = _at_size(
                    spec, context, sample, growth, _LARGE, not count, in_other_forms=count == before
                )
                if found and not count and context.full:
                    _at_size(spec, context, sample, growth, _LARGER)
                count += found
                if count and not context.full:
                    return count + large
    if not count + large:
        raise DoesNotApply("finite differences decide nothing at a large size")
    return count + large


def large_samples(spec: OpSpec, context: Context) -> Iterator[Sample]:
    if spec.large is not None:
        yield from spec.large(context.rng(spec.name, "large samples"), np.dtype(np.float64))


def require_near_reference(spec: OpSpec, args: tuple, params: dict, what: str) -> None:
    """Values within _NEARLY of the reference's. No bound for sums covers how a composition of long
    sums and exponentials magnifies rounding."""
    assert spec.reference is not None
    pairs = zip(results(spec.call(*as_tensors(args), **params)),
                results(spec.reference(*args, **params)), strict=True)  # fmt: skip
    for i, (y, exact) in enumerate((as_array(y), np.asarray(exact)) for y, exact in pairs):
        scale = np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact))
        if y.shape != exact.shape or not np.allclose(
            y, exact, rtol=_NEARLY, atol=_NEARLY * scale, equal_nan=True
        ):
            raise GradcheckError(f"{what}: the values of result {i} differ from the reference's")


def of_large(spec: OpSpec, context: Context, sample: Sample) -> bool:
    """Whether finite differences were conclusive for a large sample. They take its arguments in
    rows: a form for another memory order is then compared with the one for rows."""
    function = function_of(spec, sample.args, sample.params)
    rng = context.rng(spec.name, "K25", sample.name)
    function.value(function.xs)  # the op must accept its sample: an exception here is a failure
    require_conduct(function, rng, sample.name)
    require_value(spec, context, sample)
    found = agrees(spec, function, function.xs, rng, sample.name)
    if found:
        require_single_precision(spec, function, function.xs, rng, sample.name)
        require_half_precision(spec, function, function.xs, rng, sample.name)
        require_recorded(function, function.xs, rng, sample.name, context.full)
    return found


def require_conduct(function: Function, rng: np.random.Generator, what: str) -> None:
    """Each gradient is the same if it is wanted alone, and if only some results are used. Rules may
    then take another path, which small samples do not take."""
    ys = function.value(function.xs)
    vs = [_laid_like(v, y) for v, y in zip(normal(rng, ys), ys, strict=True)]
    _spoil(function, [*ys, *function.vjp(function.xs, vs)])
    del ys
    if len(function.xs) > 1:
        alone, together = one_argument_alone(function, vs), function.vjp(function.xs, vs)
        where = f"{what}: when no other argument needs a gradient"
        require_same_gradients(function, alone, together, where)
    for used, found, full in some_results(function, vs):
        where = f"{what}: when no result but {[*used]} is used"
        require_same_gradients(function, found, full, where)


def require_value(spec: OpSpec, context: Context, sample: Sample) -> None:
    """The op's value equals the reference's for this sample, if there is a reference."""
    if spec.reference is not None and "K1" not in spec.skips:
        try:
            k1(Case(spec, sample, context))
        except GradcheckError as error:
            raise GradcheckError(f"{sample.name}: {error}") from error


def _spoil(function: Function, results: Arrays) -> None:
    """Fill them with NaN: if the next call gets their memory, parts that it leaves unwritten must
    not be right by accident."""
    for y in results:
        if y.flags.writeable and not any(np.may_share_memory(y, x) for x in function.xs):
            y.fill(np.nan)


def _at_size(
    spec: OpSpec, context: Context, sample: Sample, growth: "Growth", elements: int,
    with_value: bool = False, in_other_forms: bool = False,
) -> bool:  # fmt: skip
    """Whether finite differences could judge a sample grown to this many elements.

    with_value: also compare the value with the reference's. The first conclusive values suffice:
    others are out of order where the op wants order, for example. in_other_forms: also in single
    precision and with a graph of the backward; one way of growing a sample suffices for these.
    """
    if not is_affordable(spec, sample, growth, elements):
        return False
    shapes = growth.shapes_for(elements)
    function = grown(spec, sample, shapes)
    rng, what = context.rng(spec.name, "K25", shapes), f"sizes {shapes}"
    for xs in values(function, rng):
        if agrees(spec, function, xs, rng, what):
            if in_other_forms:
                require_single_precision(spec, function, xs, rng, what)
                twice = (
                    with_value
                    and context.full
                    and is_twice_affordable(spec, sample, growth, elements)
                )
                require_recorded(function, xs, rng, what, twice)
            if (
                with_value
                and "K1" not in spec.skips
                and is_reference_affordable(spec, sample, growth, elements)
            ):
                require_near_reference(spec, function.args_with(xs), sample.params, what)
            return True
    return False


@dataclass(frozen=True)
class Growth:
    """Arguments' shapes with one axis multiplied, if it has this length.

    length   None: every argument that is not 0-d gets a further axis in front
    axis     0, or −1: the last one, which may be that of rows; or −2
    """

    shapes: list[tuple]
    length: int | None
    axis: int = 0

    def shapes_for(self, elements: int) -> list[tuple]:
        """The shapes where the largest growing one has at least this many elements."""
        times = -(-elements // max(prod(shape) for shape in self.shapes if self._grows(shape)))
        if self.length is None:
            return [(times, *shape) if shape else () for shape in self.shapes]
        return [self._times(times, shape) if self._grows(shape) else shape for shape in self.shapes]

    def _times(self, times: int, shape: tuple) -> tuple:
        grown = list(shape)
        grown[self.axis] *= times
        return tuple(grown)

    def _grows(self, shape: tuple) -> bool:
        deep = len(shape) >= max(1, -self.axis)
        return deep and self.length in (None, shape[self.axis])


def growths(sample: Sample) -> Iterator[Growth]:
    """With a further axis and along the last one, unless there are indices, whose axes have their
    own meaning; along the first."""
    shapes = [np.shape(x) for x in sample.args]
    if not any(shapes) or not all(prod(shape) for shape in shapes):
        return
    smooth = all(is_smooth_array(x) for x in sample.args)
    if smooth:
        yield Growth(shapes, None)
    for length in dict.fromkeys(shape[0] for shape in shapes if shape):
        yield Growth(shapes, length)
    for length in dict.fromkeys(shape[-1] for shape in shapes if len(shape) > 1 and smooth):
        yield Growth(shapes, length, -1)


def grown(spec: OpSpec, sample: Sample, shapes: list[tuple]) -> Function:
    args = resized(sample, shapes)
    return function_of(spec, args, sample.params)


def refused_for_its_size(function: Function, what: str) -> None:
    """GradcheckError, with the exception of a call at multiples of the accepted sizes."""
    try:
        function.value(function.xs)
    except np.linalg.LinAlgError:
        return  # a matrix of repeated rows, which is singular
    except Exception as error:
        raise GradcheckError(
            f"{what}: the call raises {error!r}; with fewer elements it does not"
        ) from error


def is_affordable(spec: OpSpec, sample: Sample, growth: Growth, elements: int) -> bool:
    """Whether the op takes such arguments, within reasonable time and memory.

    Calls at smaller sizes decide: an outer product, or a loop over steps, stops growing there. The
    thread's own time counts: other load on the machine must not exclude an op. The first size is
    not large. There a rule may refuse as well as the call: sizes that do not fit may pass a forward
    that only other ops call. At later sizes a rule that raises is wrong.
    """
    first = size = _RUNG * max(np.size(x) for x in sample.args)
    while size < elements:
        function = grown(spec, sample, growth.shapes_for(size))
        if size == first and not takes(function):
            return False
        start = thread_time()
        ys = function.value_or_refusal(function.xs)
        if ys is None and size > first and size >= _LARGE_FORMS:
            refused_for_its_size(function, f"{sample.name} grown to {size:,} elements")
        if ys is None or thread_time() - start > _LONGEST or sum(y.size for y in ys) > _MOST:
            return False
        start = thread_time()
        try:
            function.vjp(function.xs, ys)
        except np.linalg.LinAlgError:
            return False  # a matrix of repeated rows, which is singular
        if thread_time() - start > _LONGEST:
            return False
        size *= _RUNG
    return True


def is_reference_affordable(spec: OpSpec, sample: Sample, growth: Growth, elements: int) -> bool:
    """The same for the reference, which may be slow and refuse arguments that the op takes."""
    size = max(np.size(x) for x in sample.args)
    while spec.reference is not None and (size := _RUNG * size) < elements:
        args = resized(sample, growth.shapes_for(size))
        start = thread_time()
        try:
            spec.reference(*args, **sample.params)
        except Exception:
            return False
        if thread_time() - start > _LONGEST:
            return False
    return spec.reference is not None


def is_twice_affordable(spec: OpSpec, sample: Sample, growth: "Growth", elements: int) -> bool:
    """The same for the second derivative, which may contain a square matrix of all rows."""
    size = max(np.size(x) for x in sample.args)
    while (size := _RUNG * size) < elements:
        function = grown(spec, sample, growth.shapes_for(size))
        start = thread_time()
        try:
            vs = [np.ones_like(y) for y in function.value(function.xs)]
            Pullback(function).vjp([*function.xs, *vs], function.xs)
        except Exception:
            return False
        if thread_time() - start > _LONGEST:
            return False
    return True


def values(function: Function, rng: np.random.Generator) -> Iterator[Arrays]:
    """Arguments whose elements differ: repeated values moved a little, then at equal distances.

    No two of the latter are near, as ops that sort need; but other ops may not be defined there.
    """
    xs = function.xs
    yield [x * (1 + _STEP * u) for x, u in zip(xs, normal(rng, xs), strict=True)]
    if all(x.dtype.kind == "f" for x in xs):
        order = [np.argsort(np.argsort(x, axis=None)).reshape(x.shape) for x in xs]
        yield [x.min() + np.ptp(x) * k / x.size for x, k in zip(xs, order, strict=True)]


def _in_range(y: np.ndarray) -> bool:
    """Whether finite differences mean anything: a product of thousands is ∞ or 1e-300."""
    size = np.abs(y)
    return bool(((size < 1e100) & ((size > 1e-100) | (size == 0))).all())


def _laid_like(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    """v in the memory order of y, as cotangents from elementwise ops have it."""
    laid = np.empty_like(y)
    laid[...] = v
    return laid


def agrees(
    spec: OpSpec, function: Function, xs: Arrays, rng: np.random.Generator, what: str
) -> bool:
    """Whether finite differences were conclusive and confirm the gradient at xs. Forward mode must
    agree with it, and neither may write into its arguments."""
    try:
        ys = function.value_or_refusal(xs)
        if ys is None or not all(_in_range(y) for y in ys):
            return False
        us, vs = normal(rng, xs), normal(rng, ys)
        if not us or not vs:
            return False
        vs = [_laid_like(v, y) for v, y in zip(vs, ys, strict=True)]
        before = [x.tobytes() for x in (*xs, *vs)]
        check_direction(function, xs, [_NEAR * u for u in us], vs, what)
        require_modes_agree(spec, function, xs, us, vs, what)
        if before != [x.tobytes() for x in (*xs, *vs)]:
            raise GradcheckError(f"{what}: an argument or a cotangent was written into")
    except (Inconclusive, np.linalg.LinAlgError):
        return False
    return True
