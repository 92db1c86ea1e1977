"""cond, switch, scan, while_loop, fori_loop: control flow as functions.

Eager code needs none of them: `if` and `while` are recorded as they happen. They are for code that
is to run under vmap as well, where a condition may differ from example to example. Then both
branches run and each example selects its own result. A branch that an example does not take is
computed with the operands of an example that takes it. It then meets no values that it was not
written for. A NaN or Inf in an unselected branch would still reach the gradient, as 0 · Inf.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.errors import describe
from ..engine.primitive import Primitive
from ..engine.registry import op as ops
from ..errors import TransformError
from ..ops.axes import on_host
from ..ops.batching import align
from ..ops.shape.splitting import unbind
from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor
from . import tree
from .batching import Batched
from .levels import require_function

__all__ = ["associative_scan", "cond", "fori_loop", "scan", "switch", "while_loop"]


# y = x ;  gx = g where taken, else 0. Under vmap, examples that are not taken get another's x.
of_takers = Primitive(lambda x, taken: x, "of_takers", ["x", "taken"], constants=["taken"])


@of_takers.vjp("x")
def of_takers_dx(g, taken):
    return np.where(taken, g, 0)


@of_takers.jvp
def of_takers_jvp(x_t, taken):
    return np.where(taken, x_t, 0)


@of_takers.batch
def of_takers_batch(op, xs, batched, params):
    """x of the first example that is taken, where this one is not.

    If no example of this batch is, one of the batch around it may be: so the op is called again,
    one level down.
    """
    x, taken = xs
    if not batched[1]:
        return op(x, taken)
    if not batched[0]:
        x = ops.broadcast_to(x, shape=(taken.shape[0], *np.shape(x)))
    first = ops.take(x, ops.argmax(ops.astype(taken, dtype=np.int8), axis=0), axis=0)
    x = ops.where(*align([taken, x], [True, True]), first)
    return op(x, ops.any(taken, axis=0))


def _differs(condition: Any) -> bool:
    """Whether a condition may differ from example to example of a vmap that runs."""
    while isinstance(condition, Tensor):
        if isinstance(condition, Batched):
            return True
        condition = condition.data
    return False


def _truths(condition: Any) -> np.ndarray:
    """The condition of each example, for Python to look at."""
    return on_host(condition).astype(bool)


def _condition(what: str, value: Any) -> Any:
    if getattr(value, "shape", ()) != ():
        raise TransformError(
            f"{what}: the condition is one truth value, got {describe(value)}; reduce it with "
            "mg.any or mg.all, or use mg.where for a choice in every element"
        )
    return value


def _only(taken: Any, operands: Any) -> Any:
    """The operands, with those of examples that are not taken replaced."""
    return tree.tree_map(lambda x: of_takers(as_tensor(x), taken), operands)


def _selected(what: str, condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b: trees of one form, shapes and dtypes."""

    def select(x: Any, y: Any) -> Any:
        x, y = as_tensor(x), as_tensor(y)
        if x.shape != y.shape or x.dtype != y.dtype:
            raise TransformError(
                f"{what}: one side gives {describe(x)}, the other {describe(y)}; examples that "
                "select different ones need the same shape and dtype"
            )
        return ops.where(condition, x, y)

    return tree.rebuild(
        a, [select(x, y) for x, y in zip(tree.leaves(a), tree.matched(a, b, what), strict=True)]
    )


def cond(pred: Any, true_fn: Callable, false_fn: Callable, *operands: Any) -> Any:
    """true_fn(*operands) if pred, else false_fn(*operands). Trees in, trees out.

    One branch runs, recorded as usual. Under vmap, where pred differs from example to example, both
    do, and each example selects. Tensors that a branch uses should then be operands: of a captured
    tensor a branch sees the values also of examples that do not take it.
    """
    require_function("cond", true_fn)
    require_function("cond", false_fn)
    pred = _condition("cond", pred)
    if not _differs(pred):
        return (true_fn if pred else false_fn)(*operands)
    truth = _truths(pred)
    if truth.all() or not truth.any():
        return (true_fn if truth.all() else false_fn)(*operands)
    pred = ops.astype(pred, dtype=bool)
    otherwise = ops.logical_not(pred)
    a, b = true_fn(*_only(pred, operands)), false_fn(*_only(otherwise, operands))
    return _selected("cond", pred, a, b)


def switch(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """`branches[index](*operands)`; an index beyond the ends takes the nearest branch.

    One branch runs, recorded as usual. Under vmap, where index differs from example to example,
    all branches run that an example takes, in the way of cond.
    """
    if not hasattr(branches, "__getitem__") or isinstance(branches, Tensor):
        raise TypeError(f"mg.func.switch takes a list of functions, got {describe(branches)}")
    for branch in branches:
        require_function("switch", branch)
    if not len(branches):
        raise TransformError("switch: there is no branch to choose from")
    given = index if hasattr(index, "dtype") else np.asarray(index)
    if given.shape != () or given.dtype.kind not in "iu":
        raise TransformError(f"switch: the index is one integer, got {describe(index)}")
    last = len(branches) - 1
    if not _differs(index):
        return branches[min(max(int(index), 0), last)](*operands)
    index = ops.clip(ops.astype(index, dtype=np.intp), 0, last)
    first, *others = np.unique(on_host(index)).tolist() or [0]
    if not others:
        return branches[first](*operands)
    result = branches[first](*_only(index == first, operands))
    for i in others:
        taken = index == i
        result = _selected("switch", taken, branches[i](*_only(taken, operands)), result)
    return result


def while_loop(cond_fn: Callable, body_fn: Callable, init: Any) -> Any:
    """state = init; while cond_fn(state): state = body_fn(state). The state may be a tree.

    It is recorded step by step: both forward and reverse mode pass through it, and memory grows
    with the steps. mg.func.fixed_point has the gradient of a limit without them. Under vmap it runs
    until the last example is done; an example that is done keeps its state.
    """
    require_function("while_loop", cond_fn)
    require_function("while_loop", body_fn)
    state = tree.copied(init)
    while True:
        going = _condition("while_loop", cond_fn(state))
        if not _differs(going):
            if not going:
                return state
            state = body_fn(state)
            continue
        truth = _truths(going)
        if not truth.any():
            return state
        if truth.all():
            state = body_fn(state)
            continue
        going = ops.astype(going, dtype=bool)
        state = _selected("while_loop", going, body_fn(_only(going, state)), state)


def fori_loop(lower: Any, upper: Any, body_fn: Callable, init: Any) -> Any:
    """state = init; for i in range(lower, upper): state = body_fn(i, state).

    Under vmap the bounds may differ from example to example.
    """
    require_function("fori_loop", body_fn)
    if not _differs(lower) and not _differs(upper):
        state = tree.copied(init)
        for i in range(operator.index(lower), operator.index(upper)):
            state = body_fn(i, state)
        return state
    device = next(bound.device for bound in (lower, upper) if isinstance(bound, Tensor))
    start = as_tensor(lower, device=device), init

    def step(state: tuple) -> tuple:
        i, inner = state
        return i + 1, body_fn(i, inner)

    return while_loop(lambda state: state[0] < upper, step, start)[1]


def _apart(x: Tensor) -> tuple:
    """The entries of x along its first axis; their gradient is one stack."""
    if not x.ndim:
        raise TransformError("scan: xs holds a 0-d tensor; each of its leaves needs a first axis")
    return unbind(x, 0)


def scan(
    f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple:
    """carry = init; for x in xs: carry, y = f(carry, x). (the last carry, the ys stacked)

    xs is a tree whose leaves share their first axis, or None with a length. With reverse=True it
    goes from the last to the first; each y has the index of its x. Where there is no step, f is
    called once, on zeros, to learn the shapes of the ys, of which there are then none.
    """
    require_function("scan", f)
    rows = [_apart(as_tensor(x)) for x in tree.leaves(xs)]
    if length is not None and operator.index(length) < 0:
        raise TransformError(f"scan: length is a number of steps, 0 or more, got {length}")
    lengths = {len(row) for row in rows} | ({length} if length is not None else set())
    if len(lengths) != 1:
        raise TransformError(
            f"scan: the first axes of xs (and length) must agree, got {sorted(lengths) or 'none'}"
        )
    steps = range(lengths.pop())
    carry, found = init, []
    for i in reversed(steps) if reverse else steps:
        carry, y = _pair(f(tree.copied(carry), tree.rebuild(xs, [row[i] for row in rows])))
        found.append(y)
    if not found:
        zeros = [ops.sum(as_tensor(x), axis=0, dtype=x.dtype) for x in tree.leaves(xs)]
        _, y = _pair(f(tree.copied(init), tree.rebuild(xs, zeros)))
        return carry, tree.rebuild(y, [ops.stack([leaf])[:0] for leaf in tree.leaves(y)])
    if reverse:
        found.reverse()
    columns = zip(*[tree.matched(found[0], y, "scan") for y in found], strict=True)
    return carry, tree.rebuild(found[0], [ops.stack(list(column)) for column in columns])


def _pair(returned: Any) -> tuple:
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise TransformError(f"scan: f returns (carry, y), got {describe(returned)}")
    return returned[0], returned[1]


def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes x₀, x₀∘x₁, x₀∘x₁∘x₂ … of an associative fn(a, b), in O(log n) calls of fn.

    fn is called on slices of many elements at once, so it must work along the axis element by
    element. Blelloch, Prefix sums and their applications, 1990.
    """
    require_function("associative_scan", fn)
    xs = [as_tensor(x) for x in tree.leaves(elems)]
    lengths = {x.shape[axis] if -x.ndim <= axis < x.ndim else None for x in xs}
    if len(lengths) != 1 or None in lengths:
        shapes = [x.shape for x in xs]
        raise TransformError(
            f"associative_scan: the leaves must have one length along axis {axis}; their shapes "
            f"are {shapes}"
        )
    xs = [ops.moveaxis(x, source=axis, destination=0) for x in xs]
    xs = [ops.flip(x, axis=0) if reverse else x for x in xs]

    def combine(a: list, b: list) -> list:
        sides = [[_back(x, axis) for x in side] for side in (a, b)]
        returned = fn(*[tree.rebuild(elems, side) for side in sides])
        ys = [as_tensor(y) for y in tree.matched(elems, returned, "associative_scan: elems and fn")]
        shapes = [(x.shape, y.shape) for x, y in zip(sides[0], ys, strict=True)]
        if wrong := [pair for pair in shapes if pair[0] != pair[1]]:
            raise TransformError(
                f"associative_scan: fn takes {wrong[0][0]} and returns {wrong[0][1]}; it is to "
                "combine two slices element by element along the axis"
            )
        return [ops.moveaxis(y, source=axis, destination=0) for y in ys]

    ys = _prefixes(combine, xs)
    ys = [ops.flip(y, axis=0) if reverse else y for y in ys]
    return tree.rebuild(elems, [_back(y, axis) for y in ys])


def _back(x: Any, axis: int) -> Any:
    return ops.moveaxis(x, source=0, destination=axis)


def _prefixes(combine: Callable, xs: list) -> list:
    """Prefixes along the first axis: of the pairs first, then of the positions between them."""
    n = len(xs[0])
    if n < 2:
        return xs
    pairs = combine([x[: n - n % 2 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _prefixes(combine, pairs)  # y₁, y₃, …
    if n == 2:
        even: list = [x[:1] for x in xs]
    else:
        later = combine([y[: (n - 1) // 2] for y in odd], [x[2::2] for x in xs])
        even = [ops.concatenate([x[:1], y]) for x, y in zip(xs, later, strict=True)]
    return [_interleaved(a, b, n) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any, n: int) -> Any:
    """even₀, odd₀, even₁, odd₁ … n elements in all."""
    if len(even) > len(odd):
        padded = ops.concatenate([odd, even[:1]])
    else:
        padded = odd
    woven = ops.stack([even, padded], axis=1)
    return ops.reshape(woven, shape=(-1, *even.shape[1:]))[:n]
