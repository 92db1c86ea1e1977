"""K25 of ops that are not elementwise: right for large arguments too, by finite differences."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from time import thread_time

import numpy as np

from ..case import Context, differentiated
from ..compare import check_direction, random_pair
from ..errors import DoesNotApply, GradcheckError, Inconclusive
from ..function import Arrays, Function, is_smooth_array
from ..numeric import normal
from ..spec import OpSpec, Sample
from .sizes import resized

_LARGE = (1 << 16) + 4999  # elements: more than a block or buffer of most ops, and no round number
_RUNG = 4  # how many times larger than the last each call on the way there is
_MOST = 1 << 18  # elements of the results of such a call; the next may have 16 times as many
_LONGEST = 0.02  # seconds of processor time of such a call; the next may take 16 times as long
_STEP = 0.01  # how far repeated values are moved apart, as a share of them
_NEAR = 2.0**-12  # of a unit: how far finite differences step; of many elements some lie at kinks


def of_grown(spec: OpSpec, context: Context) -> int:
    """For how many ways of growing a sample finite differences could tell something.

    Of the first sample for which they can; at the fast level the first such way is enough.
    """
    for sample in context.samples(spec, spec.dtypes[0]):
        count = 0
        for growth in growths(sample):
            if is_affordable(spec, sample, growth):
                shapes = growth.shapes_for(_LARGE)
                function = grown(spec, sample, shapes)
                rng = context.rng(spec.name, "K25", shapes)
                count += any(agrees(function, xs, rng, shapes) for xs in values(function, rng))
            if count and not context.full:
                break
        if count:
            return count
    raise DoesNotApply("finite differences decide nothing at a large size")


@dataclass(frozen=True)
class Growth:
    """Arguments' shapes with their first axis multiplied, where it has this length.

    length   None: every argument that is not 0-d gets a further axis in front
    """

    shapes: list[tuple]
    length: int | None

    def shapes_for(self, elements: int) -> list[tuple]:
        """The shapes where the largest of those that grow has at least so many elements."""
        times = -(-elements // max(prod(shape) for shape in self.shapes if self._grows(shape)))
        if self.length is None:
            return [(times, *shape) if shape else () for shape in self.shapes]
        return [
            (times * shape[0], *shape[1:]) if self._grows(shape) else shape for shape in self.shapes
        ]

    def _grows(self, shape: tuple) -> bool:
        return bool(shape) and self.length in (None, shape[0])


def growths(sample: Sample) -> Iterator[Growth]:
    """With a further axis, unless there are indices, whose axes have places of their own."""
    shapes = [np.shape(x) for x in sample.args]
    if not any(shapes) or not all(prod(shape) for shape in shapes):
        return
    if all(is_smooth_array(x) for x in sample.args):
        yield Growth(shapes, None)
    for length in dict.fromkeys(shape[0] for shape in shapes if shape):
        yield Growth(shapes, length)


def grown(spec: OpSpec, sample: Sample, shapes: list[tuple]) -> Function:
    args = resized(sample, shapes)
    return Function(spec.call, args, sample.params, differentiated(spec, args))


def is_affordable(spec: OpSpec, sample: Sample, growth: Growth) -> bool:
    """Whether the op takes such arguments, in a time and memory that they are worth.

    Calls at smaller sizes tell: an outer product, or a loop over steps, stops growing there.
    The thread's own time counts: what else the machine does is no reason to leave an op out.
    """
    size = max(np.size(x) for x in sample.args)
    while (size := _RUNG * size) < _LARGE:
        function = grown(spec, sample, growth.shapes_for(size))
        try:
            start = thread_time()
            ys = function.value(function.xs)
            if thread_time() - start > _LONGEST or sum(y.size for y in ys) > _MOST:
                return False
            start = thread_time()
            function.vjp(function.xs, ys)
        except Exception:
            return False  # sizes that the op refuses; a matrix of repeated rows, which is singular
        if thread_time() - start > _LONGEST:
            return False
    return True


def values(function: Function, rng: np.random.Generator) -> Iterator[Arrays]:
    """Arguments whose elements differ: repeated values moved a little, then at equal distances.

    Of the latter no two are near, as ops that sort need; but others may not be defined there.
    """
    xs = function.xs
    yield [x * (1 + _STEP * u) for x, u in zip(xs, normal(rng, xs), strict=True)]
    if all(x.dtype.kind == "f" for x in xs):
        order = [np.argsort(np.argsort(x, axis=None)).reshape(x.shape) for x in xs]
        yield [x.min() + np.ptp(x) * k / x.size for x, k in zip(xs, order, strict=True)]


def agrees(function: Function, xs: Arrays, rng: np.random.Generator, shapes: list[tuple]) -> bool:
    """Whether finite differences could tell, and say that the gradient at xs is right."""
    try:
        us, vs = random_pair(function, xs, rng)
        if not us or not vs:
            return False
        check_direction(function, xs, [_NEAR * u for u in us], vs, f"sizes {shapes}")
    except Inconclusive:
        return False
    except GradcheckError:
        raise
    except Exception:
        return False  # sizes and values that the op refuses, or that its parameters do not fit
    return True
