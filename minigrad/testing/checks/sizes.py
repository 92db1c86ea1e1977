"""K17: every size of argument."""

import inspect
from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from ...tensor_api.tensor import Tensor
from ..case import Context, function_of, is_elementwise, primitive_of
from ..compare import check_direction, random_pair
from ..errors import DoesNotApply, GradcheckError, Inconclusive
from ..function import Function, Pullback, as_array, as_tensors, pulled_back, results
from ..numeric import normal, repeated
from ..spec import OpSpec, Sample
from .base import check
from .pushed import require_modes_agree

_MORE = 3  # further elements in the vector that an array is compared with
_STEP = 0.01  # the move of a value, as a share of it
_FOUR_AXES = (2, 1, 2, 3)
_FIVE_AXES = (2, 1, 2, 2, 3)
SIZES = ((), (0,), (1,), (1, 1), (2, 0, 3), (3,), (2, 1, 3))
# for one argument, or for all at once
_FURTHER = ((7,), (8,), (16,), (64,), (1, 3), (3, 1), (3, 3), (2, 3, 1), (2, 130))


@check("K17", "size matrix: 0-d, empty, one element, three axes, four; arguments left out",
       per="op", gradient=False, optional=True)  # fmt: skip
def k17(spec: OpSpec, context: Context) -> int:
    """The same exceptions as the reference; its shape and values; gradients of the inputs' shapes.

    Values come from a sample, repeated to the size: so they lie in the op's domain. An elementwise
    op gets every combination of sizes. Other ops get one size for all arguments, and each
    argument's size changed alone. Both get four axes, and five, for all. Each optional argument is
    left out alone, and an op of any number of arguments gets one, and five. There finite
    differences check the gradients.
    """
    sample = first_sample(spec, context)
    count = 0
    for shapes in shapes_of(spec, sample, context):
        args = resized(sample, shapes)
        count += as_reference_or_error(spec, args, sample.params, f"sizes {shapes}")
        count += gradient_shapes(spec, context, args, sample.params, f"sizes {shapes}")
    count += left_out(spec, context) + other_counts(spec, context, sample)
    if not count:
        raise DoesNotApply("no size of argument is accepted")
    return count


def first_sample(spec: OpSpec, context: Context) -> Sample:
    """A sample with elements to draw values from."""
    for dtype in spec.dtypes[:1]:
        for sample in context.samples(spec, dtype):
            arrays = [x for x in sample.args if isinstance(x, np.ndarray)]
            if arrays and all(x.size for x in arrays):
                return sample
    raise DoesNotApply("no sample whose arguments are arrays with elements")


def shapes_of(spec: OpSpec, sample: Sample, context: Context) -> Iterator[tuple]:
    shapes = [np.shape(x) for x in sample.args]
    if is_elementwise(spec) and len(shapes) <= 2:
        yield from product(SIZES, repeat=len(shapes))
        yield from [(size,) for size in _FURTHER] if len(shapes) == 1 else ()
        yield (_FOUR_AXES,) * len(shapes)
        yield (_FIVE_AXES,) * len(shapes)
        return
    yield (_FOUR_AXES,) * len(shapes)
    yield (_FIVE_AXES,) * len(shapes)
    for size in (*SIZES, *_FURTHER):
        yield (size,) * len(shapes)
        if len(shapes) > 1 and size in SIZES:
            for i in range(len(shapes)):
                yield (*shapes[:i], size, *shapes[i + 1 :])


def left_out(spec: OpSpec, context: Context) -> int:
    """For how many optional arguments the gradients of the others were compared without it.

    Each alone, in the first sample that gives it.
    """
    count, waiting = 0, set(optional_arguments(spec))
    for dtype in spec.dtypes[:1]:
        for sample in context.samples(spec, dtype) if waiting else ():
            for i in [i for i in waiting if i < len(sample.args) and sample.args[i] is not None]:
                waiting.remove(i)
                args = (*sample.args[:i], None, *sample.args[i + 1 :])
                try:
                    spec.call(*as_tensors(args), **sample.params)
                except Exception:
                    continue  # another argument needs it
                what = f"{sample.name} without argument {i}"
                along_a_direction(spec, context, args, sample.params, what)
                count += 1
    return count


def other_counts(spec: OpSpec, context: Context, sample: Sample) -> int:
    """For an op of any number of arguments, how many other numbers had their gradients compared:
    one, and five, if it takes these."""
    primitive, given = primitive_of(spec), len(sample.args)
    count = 0
    for n in (1, 5) if primitive is not None and primitive.variadic else ():
        args = tuple([sample.args[i % given] for i in range(n)])
        if n != given and takes(Function(spec.call, args, sample.params)):
            along_a_direction(spec, context, args, sample.params, f"{n} arguments")
            count += 1
    return count


def optional_arguments(spec: OpSpec) -> list[int]:
    """Positions of arguments that may be None: a primitive names them, others have None as the
    default."""
    primitive = primitive_of(spec)
    if primitive is not None:
        named = () if primitive.variadic else primitive.arrays
        return [i for i, name in enumerate(named) if name in primitive.optional]
    try:
        parameters = inspect.signature(spec.call).parameters.values()
    except (TypeError, ValueError):
        return []
    given = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [i for i, p in enumerate(given) if p.default is None]


def resized(sample: Sample, shapes: Iterable[tuple]) -> tuple:
    """The sample's arguments in other sizes: their values repeated or cut."""
    return tuple(
        repeated(x, shape) if isinstance(x, np.ndarray) else x
        for x, shape in zip(sample.args, shapes, strict=True)
    )


def as_reference_or_error(spec: OpSpec, args: tuple, params: dict, what: str) -> int:
    """If the reference raises, the op raises; else shapes and values are equal to rounding."""
    if spec.reference is None:
        return 0
    try:
        expected = [np.asarray(y) for y in results(spec.reference(*args, **params))]
    except Exception as error:
        try:
            spec.call(*as_tensors(args), **params)
        except Exception:
            return 1
        raise GradcheckError(f"{what}: the reference raises {error!r}, the op does not") from error
    try:
        found = [as_array(y) for y in results(spec.call(*as_tensors(args), **params))]
    except Exception as error:
        raise GradcheckError(f"{what}: the op raises {error!r}, the reference does not") from error
    for y, exact in zip(found, expected, strict=True):
        if y.shape != exact.shape:
            raise GradcheckError(f"{what}: shape {y.shape}, expected {exact.shape}")
        scale = np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact))
        if not np.allclose(y, exact, rtol=1e-12, atol=1e-12 * scale, equal_nan=True):
            raise GradcheckError(f"{what}: the values differ from the reference's")
    return len(found)


def gradient_shapes(spec: OpSpec, context: Context, args: tuple, params: dict, what: str) -> int:
    """Every gradient is right, has its argument's shape, and nothing crashes."""
    function = function_of(spec, args, params)
    try:
        leaves, ys = function.record(function.xs)
    except Exception:
        return 0  # sizes that the op refuses
    if not leaves or not any(isinstance(y, Tensor) and y.requires_grad for y in ys):
        return 0
    try:
        gs = function.vjp(function.xs, [np.ones_like(y.data) for y in ys])
    except Exception as error:
        raise GradcheckError(f"{what}: the backward raises {error!r}") from error
    with_a_graph(function, normal(context.rng(spec.name, what), [y.data for y in ys]), what)
    if not is_elementwise(spec):
        along_a_direction(spec, context, args, params, what)
    elif len({np.shape(x) for x in args}) == 1:
        as_vectors(spec, args, params, gs, what)
        us = [np.ones_like(x) for x in function.xs]
        vs = [np.ones_like(y.data) for y in ys]
        require_modes_agree(spec, function, function.xs, us, vs, what)
    return len(leaves)


def with_a_graph(function: Function, vs: list, what: str) -> None:
    """The gradient with create_graph is the same at this size, and has a gradient itself."""
    xs, gs = function.xs, function.vjp(function.xs, vs)
    try:
        leaves, found = Pullback(function).record([*xs, *vs])
        pulled_back(leaves, found, [np.ones_like(g) for g in gs])
    except GradcheckError:
        raise
    except Exception as error:
        raise GradcheckError(f"{what}: the backward of the backward raises {error!r}") from error
    for i, (g, recorded) in enumerate(zip(gs, found, strict=True)):
        scale = np.max(np.abs(g), initial=0.0, where=np.isfinite(g))
        if not np.allclose(recorded.data, g, rtol=1e-12, atol=1e-12 * scale, equal_nan=True):
            raise GradcheckError(
                f"{what}: the gradient of argument {i} is another with create_graph=True"
            )


def takes(function: Function) -> bool:
    """Whether the op and its rules take arguments that no sample has.

    Sizes that do not fit, or an axis of another kind, may pass a forward that only other ops call.
    Its rule may then refuse them.
    """
    try:
        function.vjp(function.xs, function.value(function.xs))
    except Exception:
        return False
    return True


def along_a_direction(spec: OpSpec, context: Context, args: tuple, params: dict, what: str) -> None:
    """The gradient at this size against finite differences, if these are conclusive.

    Each value is moved a little: a repeated sample would be full of ties.
    """
    function = function_of(spec, args, params)
    rng = context.rng(spec.name, what)
    xs = [x * (1 + _STEP * u) for x, u in zip(function.xs, normal(rng, function.xs), strict=True)]
    if function.value_or_refusal(xs) is None:
        return
    try:
        us, vs = random_pair(function, xs, rng)
        check_direction(function, xs, us, vs, what)
    except (Inconclusive, np.linalg.LinAlgError):
        return
    require_modes_agree(spec, function, xs, us, vs, what)


def as_vectors(spec: OpSpec, args: tuple, params: dict, gs: list, what: str) -> None:
    """The gradients of a row of the table, whose elements depend neither on their shape nor on
    their number. Each must equal its gradient in a longer vector."""
    longer = [repeated(x, x.size + _MORE) for x in args]
    flat = function_of(spec, longer, params)
    vs = [np.ones_like(y) for y in flat.value(flat.xs)]
    pairs = zip(flat.positions, gs, flat.vjp(flat.xs, vs), strict=True)
    for position, g, expected in pairs:
        if not np.allclose(g.reshape(-1), expected[: g.size], rtol=1e-14, atol=0, equal_nan=True):
            raise GradcheckError(
                f"{what}: the gradient of argument {position} is not what it is in a vector of "
                f"{_MORE} elements more"
            )
