"""K26: an op with an axis is right along every axis, counted from either end."""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np

from ..case import Context, function_of, primitive_of
from ..errors import DoesNotApply, GradcheckError
from ..spec import OpSpec, Sample
from .base import check
from .batch import under_vmap
from .sizes import along_a_direction, as_reference_or_error, resized, takes

_NAMES = ("axis", "axes", "dim", "dims")
_KINDS = (None, (), (1,), (2, -3), (1, -1, 0))  # ways of naming axes, for three axes
_SHAPE = (2, 3, 4)  # a first, a middle and a last axis, of different lengths


@check("K26", "every axis, counted from either end: values and gradient, under vmap too", per="op",
       gradient=False, optional=True)  # fmt: skip
def k26(spec: OpSpec, context: Context) -> int:
    """Values against the reference, gradients against finite differences, errors where it raises
    errors.

    The check uses one sample with an integer and one with a tuple, at the full level every sample;
    other parameters stay. If all arrays have one shape, all get three axes as well, otherwise the
    first one does. A batch of these gives the results of its examples, one at a time.
    """
    count = 0
    for name, sample, first in with_axes(spec, context):
        for args in (sample.args, *_of_three_axes(sample)):
            for axis in other_axes(sample.params[name], max(np.ndim(x) for x in args)):
                params = {**sample.params, name: axis}
                what = f"{name}={axis} for {[np.shape(x) for x in args]}"
                count += as_reference_or_error(spec, args, params, what)
                along_a_direction(spec, context, args, params, what)
                if first and args is not sample.args:
                    in_a_batch(spec, context, args, params, what)
            if (first or context.full) and args is not sample.args:
                count += other_kinds(spec, context, args, sample.params, name)
    if not count:
        raise DoesNotApply("no sample gives an axis, or there is no reference")
    return count


def in_a_batch(spec: OpSpec, context: Context, args: tuple, params: dict, what: str) -> None:
    """Under vmap the axis counts the axes of an example: in the batch it has another number."""
    function = function_of(spec, args, params)
    if not function.xs or not takes(function):
        return
    try:
        under_vmap(function, [function.positions], context.rng(spec.name, what))
    except DoesNotApply:
        return
    except GradcheckError as error:
        raise GradcheckError(f"{what}: {error}") from error


def other_kinds(spec: OpSpec, context: Context, args: tuple, params: dict, name: str) -> int:
    """How many further ways of naming axes had their gradients compared, if the op takes them.
    These are all, none, one in a tuple, several out of order, and the other keepdims."""
    axes = [params[name], *[axis for axis in _KINDS if axis != params[name]]]
    choices = [{**params, name: axis} for axis in axes[1:]]
    primitive = primitive_of(spec)
    if "keepdims" in params or (primitive is not None and "keepdims" in primitive.defaults):
        kept = not params.get("keepdims", False)
        choices += [{**params, name: axis, "keepdims": kept} for axis in axes]
    # some ops, which only other ops call, do not check axes that they never get
    samples = context.samples(spec, spec.dtypes[0])
    known = {type(s.params[name]) for s in samples if name in s.params}
    if primitive is not None and name in primitive.defaults:
        known.add(type(primitive.defaults[name]))
    count = 0
    for chosen in choices:
        what = ", ".join(f"{key}={chosen[key]}" for key in (name, "keepdims") if key in chosen)
        what = f"{what} for {[np.shape(x) for x in args]}"
        function = function_of(spec, args, chosen)
        if function.value_or_refusal(function.xs) is None:
            continue
        if not takes(function):
            if type(chosen[name]) in known:
                require_refusal(spec, args, chosen, what)
            continue
        along_a_direction(spec, context, args, chosen, what)
        count += 1
    return count


def require_refusal(spec: OpSpec, args: tuple, params: dict, what: str) -> None:
    """The op's rule must accept the axes that both the reference and the op accept."""
    if spec.reference is None:
        return
    try:
        spec.reference(*args, **params)
    except Exception:
        return
    raise GradcheckError(
        f"{what}: the op and the reference accept this; the op's backward does not"
    )


def with_axes(spec: OpSpec, context: Context) -> Iterator[tuple[str, Sample, bool]]:
    """(parameter, sample, whether it is the first of its kind of axis); at the full level all."""
    seen = set()
    for dtype in spec.dtypes[:1]:
        for sample in context.samples(spec, dtype):
            for name in _NAMES:
                kind = name, _length(sample.params.get(name))
                if kind[1] is not None and (context.full or kind not in seen):
                    yield name, sample, kind not in seen
                    seen.add(kind)


def _length(axis: Any) -> int | None:
    """The number of named axes: 0 for an integer, None if it names no axis."""
    if isinstance(axis, int) and not isinstance(axis, bool):
        return 0
    if isinstance(axis, tuple) and axis and all(isinstance(k, int) for k in axis):
        return len(axis)
    return None


def _of_three_axes(sample: Sample) -> list[tuple]:
    """All arguments with three axes if their shapes are equal, else the first argument alone."""
    shapes = [np.shape(x) for x in sample.args]
    if 0 in shapes[0]:
        return []
    alike = len({x.shape for x in sample.args if isinstance(x, np.ndarray)}) == 1
    return [resized(sample, [_SHAPE] * len(shapes) if alike else [_SHAPE, *shapes[1:]])]


def other_axes(axis: int | tuple, ndim: int) -> Iterator[int | tuple]:
    """Every axis of ndim, or every ordered choice of as many; every second one counts from the
    end."""
    if isinstance(axis, int):
        yield from range(-ndim, ndim)
        return
    for i, chosen in enumerate(permutations(range(ndim), len(axis))):
        yield tuple(k - ndim if (i + place) % 2 else k for place, k in enumerate(chosen))
