"""K20: under all of these conditions the gradient is the plain one, bit for bit.

The conditions are hooks, a checkpoint, a no_grad call in between, one argument that alone needs a
gradient or is requested, one used result.
"""

import numpy as np

from ...modes.recording import enable_grad, inference_mode, no_grad
from ...tensor_api.tensor import Tensor
from ..case import Case
from ..conduct import all_arguments_but_one, asked_for_alone, one_argument_alone, some_results
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, floating_results, pulled_back
from ..numeric import normal
from .base import check
from .nearness import require_same_bits


@check(
    "K20", "checkpoint, hooks, no_grad, one argument or result alone: the gradient is the plain one"
)
def k20(case: Case) -> int:
    function = case.function()
    if not function.xs or not (values := function.value(function.xs)):
        raise DoesNotApply("a sample without a gradient")
    vs = normal(case.rng("K20"), values)
    expected = function.vjp(function.xs, vs)
    count = 0
    for way in (beside_no_grad, with_hooks, in_checkpoint, one_alone, one_asked_for):
        found = way(case, function, values, vs)
        for i, (a, b) in enumerate(zip(expected, found or [], strict=bool(found))):
            require_same_bits(a, b, f"gradient of argument {i}, {way.__name__.replace('_', ' ')}")
            count += 1
    for constant, found in all_arguments_but_one(function, vs):
        rest = [g for i, g in enumerate(expected) if i != constant]
        for a, b in zip(rest, found, strict=True):
            require_same_bits(a, b, f"a gradient where argument {constant} alone needs none")
            count += 1
    return count + unused_results(function, vs)


def beside_no_grad(case: Case, function: Function, values: list, vs: list) -> list:
    """A call under no_grad has the same value and no history; enable_grad inside records again. In
    inference_mode the value is the same too."""
    with inference_mode():
        inferred = function.call([Tensor(x) for x in function.xs])
    for y, value in zip(inferred, values, strict=True):
        require_same_bits(
            value, y.data if isinstance(y, Tensor) else y, "the value in inference_mode"
        )
    leaves = [Tensor(x, requires_grad=True) for x in function.xs]
    with no_grad():
        silent = function.call(leaves)
        with enable_grad():
            ys = function.call(leaves)
    for y, value in zip(silent, values, strict=True):
        unchanged = any(y is leaf for leaf in leaves)  # astype to the same dtype, atleast_1d ...
        if isinstance(y, Tensor) and y.requires_grad and not unchanged:
            raise GradcheckError("a result under no_grad requires a gradient")
        require_same_bits(value, y.data if isinstance(y, Tensor) else y, "the value under no_grad")
    return pulled_back(leaves, ys, vs)


def one_alone(case: Case, function: Function, values: list, vs: list) -> list | None:
    """Each argument with the others constant: a rule may see which gradients are wanted."""
    return one_argument_alone(function, vs) if len(function.xs) > 1 else None


def one_asked_for(case: Case, function: Function, values: list, vs: list) -> list | None:
    """Each argument requested by itself: mg.grad runs no rule of the others."""
    return asked_for_alone(function, vs) if len(function.xs) > 1 else None


def unused_results(function: Function, vs: list) -> int:
    """An unused result sends None to a rule; that must equal zeros."""
    count = 0
    for used, found, expected in some_results(function, vs):
        for k, (a, b) in enumerate(zip(expected, found, strict=True)):
            if not np.allclose(a, b, rtol=1e-13, atol=1e-13 * np.max(np.abs(a), initial=0.0)):
                raise GradcheckError(
                    f"the gradient of argument {k} is another when no result but {[*used]} is "
                    "used than when the others' cotangents are zero"
                )
            count += 1
    return count


def with_hooks(case: Case, function: Function, values: list, vs: list) -> list | None:
    """A hook on every argument and result sees each gradient once and changes nothing."""
    if not hasattr(Tensor, "register_hook"):
        case.note("K20", "there are no tensor hooks")
        return None
    leaves, ys = function.record(function.xs)
    seen: list[int] = []
    for k, x in enumerate([*leaves, *ys]):
        if isinstance(x, Tensor) and x.requires_grad:
            x.register_hook(  # type: ignore[attr-defined]
                lambda g, k=k: seen.append(k)
            )  # returns None: no replacement
    found = pulled_back(leaves, ys, vs)
    if len(seen) != len(set(seen)):
        raise GradcheckError("a tensor hook was called twice in one backward")
    return found


def in_checkpoint(case: Case, function: Function, values: list, vs: list) -> list | None:
    """The op recomputed in the backward."""
    try:
        from ...modes.checkpoint import checkpoint
    except ImportError:
        case.note("K20", "there is no checkpoint")
        return None
    leaves = [Tensor(x, requires_grad=True) for x in function.xs]
    ys = floating_results(checkpoint(lambda *xs: tuple(function.call(xs)), *leaves))
    return pulled_back(leaves, ys, vs)
