"""K23: vmap of an op gives the same as the op on one example at a time, in value and gradient."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import TransformError
from ...tensor_api.tensor import Tensor
from ..case import Case, is_differentiable_op, primitive_of
from ..errors import DoesNotApply
from ..function import Arrays, Function, as_array, floating_results, is_smooth_array
from ..numeric import normal
from .base import check
from .nearness import agree
from .nested import under_two
from .sizes import takes

_EXAMPLES = 3
_LONGEST = 6  # the longest first axis for which as many examples are made
_TIMES = 11  # how often they repeat in turn for a long batch
_SINGLE = {"float64": "float32", "complex128": "complex64"}
_STEP = 0.01  # the distance of each example from the one before: inside the same domain


@check("K23", "under vmap: one example at a time, value and gradient", gradient=False,
       optional=True)  # fmt: skip
def k23(case: Case) -> int:
    """Three examples with all arguments batched, and with each one alone, including indices.

    Single precision also takes many examples: batch rules may work in blocks or depend on the
    dtype. At the fast level every sample has all its differentiated arguments batched. The rest
    runs on the first sample of each kind, and two transforms at once on the first sample. For ops
    without a derivative the values are compared, with all arguments batched and with each one
    alone.
    """
    entry = primitive_of(case.spec)
    if "generator" in case.sample.params or (entry is not None and "generator" in entry.defaults):
        raise DoesNotApply("random numbers, for which vmap has its own policies")
    if not is_differentiable_op(case.spec, case.context):
        return values_under_vmap(case)
    function, rng = case.function(), case.rng("K23")
    if not function.xs or not function.value(function.xs):
        raise DoesNotApply("a sample without a differentiable argument and result")
    count = under_vmap(function, choices(case, function), rng)
    if case.context.full or case.is_first_of_its_kind:
        count += many_under_vmap(case, function)
    if case.sample is next(iter(case.context.samples(case.spec, case.dtype))):
        vs, us = normal(rng, function.value(function.xs)), normal(rng, function.xs)
        along = dict(zip(function.positions, us, strict=True))
        examples = [_example(function, function.positions, along, k) for k in range(2)]
        count += under_two(examples, vs, us)
        count += as_many_as_the_axis(function, us, rng) + numbers_under_vmap(function, rng)
    return count


def values_under_vmap(case: Case) -> int:
    """For how many choices of batched arguments the values were compared: argsort and similar ops
    have no gradient, but batch rules like any other op."""
    args = case.sample.args
    arrays = tuple(i for i, x in enumerate(args) if isinstance(x, np.ndarray))
    count, refusal = 0, DoesNotApply("no array to batch")
    for batched in dict.fromkeys((arrays, *[(i,) for i in arrays])) if arrays else ():
        examples = [
            [np.roll(x, k) if i in batched else x for i, x in enumerate(args)]
            for k in range(_EXAMPLES)
        ]
        try:
            _values_as_one_by_one(case, examples, batched)
            count += 1
        except DoesNotApply as reason:
            refusal = reason
    if not count:
        raise refusal
    return count


def _values_as_one_by_one(case: Case, examples: list[list], batched: tuple[int, ...]) -> None:
    """Values and shapes of the batch against those of its examples."""
    from ... import func

    try:
        expected = [[as_array(y) for y in case.call(*args)] for args in examples]
    except Exception as error:
        raise DoesNotApply(f"another example is outside the op's domain ({error})") from error
    if any(len({ys[i].shape for ys in expected}) > 1 for i in range(len(expected[0]))):
        raise DoesNotApply("the shape of the result depends on values")

    def call(*xs: Any) -> tuple:
        args = list(examples[0])
        for place, x in zip(batched, xs, strict=True):
            args[place] = x
        return tuple(case.call(*args))

    given = [Tensor(np.stack([args[i] for args in examples])) for i in batched]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", func.VmapWarning)
        try:
            found = [as_array(y) for y in func.vmap(call)(*given)]
        except (TransformError, ValueError) as error:
            if isinstance(error, ValueError) and "under vmap" not in str(error):
                raise
            raise DoesNotApply(f"vmap refuses it: {error}") from error
    for k, ys in enumerate(expected):
        for i, y in enumerate(ys):
            what = f"under vmap result {i} of example {k} with arguments {[*batched]} batched"
            agree(found[i][k], y, what)


def numbers_under_vmap(function: Function, rng: np.random.Generator) -> int:
    """How many comparisons (1 or 0) of 0-d examples, if the op takes them: the examples' axis is
    then the only one."""
    args = [x.reshape(-1)[0] if isinstance(x, np.ndarray) and x.size else x for x in function.args]
    args = [np.asarray(x) if isinstance(x, np.generic) else x for x in args]
    of_numbers = Function(function.fn, args, function.params, function.positions, function.names)
    ys = of_numbers.value_or_refusal(of_numbers.xs)
    if not ys or not takes(of_numbers):
        return 0
    try:
        return under_vmap(of_numbers, [function.positions], rng)
    except DoesNotApply:
        return 0


def as_many_as_the_axis(function: Function, us: Arrays, rng: np.random.Generator) -> int:
    """How many comparisons (1 or 0) with as many examples as the first axis is long. With equal
    lengths, a rule that confuses the two axes raises no error."""
    lengths = [x.shape[0] for x in function.xs if x.ndim]
    if not lengths or not 1 < lengths[0] <= _LONGEST or lengths[0] == _EXAMPLES:
        return 0
    along = dict(zip(function.positions, us, strict=True))
    examples = [_example(function, function.positions, along, k) for k in range(lengths[0])]
    vs = [normal(rng, function.value(function.xs)) for _ in examples]
    try:
        _as_one_by_one(examples, function.positions, vs)
    except DoesNotApply:
        return 0
    return 1


def under_vmap(
    function: Function, batched_ones: Iterable[tuple[int, ...]], rng: np.random.Generator
) -> int:
    """For how many choices of batched arguments the batch was compared with its examples."""
    vs = normal(rng, function.value(function.xs))
    us = dict(zip(function.positions, normal(rng, function.xs), strict=True))
    count, refusal = 0, None
    for batched in batched_ones:
        several = len(batched) > 1 or batched == function.positions
        examples = [_example(function, batched, us, k) for k in range(_EXAMPLES if several else 2)]
        # with one argument alone all examples share a cotangent, else each has its own
        cotangents = [[v * (1 + k) for v in vs] for k in range(len(examples) if several else 1)]
        try:
            _as_one_by_one(examples, batched, cotangents)
            count += 1
        except DoesNotApply as reason:
            refusal = refusal or reason
    if refusal and not count:
        raise refusal
    return count


def many_under_vmap(case: Case, function: Function) -> int:
    """How many comparisons (1, or 0 if vmap refuses) of 33 examples, three in turn.

    In single precision if the op takes that: batch rules may depend on the dtype, or work in
    blocks.
    """
    dtype = _SINGLE[case.dtype]
    args = [_in_dtype(x, dtype) if dtype in case.spec.dtypes else x for x in function.args]
    few = Function(function.fn, args, function.params, function.positions, function.names)
    rng = case.rng("K23", "many")
    vs = normal(rng, few.value(few.xs))
    us = dict(zip(few.positions, normal(rng, few.xs), strict=True))
    examples = [_example(few, few.positions, us, k) for k in range(_EXAMPLES)]
    cotangents = [[v * (1 + k) for v in vs] for k in range(_EXAMPLES)]
    try:
        _as_one_by_one(examples, few.positions, cotangents, _TIMES)
    except DoesNotApply:
        return 0
    return 1


def _in_dtype(x: Any, dtype: str) -> Any:
    """x in this dtype if it is of that kind: complex arguments may come with real ones."""
    return x.astype(dtype) if is_smooth_array(x) and x.dtype.kind == np.dtype(dtype).kind else x


def choices(case: Case, function: Function) -> Iterator[tuple[int, ...]]:
    """Which arguments are batched: the differentiated ones; all; each alone."""
    yield function.positions
    arrays = tuple(i for i, x in enumerate(function.args) if isinstance(x, np.ndarray))
    if case.context.full or case.is_first_of_its_kind:
        if arrays != function.positions:
            yield arrays
        if len(arrays) > 1:
            yield from [(i,) for i in arrays if (i,) != function.positions]


def _example(function: Function, batched: Sequence[int], us: dict, k: int) -> Function:
    """The function at the k-th example: numbers a little off, indices and masks rolled."""
    args = list(function.args)
    for i in batched:
        if i in us:
            args[i] = args[i] + k * _STEP * us[i]
        elif not is_smooth_array(args[i]):
            args[i] = np.roll(args[i], k)
    return Function(function.fn, args, function.params, function.positions, function.names)


def _as_one_by_one(
    examples: list[Function], batched: tuple[int, ...], vs: list[Arrays], times: int = 1
) -> None:
    """Value and gradient of the batch, of the examples repeated in turn, against those of its
    examples; for one cotangent or many."""
    n = len(examples)
    try:
        results = [f.value(f.xs) for f in examples]
    except Exception as error:
        raise DoesNotApply(f"another example is outside the op's domain ({error})") from error
    if any(y.shape != v.shape for ys in results for y, v in zip(ys, vs[0])):
        raise DoesNotApply("the shape of the result depends on values")
    pairs = zip(examples, vs * n if len(vs) == 1 else vs, strict=True)
    expected = [(ys, f.vjp(f.xs, v)) for ys, (f, v) in zip(results, pairs, strict=True)]
    axis = (
        0 if times == 1 else -1
    )  # a batch rule sees it in front, and another memory order behind it
    values, gradients, alone = _under_vmap(examples * times, batched, vs * times, axis)
    function, what = examples[0], f"with arguments {[*batched]} batched"
    for k, (ys, gs) in enumerate(expected):
        for i, y in enumerate(ys):
            for found in (values, alone):
                agree(found[i][k], y, f"under vmap result {i} of example {k} {what}")
        for i, g in enumerate(gs):
            name = function.names[function.positions[i]]
            agree(gradients[i][k], g, f"under vmap the gradient of {name}, example {k}, {what}")
    for found in (*values, *alone, *gradients) if times > 1 else ():
        turns = np.concatenate([found[:n]] * (times - 1))
        agree(found[n:], turns, f"under vmap, of {times * n} examples, one from the {n + 1}th on")


def _under_vmap(
    examples: list[Function], batched: tuple[int, ...], vs: list[Arrays], axis: int
) -> list[Arrays]:
    """The values and gradients, and the values of a call without a gradient. `axis` is the axis of
    the examples in the arguments."""
    from ... import func

    function = examples[0]
    places = (*dict.fromkeys((*function.positions, *batched)),)
    given = [
        np.stack([f.args[i] for f in examples], axis) if i in batched else function.args[i]
        for i in places
    ]
    in_dims = [axis if i in batched else None for i in places]
    given += vs[0] if len(vs) == 1 else [np.stack(v, axis) for v in zip(*vs, strict=True)]
    n, in_dims = len(places), (*in_dims, *[None if len(vs) == 1 else axis] * len(vs[0]))

    def call(arrays: Sequence[Any]) -> tuple:
        args = list(function.args)
        for place, x in zip(places, arrays, strict=True):
            args[place] = x
        return tuple(floating_results(function.fn(*args, **function.params)))

    def both(*arrays: Any) -> tuple:
        # `places` begins with the differentiated arguments
        count, others = len(function.positions), arrays[len(function.positions) : n]
        ys, vjp_fn = func.vjp(lambda *ts: call((*ts, *others)), *arrays[:count])
        return ys, vjp_fn(arrays[n:])

    tensors = [Tensor(x) for x in given]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", func.VmapWarning)
        try:  # the vmap method of a Function runs if no gradient is taken inside
            alone = func.vmap(lambda *xs: call(xs), in_dims=in_dims[:n])(*tensors[:n])
        except TransformError as error:
            raise DoesNotApply(f"vmap refuses it: {error}") from error
        # a rule that vmap refuses (one with an `if` on its values) is a wrong rule
        ys, gs = func.vmap(both, in_dims=in_dims)(*tensors)
    return [[as_array(x) for x in xs] for xs in (ys, gs, alone)]
