"""K18: broadcasting: the engine's, for elementwise ops, and the own broadcasting of other ops."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ..case import Context, differentiated, function_of, is_elementwise
from ..errors import DoesNotApply, GradcheckError
from ..function import Function
from ..numeric import normal
from ..spec import OpSpec, Sample
from .base import check
from .sizes import along_a_direction, as_reference_or_error, first_sample, resized, takes

BROADCASTS = (
    (), (1,), (3,), (0,), (1, 1), (1, 3), (2, 1), (2, 3), (4, 1, 1), (4, 2, 1), (4, 2, 3), (2, 0),
)  # fmt: skip
_BATCH = (2, 3)  # two axes in front, the second of them between others


@check(
    "K18",
    "broadcasting: all pairs of 12 shapes; axes of one of any op",
    per="op",
    gradient=False,
    optional=True,
)
def k18(spec: OpSpec, context: Context) -> int:
    """Values as the reference's, and the gradient equals that of the broadcast arguments, summed.

    The second is an oracle without finite differences: broadcasting first and summing the gradient
    afterwards is the definition of broadcasting. Further arguments are 0-d. Other ops get axes of
    length one, and axes that the other arguments lack, if they take them.
    """
    if not is_elementwise(spec):
        return axes_of_one(spec, context)
    sample = first_sample(spec, context)
    count = len(sample.args)
    if count < 2:
        raise DoesNotApply("no other argument to broadcast against")
    made = 0
    for a, b in product(BROADCASTS, repeat=2):
        args = resized(sample, [a, b, *[()] * (count - 2)])
        made += as_reference_or_error(spec, args, sample.params, f"shapes {a}, {b}")
        if compatible(a, b):
            made += summed_gradient(spec, context, args, sample.params, f"shapes {a}, {b}")
    return made


def compatible(a: tuple, b: tuple) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def summed_gradient(spec: OpSpec, context: Context, args: tuple, params: dict, what: str) -> int:
    positions = differentiated(spec, args)
    narrow = Function(spec.call, args, params, positions)
    shape = np.broadcast_shapes(*[np.shape(x) for x in args])
    wide = Function(spec.call, np.broadcast_arrays(*args), params, positions)
    ys = narrow.value(narrow.xs)
    if not ys or not positions:
        return 0
    vs = normal(context.rng(spec.name, what), ys)
    found, expected = narrow.vjp(narrow.xs, vs), wide.vjp(wide.xs, vs)
    for i, (g, full) in enumerate(zip(found, expected, strict=True)):
        total = summed_to(full, g.shape)
        terms = summed_to(np.abs(full), g.shape)
        if not (np.abs(g - total) <= 1e-13 * (1 + np.sqrt(np.prod(shape))) * terms).all():
            raise GradcheckError(
                f"{what}: the gradient of argument {i} is not the sum over the broadcast axes"
            )
    return len(found)


def summed_to(a: np.ndarray, shape: tuple) -> Any:
    """a summed over the axes along which `shape` was broadcast to a.shape."""
    extra = a.ndim - len(shape)
    axes = [i for i in range(a.ndim) if i < extra or shape[i - extra] != a.shape[i]]
    return a.sum(axis=tuple(axes), keepdims=True).reshape(shape)


def axes_of_one(spec: OpSpec, context: Context) -> int:
    """Gradients against finite differences wherever the op takes such arguments: matrices in
    batches, weights.

    On the first sample of each kind of shapes, at the full level on every sample.
    """
    count, seen = 0, set()
    for dtype in spec.dtypes[:1]:
        for sample in context.samples(spec, dtype):
            axes = tuple(np.ndim(x) for x in sample.args)
            if len(axes) < 2 or (axes in seen and not context.full):
                continue
            seen.add(axes)
            for what, args in variants(sample, differentiated(spec, sample.args)):
                count += taken(spec, context, args, sample, what)
    if not count:
        raise DoesNotApply("no other argument to broadcast against")
    return count


def taken(spec: OpSpec, context: Context, args: tuple, sample: Sample, what: str) -> int:
    """1 if the op takes these arguments; a fault is an error."""
    function = function_of(spec, args, sample.params)
    try:
        _, ys = function.record(function.xs)
    except Exception:
        return 0
    if not any(getattr(y, "requires_grad", False) for y in ys) or not takes(function):
        return 0
    along_a_direction(spec, context, args, sample.params, f"{sample.name}, {what}")
    return 1


def variants(sample: Sample, positions: list[int]) -> Iterator[tuple[str, tuple]]:
    """Each axis of each differentiated argument cut to length one, and such an argument with extra
    axes in front. Then all arguments with two axes in front, one of length one in such an
    argument."""
    arrays = [i for i, x in enumerate(sample.args) if isinstance(x, np.ndarray)]
    positions = [i for i in positions if i in arrays]
    for i in positions:
        x = sample.args[i]
        for axis in range(x.ndim):
            if x.shape[axis] > 1:
                what = f"argument {i} with one along axis {axis}"
                yield what, _with(sample.args, {i: _one(x, axis)})
        yield f"argument {i} in a batch", _with(sample.args, {i: _batch(x)})
        for k in positions:
            y = sample.args[k]
            if k != i and x.ndim > 1 and x.shape[0] > 1 and y.ndim and y.shape[-1] > 1:
                what = f"one along axis 0 of argument {i} and along the last of argument {k}"
                yield what, _with(sample.args, {i: _one(x, 0), k: _one(y, -1)})
    if len(arrays) > 1:
        batches = {i: _batch(sample.args[i]) for i in arrays}
        for i in positions:
            for axis in (0, 1):
                changed = {**batches, i: _one(batches[i], axis)}
                what = f"all in batches, argument {i} with one along axis {axis}"
                yield what, _with(sample.args, changed)


def _with(args: tuple, changed: dict[int, np.ndarray]) -> tuple:
    return tuple(changed.get(i, x) for i, x in enumerate(args))


def _one(x: np.ndarray, axis: int) -> np.ndarray:
    return x.take([0], axis)


def _batch(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, (*_BATCH, *x.shape)).copy()
