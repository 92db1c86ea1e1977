"""gradcheck, gradgradcheck, jvpcheck: the harness's comparisons for any function of yours.

>>> import numpy as np
>>> from minigrad.testing import gradcheck
>>> gradcheck(lambda a, b: (a * b).sum(), (np.array([1.0, 2.0]), np.array([3.0, 4.0])))
True
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..backends.dtypes import is_floating
from ..custom.shown import as_it_is
from ..engine.errors import RuleError, describe
from ..tensor_api.help import with_call_context
from ..tensor_api.tensor import Tensor
from .compare import (
    NOISE,
    RTOL,
    as_vectors,
    both_in_one_graph,
    check_calls,
    check_direction,
    check_jacobian,
    finite,
    inconclusive,
    random_pair,
)
from .conduct import check_conduct, check_forward_conduct
from .errors import DoesNotApply, GradcheckError, Inconclusive
from .function import Arrays, Function, Pullback, as_array, is_smooth_array
from .large import check_large_values
from .numeric import ROUNDING, length, normal, pack, slope
from .shared import shared_kept
from .single import check_single_precision
from .snippet import gradcheck_snippet

FULL_JACOBIAN = 400  # entries; larger Jacobians are checked along random directions
_STEP = 0.01  # the distance of the second point from the first, as a share of it


class _UsersFunction(Function):
    """A user's function, not prepared for finite differences.

    Its arguments require gradients whenever it is called, since it may differentiate inside (a
    gradient penalty) or put hooks on inner results. Its results keep their shapes.
    """

    shapes: list[tuple] | None = None  # of the results at the first point

    def value(self, xs: Sequence[Any]) -> Arrays:
        values = [as_array(y) for y in self.record(xs)[1]]
        shapes = [y.shape for y in values]
        self.shapes = shapes if self.shapes is None else self.shapes
        if shapes != self.shapes:
            raise GradcheckError(
                f"fn returns results of shapes {shapes} at a point near the inputs, where they "
                f"are {self.shapes}. The shapes depend on values, so differences do not exist. "
                "Choose inputs away from fn's branch points"
            )
        return values


@with_call_context
def gradcheck(
    fn: Callable,
    inputs: Any,
    *,
    directions: int = 3,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Whether the gradient of fn agrees with finite differences at `inputs`.

    inputs       a tensor or array, or a tuple of them. Tensors that require a gradient are
                 differentiated; if none does, every floating or complex one is. Values are taken in
                 double precision. Choose them away from kinks.
    directions   how many signed random (u, v) pairs; a Jacobian of at most 400 entries is also
                 compared entry by entry

    The gradient must also be the same for arrays in other memory and in a second backward. It must
    be the same with one argument alone that needs it, with one result alone that is used, and for
    f(x, x). Zero cotangents must give zeros, and no rule may write in place. If fn takes single
    precision with the same value, the gradient there must be the same to a few per cent.

    Then fn is called at a second point, 1 % away, between its forward and its backward at the
    first. No bit of the gradient may change, and at the second point it must be right too. That
    finds rules that use the last call's values, or keep the first's.

    If fn consists only of your own @primitive or mg.Function, its inputs are scaled to 1,000 and
    −1,000 as well. If the value is finite there, a rule that overflows is wrong.

    Returns True, or raises GradcheckError that names the wrong entry with both values and holds
    Python text to reproduce it (False with raise_exception=False).
    """

    def check(function: Function, rng: np.random.Generator) -> None:
        size = pack(function.xs).size * pack(function.value(function.xs)).size
        if 0 < size <= FULL_JACOBIAN:
            check_jacobian(function, function.xs, "gradcheck")
        for _ in range(directions):
            us, vs = random_pair(function, function.xs, rng)
            check_direction(function, function.xs, us, vs, "gradcheck")
        check_conduct(function, rng, "gradcheck")
        check_single_precision(function, rng, "gradcheck")
        _check_second_point(function, rng)
        check_large_values(function, rng, "gradcheck")

    return _run(check, fn, inputs, directions, seed, raise_exception)


def _check_second_point(function: Function, rng: np.random.Generator) -> None:
    """Calls are independent of each other; a second point without a value of fn is no failure."""
    us, vs = random_pair(function, function.xs, rng)
    # in proportion to x: positive numbers stay positive
    moved = [x + _STEP * abs(x) * u for x, u in zip(function.xs, us, strict=True)]
    try:
        with np.errstate(all="ignore"):
            check_calls(function, function.xs, moved, us, vs, "gradcheck: ")
            both_in_one_graph(function, function.xs, moved, vs, "gradcheck: ")
    except DoesNotApply:
        pass


@with_call_context
def gradgradcheck(
    fn: Callable,
    inputs: Any,
    *,
    directions: int = 3,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Whether the gradient can be differentiated again: Jᵀ(x) v by x and v, as in `gradcheck`."""

    def check(function: Function, rng: np.random.Generator) -> None:
        for _ in range(directions):
            cotangents = normal(rng, function.value(function.xs))
            point = [*function.xs, *cotangents]
            pullback = Pullback(function)
            us, ws = random_pair(pullback, point, rng)
            check_direction(pullback, point, us, ws, "gradgradcheck")

    return _run(check, fn, inputs, directions, seed, raise_exception)


def jvpcheck(
    fn: Callable,
    inputs: Any,
    *,
    directions: int = 3,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Whether forward mode (minigrad.func.jvp) agrees with finite differences, as in `gradcheck`.

    It must also be linear in the tangent, the same for arrays in other memory, and write into none.
    """

    def check(function: Function, rng: np.random.Generator) -> None:
        for _ in range(directions):
            check_tangent(function, function.xs, normal(rng, function.xs), "jvpcheck")
        check_forward_conduct(function, rng, "jvpcheck")

    return _run(check, fn, inputs, directions, seed, raise_exception)


def check_tangent(function: Function, xs: Sequence[Any], us: Sequence[Any], what: str) -> None:
    """J u by forward mode against finite differences, every entry of the result."""
    ju = slope(as_vectors(function, xs), pack(xs), pack(us))
    tangent = pack(function.jvp(xs, us))
    scale = length(ju.value) / max(1, np.sqrt(ju.value.size))
    noise, rounding = 10 * np.abs(ju.change), ROUNDING * (ju.size + length(finite(pack(xs))))
    if not (noise <= NOISE * length(ju.value) + rounding).all():
        raise inconclusive(what, float(noise.max()), length(ju.value))
    tolerance = RTOL * (np.abs(ju.value) + scale) + noise + rounding
    excess = np.abs(tangent - ju.value) - tolerance
    if not (excess <= 0).all():
        worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        raise GradcheckError(
            f"{what}: entry {worst} of the tangent J u is {tangent[worst]!r} by forward mode, "
            f"{ju.value[worst]!r} by finite differences"
        )


def _run(
    check: Callable, fn: Callable, inputs: Any, directions: int, seed: int, raise_exception: bool
) -> bool:
    if directions < 1:
        raise ValueError(f"directions={directions}: at least one is needed to compare anything")
    function = _prepare(fn, inputs)
    try:
        with shared_kept(seeds=False), as_it_is():
            _check_inputs_kept(function)
            check(function, np.random.default_rng(seed))
    except GradcheckError as error:
        if not raise_exception:
            return False
        if isinstance(error, Inconclusive) and not _repeats(function):
            error.what = _DRAWS
        error.snippet = gradcheck_snippet(function, error.entry)
        raise
    except RuleError as error:  # a gradient of another shape, or one too many
        if not raise_exception:
            return False
        raise GradcheckError(f"the backward: {error}") from error
    return True


_DRAWS = (
    "fn is not deterministic: it returns other values when it is called again with the same "
    "arguments, so differences mean nothing. Seed its random numbers inside fn, or draw them "
    "before and pass them in"
)


def _repeats(function: Function) -> bool:
    first, again = pack(function.value(function.xs)), pack(function.value(function.xs))
    return np.array_equal(first, again, equal_nan=True)


def _check_inputs_kept(function: Function) -> None:
    """A function that sorts its argument in place is another function at the next call."""
    before = [x.copy() for x in function.xs]
    with suppress(Exception):  # these plain tensors can be changed; fn may need others
        function.call([Tensor(x) for x in function.xs])
    for position, x, old in zip(function.positions, function.xs, before, strict=True):
        if x.tobytes() != old.tobytes():
            x[...] = old
            raise GradcheckError(
                f"fn changes argument {position} ({function.names[position]}) in place; work on a "
                "copy (x.clone()), since the caller's tensor is changed as well"
            )
    if not function.value(function.xs):
        raise ValueError(
            "gradcheck needs a function with a floating or complex result: an array, a tensor, or "
            "these in a tuple, list or dict; fn returns none"
        )


def _prepare(fn: Callable, inputs: Any) -> Function:
    """The function at double-precision inputs, differentiated by those that require it."""
    if not callable(fn):
        raise TypeError(
            "gradcheck takes a function and its arguments, gradcheck(f, x), and not the "
            f"function's result; got {describe(fn)}"
        )
    if not isinstance(inputs, tuple | list):
        inputs = (inputs,)
    wanted = [i for i, x in enumerate(inputs) if getattr(x, "requires_grad", False)]
    doubles = [Tensor(_double(x.data)) if isinstance(x, Tensor) else _double(x) for x in inputs]
    function = _UsersFunction(fn, doubles, positions=wanted or None)
    if not function.xs:
        given = ", ".join(_described(x) for x in inputs) or "none at all"
        raise ValueError(
            f"gradcheck needs an input of a floating or complex dtype, the inputs are {given}. "
            "Pass arrays, tensors or numbers, several of them as a tuple: gradcheck(fn, (x, y))"
        )
    return function


def _described(x: Any) -> str:
    return f"{x.dtype} {x.shape}" if hasattr(x, "dtype") else type(x).__name__


def _double(x: Any) -> Any:
    """x in double precision if it can be differentiated, else unchanged."""
    if isinstance(x, float | complex):
        return np.asarray(x)
    if not is_smooth_array(x):
        return x
    return x.astype(np.float64 if is_floating(x.dtype) else np.complex128)
