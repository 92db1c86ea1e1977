"""odeint: differential equations, differentiable in the first state, the times and the arguments.

Dormand and Prince's method of order 5 (1980) with error control. The derivative is that of the
steps taken; their lengths, as shares of the interval between two times, are constants. So
derivatives are those of the numerical solution, of any order and in every transform.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.device import to_host
from ..backends.dtypes import accumulator, is_differentiable
from ..engine.errors import describe
from ..engine.graph import raw
from ..engine.registry import op
from ..errors import ConvergenceError, TransformError
from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor
from . import tree
from .levels import require_function

__all__ = ["odeint"]

_C = (0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1)
_A: tuple[tuple[float, ...], ...] = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
_B = (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_ERROR = (71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def odeint(
    f: Callable, y0: Any, t: Any, *args: Any, rtol: float = 1.5e-8, atol: float = 1.5e-8,
    max_steps: int = 10_000,
) -> Any:  # fmt: skip
    """y(t₀), y(t₁) … for dy/dt = f(y, t, *args) with y(t₀) = y0, stacked on a new first axis

    y0 is a tensor, or a tree of tensors; f returns a slope of the same form. The times t (n,)
    increase or decrease. The estimated error of a step stays below atol + rtol |y|. Memory grows
    with the number of steps. ConvergenceError after max_steps steps between two times, or where a
    step has become too short. For stiff equations take another library. 16-bit states and times are
    computed with in float32.
    """
    require_function("odeint", f)
    t = _widened(as_tensor(t))
    if t.ndim != 1 or not t.size or t.dtype.kind == "c":
        raise TransformError(f"odeint: t must be real times (n,), at least one; got {describe(t)}")
    leaves = [as_tensor(x) for x in tree.leaves(y0)]
    leaves = [x if is_differentiable(x.dtype) else op.astype(x, dtype=np.float64) for x in leaves]
    dtypes, leaves = [x.dtype for x in leaves], [_widened(x) for x in leaves]

    def slope(ys: list, at: Any) -> list:
        slopes = tree.matched(y0, f(tree.rebuild(y0, ys), at, *args), "odeint")
        for y, k in zip(ys, slopes, strict=True):
            if np.shape(k) != y.shape:
                raise TransformError(
                    f"odeint: f(y, t, *args) returns dy/dt, of the shape of y; y is {describe(y)}, "
                    f"and it returned {describe(k)}"
                )
            if np.iscomplexobj(k) and y.dtype.kind != "c":
                raise TransformError(
                    f"odeint: f(y, t, *args) returned {describe(k)} for a real y, which has no "
                    "place for an imaginary part; start from a complex y0"
                )
        return slopes

    rows, share = [leaves], 0.1
    for i in range(1, t.size):
        leaves, share = _between(slope, leaves, t[i - 1], t[i], share, rtol, atol, max_steps)
        rows.append(leaves)
    ys = [op.stack(list(column)) for column in zip(*rows, strict=True)]
    return tree.rebuild(y0, [op.astype(y, d, copy=False) for y, d in zip(ys, dtypes, strict=True)])


def _widened(x: Any) -> Any:
    """16-bit floats as float32, since tolerances are finer than their digits."""
    wide = accumulator(x.dtype)
    return x if wide is None else op.astype(x, dtype=wide)


def _between(
    slope: Callable, y: list, start: Any, stop: Any, share: float, rtol: float, atol: float,
    max_steps: int,
) -> tuple[list, float]:  # fmt: skip
    """(y at `stop`, a good first share of the next interval): steps of shares of the interval."""
    length, done = stop - start, 0.0
    k = slope(y, start)
    for _ in range(max_steps):
        share = min(share, 1 - done)
        h = length * share
        ks = [k]
        for c, weights in zip(_C[1:], _A[1:], strict=True):
            ks.append(slope(_moved(y, h, weights, ks), start + length * (done + c * share)))
        after = _moved(y, h, _B, ks)
        ks.append(slope(after, start + length * (done + share)))
        error = _error(y, after, h, ks, rtol, atol)
        if error <= 1:
            done, y, k = done + share, after, ks[-1]
            if done >= 1 - 1e-15:
                return y, share * _factor(error)
        share *= _factor(error)
        if not share > 1e-14:
            raise ConvergenceError(
                f"odeint: a step became too short {done:.3g} of the way from one time to the next; "
                "the solution may be infinite there, or the equation stiff"
            )
    raise ConvergenceError(
        f"odeint: {max_steps} steps have led {done:.3g} of the way from one time to the next; "
        "allow more (max_steps), or a larger error (rtol, atol)",
        steps=max_steps,
    )


def _moved(y: list, h: Any, weights: tuple, ks: list) -> list:
    """y + h Σ weights k, for each leaf."""
    sums = [
        sum([w * part for w, part in zip(weights, parts) if w], start=0.0)
        for parts in zip(*ks, strict=True)
    ]
    return [op.astype(x + h * s, dtype=x.dtype) for x, s in zip(y, sums, strict=True)]


def _error(y: list, after: list, h: Any, ks: list, rtol: float, atol: float) -> float:
    """The estimated error as a share of what is allowed: root of the mean square; a constant."""
    total, count, length = 0.0, 0, float(np.max(np.abs(_host(h))))
    for x, z, *parts in zip(y, after, *ks, strict=True):
        wrong = length * sum(w * _host(part) for w, part in zip(_ERROR, parts, strict=True))
        scale = atol + rtol * np.maximum(np.abs(_host(x)), np.abs(_host(z)))
        total += float(np.sum(np.abs(wrong / scale) ** 2))
        count += np.size(wrong)
    return float(np.sqrt(total / max(count, 1))) if np.isfinite(total) else np.inf


def _host(x: Any) -> Any:
    """The numbers of x, of all examples inside vmap, as a NumPy array."""
    return to_host(raw(x) if isinstance(x, Tensor) else x)


def _factor(error: float) -> float:
    """How much longer or shorter the next step is to be."""
    return float(min(5.0, max(0.2, 0.9 * max(error, 1e-10) ** -0.2)))
