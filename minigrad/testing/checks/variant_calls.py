"""Calls on which K34 compares an op's variants with its reference: large, and in other layouts.

A variant is called from `least` elements on. So the samples are grown beyond that: elements repeat,
moved a little; an op that is not elementwise grows along an axis of variable length.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np

from ..case import DOUBLE, Context, is_elementwise
from ..function import is_smooth_array, replaced
from ..layouts import layouts, repeated
from ..numeric import repeated as repeats
from ..spec import OpSpec, Sample
from .grown import Growth, grown, growths, large_samples
from .sizes import takes

_FEW = 1 << 12  # elements of a call if the variant takes any number
_COLUMNS = 37  # of a large elementwise call: more than a vector of a loop, and no round number
_SPLIT = (1 << 21) + 9  # elements: more than several threads' blocks (backends/blocks.py)
_FACTORS = (1.0, 0.3, 2.5, -1.0)  # factors of a sample's repeated values
_DRAWN = 10_007  # random factors, which repeat too
_STEP = 0.01  # the spread of repeated values, as a share of them
_SAMPLES = 3
_RUNG, _MOST, _LONGEST = 4, 1 << 18, 0.1  # for a sample as it grows: see grown.py
_ENDS = (np.inf, -np.inf, np.nan, 0.0, -0.0)


@dataclass(frozen=True)
class Call:
    """One call of the op: its special feature, its arguments, and the order of its comparison.

    differentiate   to second order; else the results and residuals alone
    """

    what: str
    args: tuple
    params: dict[str, Any]
    differentiate: bool = False


def calls_of(
    spec: OpSpec, context: Context, least: int, taken: Callable[[], int]
) -> Iterator[Call]:
    """Calls with `least` elements or more in one of their arrays, the plainest first.

    taken   how many calls the variant has computed. After two refused layouts a call gets no others
    """
    for dtype in spec.dtypes:
        for sample in _different(spec, context, dtype):
            if max([np.size(x) for x in sample.args], default=0) >= least:
                yield Call(f"{dtype}, {sample.name}", sample.args, sample.params, dtype in DOUBLE)
    yield from (_elements if is_elementwise(spec) else _grown)(spec, context, least, taken)
    yield from large_calls(spec, context)


def large_calls(spec: OpSpec, context: Context) -> Iterator[Call]:
    """The large samples, as they are and as a batch with adjacent channels in memory."""
    for sample in large_samples(spec, context):
        yield Call(sample.name, sample.args, sample.params, True)
        laid = tuple([_channels_last(x) for x in sample.args])
        if any(x is not y for x, y in zip(laid, sample.args, strict=True)):
            yield Call(f"{sample.name}, channels side by side", laid, sample.params)


def _channels_last(x: Any) -> Any:
    """x (N, C, *size), in memory (*size, N, C)."""
    if not isinstance(x, np.ndarray) or x.ndim < 3:
        return x
    return np.moveaxis(np.moveaxis(x, (0, 1), (-2, -1)).copy(), (-2, -1), (0, 1))


def _different(spec: OpSpec, context: Context, dtype: str) -> list[Sample]:
    """The samples to use. The fast level takes the largest one of each set of parameters and of
    numbers instead of arrays. If arrays keep their axes as they grow, it takes one of each number
    of axes. An empty sample is added, if there is one."""
    try:
        samples = context.samples(spec, dtype)
    except Exception:  # a dtype of a missing package
        return []
    if context.full:
        return samples

    def kind(sample: Sample) -> str:
        axes = [] if is_elementwise(spec) else [np.ndim(x) for x in sample.args]
        arrays = [isinstance(x, np.ndarray) for x in sample.args]
        return repr((sample.params, axes, arrays, all(map(np.size, sample.args))))

    by_size = sorted(samples, key=lambda sample: sum(np.size(x) for x in sample.args))
    return [*{kind(sample): sample for sample in by_size}.values()]


# -- elementwise ops: any number of elements -------------------------------------------------------


def _elements(
    spec: OpSpec, context: Context, least: int, taken: Callable[[], int]
) -> Iterator[Call]:
    shape = (max(least, _FEW) // _COLUMNS + 1, _COLUMNS)
    first = spec.dtypes[0]
    for dtype in spec.dtypes:
        for sample in _different(spec, context, dtype):
            rng = context.rng(spec.name, "K34", dtype, sample.name)
            args, before = tuple([_spread(x, shape, rng) for x in sample.args]), taken()
            if not any(np.size(x) >= least for x in args):
                continue
            params, known = sample.params, f"{dtype}, {shape[0]:,} × {shape[1]} elements"
            ends = tuple([_with_ends(x, i) for i, x in enumerate(args)])
            if "K12" not in spec.skips:
                yield Call(f"{known}, among them NaN and infinities", ends, params)
            if taken() == before:
                yield _in_fortran_order(known, args, params)
            if taken() == before or not (dtype == first or context.full):
                continue
            yield Call(known, args, params, dtype in DOUBLE)
            yield _in_fortran_order(known, args, params)
            others = [*_laid(args)][:: 1 if context.full else 2]
            for what, laid in (*others, *_broadcast(args)):
                yield Call(f"{known}, {what}", laid, params)
            if 2 * least < _SPLIT:
                args = tuple([_spread(x, (_SPLIT,), rng) for x in sample.args])
                yield Call(f"{dtype}, {_SPLIT:,} elements", args, params)


def _spread(x: Any, shape: tuple, rng: np.random.Generator) -> Any:
    """The values of x repeated, and unless they are whole numbers, near multiples of them."""
    if not isinstance(x, np.ndarray) or not x.ndim or not x.size:
        return x
    y = repeats(x, shape)
    if not is_smooth_array(x):
        return y
    factors = np.resize(np.repeat(_FACTORS, 7), _DRAWN) * (1 + _STEP * rng.standard_normal(_DRAWN))
    return (y * repeats(factors, shape)).astype(x.dtype)


def _with_ends(x: Any, i: int) -> Any:
    """Infinities, NaN and zeros first and last: in each argument i at another period, so each meets
    each."""
    if not is_smooth_array(x) or not np.ndim(x):
        return x
    changed, ends = x.copy(), np.repeat(_ENDS, len(_ENDS) ** min(i, 2))
    flat = changed.reshape(-1)
    count = min(len(_ENDS) ** 3, flat.size)
    flat[:count] = flat[-count:] = np.resize(ends, count)
    return changed


def _in_fortran_order(known: str, args: tuple, params: dict) -> Call:
    laid = [np.asfortranarray(x) if isinstance(x, np.ndarray) else x for x in args]
    return Call(f"{known}, all in Fortran order", tuple(laid), params)


def _laid(args: tuple) -> Iterator[tuple[str, tuple]]:
    """Each array in each other layout."""
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray) and x.ndim:
            for what, other in (*layouts(x), *repeated(x)):
                yield f"argument {i} {what}", replaced(args, i, other)


def _broadcast(args: tuple) -> Iterator[tuple[str, tuple]]:
    """Each array of several as a row, a column and an empty one among the others; a single one
    empty.

    A variant gets an empty array if another array is large, or if it takes any size.
    """
    large = [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.ndim]
    for i in large:
        x = args[i]
        if len(large) > 1:
            yield f"argument {i} a row", replaced(args, i, x[:1].copy())
            yield f"argument {i} a column", replaced(args, i, x[:, :1].copy())
            yield f"argument {i} empty", replaced(args, i, x[None, :1, :1][:0])
        else:
            yield "empty", replaced(args, i, x[:0])


# -- other ops: as far as they can grow ------------------------------------------------------------


def _grown(spec: OpSpec, context: Context, least: int, taken: Callable[[], int]) -> Iterator[Call]:
    """At the fast level three samples of each dtype, the first of them in other layouts."""
    elements = max(least, _FEW)
    for dtype in spec.dtypes:
        used = 0
        for sample in _different(spec, context, dtype):
            for growth in _growths(spec, sample) if context.full or used < _SAMPLES else ():
                if not _grows(spec, sample, growth, elements):
                    continue
                shapes, before = growth.shapes_for(elements), taken()
                rng = context.rng(spec.name, "K34", dtype, shapes)
                args = tuple([_apart(x, rng) for x in grown(spec, sample, shapes).args])
                known, params = f"{dtype}, {sample.name}, sizes {shapes}", sample.params
                yield Call(known, args, params, dtype in DOUBLE)
                if taken() == before or not used:
                    yield _in_fortran_order(known, args, params)
                if taken() == before:
                    continue
                if context.full or not used:
                    ends = () if "K12" in spec.skips else _with_one_end(args)
                    for what, other in (*_laid(args), *ends):
                        yield Call(f"{known}, {what}", other, params)
                used += 1
                break


def _growths(spec: OpSpec, sample: Sample) -> Iterator[Growth]:
    """The ways in which a sample may grow; an op that takes steps grows only in their rows."""
    if not spec.steps:
        yield from growths(sample)
        return
    shapes = [np.shape(x) for x in sample.args]
    if len(shapes[0]) > 2 and all(map(np.size, sample.args)):
        yield Growth(shapes, shapes[0][-2], -2)


def _grows(spec: OpSpec, sample: Sample, growth: Growth, elements: int) -> bool:
    """Whether the op takes the sample so grown, within reasonable time and memory. Its rules must
    take it too: sizes that do not fit may pass a forward that only other ops call."""
    size = _RUNG * max(np.size(x) for x in sample.args)
    if not takes(grown(spec, sample, growth.shapes_for(size))):
        return False
    while (size := _RUNG * size) < elements:
        function = grown(spec, sample, growth.shapes_for(size))
        start = thread_time()
        ys = function.value_or_refusal(function.xs)
        if ys is None or thread_time() - start > _LONGEST or sum(y.size for y in ys) > _MOST:
            return False
    return True


def _apart(x: Any, rng: np.random.Generator) -> Any:
    if not is_smooth_array(x):
        return x
    return np.asarray(x * (1 + _STEP * rng.standard_normal(x.shape))).astype(x.dtype)


def _with_one_end(args: tuple) -> Iterator[tuple[str, tuple]]:
    """NaN, and each infinity, once in the middle of each floating argument."""
    for i, x in enumerate(args):
        for end in _ENDS[:3] if is_smooth_array(x) and x.size else ():
            changed = x.copy()
            changed.reshape(-1)[x.size // 2] = end
            yield f"{end} in argument {i}", replaced(args, i, changed)
