"""K33: a result that depends on a floating argument has a derivative by it, or refuses one.

An op may lack a rule or name an argument among its constants, or a function may compute with
NumPy's arrays. All of these give results that look right, and a gradient of None or 0. Other checks
miss this: they trust an op's declaration that it has no derivative.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...tensor_api.tensor import Tensor
from ..case import Context
from ..errors import DoesNotApply, GradcheckError
from ..function import as_array, floating_results, gradients, is_smooth_array, replaced
from ..spec import OpSpec
from .base import check

_STEP = 1e-6
_LEAST = 1e-4  # of a slope: less may be rounding over the step
_STEADY = 0.01  # of a slope: its tolerated change when the step doubles. A jump's slope halves
_SAMPLES = 3  # at the fast level


@check("K33", "no argument is a constant in silence", per="op", gradient=False, optional=True)
def k33(spec: OpSpec, context: Context) -> int:
    """Each floating argument, including declared constants, in a random direction."""
    samples = context.samples(spec, "float64") if "float64" in spec.dtypes else []
    count = 0
    for sample in samples if context.full else samples[:_SAMPLES]:
        rng = context.rng(spec.name, "K33", sample.name)
        count += compared(spec.call, sample.args, sample.params, rng)
    if not count:
        raise DoesNotApply("no result depends on a floating argument, except by jumps")
    return count


def compared(call: Callable, args: tuple, params: dict, rng: np.random.Generator) -> int:
    """In how many arguments the results have slopes; the engine must know or refuse all of them."""
    return sum(_argument(call, args, params, i, x, rng) for i, x in _floats(args))


def _floats(args: tuple) -> Iterator[tuple[int, np.ndarray]]:
    for i, x in enumerate(args):
        if is_smooth_array(x) and x.dtype == np.float64 and x.size:
            yield i, np.asarray(x)


def _argument(
    call: Callable, args: tuple, params: dict, i: int, x: np.ndarray, rng: np.random.Generator
) -> int:
    tensors = tuple([Tensor(a) if is_smooth_array(a) else a for a in args])

    def results(value: Tensor) -> list[Any]:
        return floating_results(call(*replaced(tensors, i, value), **params))

    try:
        slopes = _slopes(lambda z: [as_array(y) for y in results(Tensor(z))], x, rng)
    except Exception:  # it refuses such numbers
        return 0
    if not any(slope.any() for slope in slopes):
        return 0
    leaf = Tensor(x, requires_grad=True)
    try:
        ys = results(leaf)
    except TypeError:
        return 1  # it refuses a gradient
    for k, (y, slope) in enumerate(zip(ys, slopes, strict=True)):
        if not slope.any():
            continue
        g = None
        if getattr(y, "requires_grad", False):
            g = gradients([leaf], [y], [slope.astype(y.dtype)], retain_graph=True)[0]
        if g is None or not as_array(g).any():
            raise GradcheckError(
                f"result {k} depends on argument {i}, by finite differences with a slope of "
                f"{slope.reshape(-1)[int(np.argmax(np.abs(slope)))]!r}, and its gradient is "
                f"{'none' if g is None else '0'}. Give the op a rule for it, or refuse an argument "
                "that requires a gradient (constant_array with the argument's name)"
            )
    return 1


def _slopes(f: Callable, x: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """The slopes of each result along a random direction, 0 where there is none or a jump."""
    u = rng.standard_normal(x.shape)
    pairs = []
    for step in (_STEP, 2 * _STEP):
        above, below = f(x + step * u), f(x - step * u)
        pairs.append([(a - b) / (2 * step) for a, b in zip(above, below, strict=True)])
    found = []
    for fine, coarse in zip(*pairs, strict=True):
        steady = np.abs(fine - coarse) <= _STEADY * np.abs(fine)
        found.append(np.where(steady & (np.abs(fine) > _LEAST), fine, 0))
    return found
