"""Whether a Function's backward depends on its inputs in a way that the graph does not show.

A second derivative follows what backward reads through ctx: arguments and results. What forward
leaves elsewhere (an array or a number made of x on ctx, in a closure, a global or a class) looks
like a constant, and its part of the second derivative would be 0 in silence. Nothing that can be
read in the code tells it from a true constant, such as a mask or a window. So the class is tried,
once for each way of saving, when a backward is recorded for the first time:

- forward runs at a point near by, and backward on what that has left, but with the arguments and
  results of the first point. If the gradients change a little, they depend on x in hiding.
- Where backward reads no argument or result at all, the gradients cannot depend on x as far as the
  graph shows; then forward must not be curved.

A jump is no smooth dependence: a mask that flips has the derivative 0. What is random, or fails, or
is different each time, tells nothing, and counts as constant.
"""

import random as pythons
from contextlib import suppress
from types import CodeType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import array_module, to_host
from ..backends.dtypes import is_differentiable
from . import modes
from .shown import as_tensor
from .tensor import raw, wrap

_NOISE = 64  # units in the last place that say nothing
_PLAIN_MODULES = {"builtins", "cmath", "cupy", "math", "minigrad", "numpy", "scipy"}


def reads_ctx_alone(function: Any) -> bool:
    """Whether a backward (or jvp) can be seen to read nothing but ctx and its arguments."""
    fn = getattr(function, "__wrapped__", function)
    code, names = getattr(fn, "__code__", None), getattr(fn, "__globals__", {})
    if (
        code is None
        or isinstance(fn, MethodType)
        or code.co_freevars
        or fn.__defaults__
        or fn.__kwdefaults__
    ):
        return False
    builtin = names.get("__builtins__", {})
    known = builtin if isinstance(builtin, dict) else vars(builtin)
    return all(_is_plain(names.get(name, known.get(name))) for name in _globals_of(code))


def _globals_of(code: CodeType) -> set[str]:
    """Names that the code, or a function in it, may look up outside; attributes are among them."""
    inner = [_globals_of(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names}.union(*inner)


def _is_plain(value: Any) -> bool:
    """Whether a global is no place to keep a number: NumPy, this library, their functions."""
    if isinstance(value, ModuleType):
        module = value.__name__
    elif callable(value) and not hasattr(value, "dtype"):
        module = getattr(value, "__module__", None) or type(value).__module__
    else:
        return value is None
    return module.partition(".")[0] in _PLAIN_MODULES


def hides(op: Any, ctx: Any, rule: str = "backward") -> bool:
    """Whether what `rule` (backward or jvp) gives for a run depends on its inputs in hiding."""
    if ctx._sample is None:
        return False
    # numbers and texts among the other arguments may choose what the class does
    static = [x if isinstance(x, str | int | float | None) else type(x) for x in op.args]
    key = rule, ctx.saved_places, *static
    if key not in op.verdicts:
        op.verdicts[key] = _tried(op, ctx, rule)
    return op.verdicts[key]


def _tried(op: Any, ctx: Any, rule: str) -> bool:
    draws = random.get_state(), np.random.get_state(), pythons.getstate()
    with np.errstate(all="ignore"):
        for low, high in ((0.0, 0.0), (0.5, 1.5), (0.1, 0.6)):
            xs = _point(ctx._sample, low, high)
            if xs is not None:
                found = modes.inside_forward(_Trial(op, rule, draws).hides_at, ctx, xs)
                if found is not None:
                    return found
    return False


def _point(sample: list, low: float, high: float) -> list | None:
    """Inputs like those of the run: its own, while they live, with high = 0; else between two."""
    rng, found = np.random.default_rng(0), []
    for shape, dtype, ref in sample:
        x = ref()
        if x is None and not (high and is_differentiable(dtype)):
            return None
        if high and is_differentiable(dtype):
            xp = np if x is None else array_module(x)
            x = xp.asarray(rng.uniform(low, high, shape)).astype(dtype)
        found.append(x)
    return found


class _Trial:
    """Runs of a class, each with the same random numbers."""

    def __init__(self, op: Any, rule: str, draws: tuple):
        self.op, self.rule, self.draws = op, rule, draws

    def run(self, xs: list) -> "_Run":
        """The class's forward on copies of these arrays."""
        random.set_state(self.draws[0])
        np.random.set_state(self.draws[1])
        pythons.setstate(self.draws[2])
        copies = [np.array(x) if isinstance(x, np.generic) else x.copy() for x in xs]
        return _Run(self.op, self.rule, copies)

    def hides_at(self, ctx: Any, xs: list) -> bool | None:
        """The answer at one point; None if it tells nothing."""
        try:
            first, again = self.run(xs), self.run(xs)
            places, before = ctx.saved_places, first.gradients(first.values)
            if first.ctx.saved_places != places:
                return None
            if not all(map(_same, before, again.gradients(again.values))):
                return None
            near = self.run([_moved(x, 1 / 3) for x in xs])
            if near.ctx.saved_places != places:
                return None
            visible = [_is_visible(place, first.ctx) for place in places]
            pairs = zip(visible, first.values, near.values, strict=True)
            mixed = [a if seen else b for seen, a, b in pairs]
            moved = any(map(_moved_smoothly, before, near.gradients(mixed)))
            return moved or not any(visible) and self.is_curved(xs)
        except Exception:  # outside the function's domain, or what cannot run by itself
            return None
        finally:
            with suppress(Exception):
                self.run(xs)  # what forward leaves in closures is again what it had left
            random.set_state(self.draws[0])

    def is_curved(self, xs: list) -> bool:
        """Whether the second differences of forward grow as those of a smooth curve: with h²."""
        times = (0.0, 1.0, -1.0, 2.0, -2.0)
        runs = [self.run([_moved(x, 0.25, t) for x in xs]).ys for t in times]
        return any(_grow_with_square(*[to_host(y) for y in ys]) for ys in zip(*runs, strict=True))


def _is_visible(place: tuple, ctx: Any) -> bool:
    """Whether a saved value is linked to the graph: an argument, or a result with a gradient."""
    kind, i = place
    return kind == "input" or kind == "output" and i not in ctx.constant_outputs


class _Run:
    """One run of the class's forward on arrays, and its backward (or jvp) for a fixed g."""

    def __init__(self, op: Any, rule: str, xs: list):
        self.op, self.rule = type(op)(tuple(op.filled([wrap(x) for x in xs]))), rule
        self.op.needs = op.needs
        y = self.op.forward(*xs)
        self.xs, self.ys = xs, y if isinstance(y, tuple) else (y,)
        self.ctx = self.op.contexts[-1]
        self.values = self.ctx.looked_up(xs, y)

    def gradients(self, values: Any) -> list:
        """What the rule gives on these saved values, on the host."""
        backward = self.rule == "backward"
        ctx = self.ctx.at_use(values, self.op.needs, forward=not backward)
        likes = [*self.ys] if backward else self.op.filled(self.xs)
        for place in self.ctx.plain_places if backward else ():
            likes.insert(place, None)
        rng = np.random.default_rng(1)
        given = getattr(self.op.function, self.rule)(ctx, *[_some(x, rng) for x in likes])
        given = given if isinstance(given, tuple | list) else [given]
        return [None if c is None else to_host(raw(as_tensor(c))) for c in given]


def _some(like: Any, rng: Any) -> Any:
    """A cotangent or tangent for an array; None for anything else."""
    if not hasattr(like, "dtype") or not is_differentiable(like.dtype):
        return None if not hasattr(like, "dtype") else wrap(array_module(like).zeros_like(like))
    g = rng.uniform(0.5, 1.5, like.shape)
    return wrap(array_module(like).asarray(g).astype(like.dtype))


def _moved(x: Any, power: float, times: float = 1.0) -> Any:
    """x with each element a little further: eps^power of the size of x, in a fixed direction."""
    if not is_differentiable(x.dtype) or not x.size:
        return x
    size = float(abs(x).max()) or 1.0
    direction = np.random.default_rng(2).uniform(-1.0, 1.0, x.shape)
    step = times * size * _eps(x.dtype) ** power * direction
    return (x + array_module(x).asarray(step)).astype(x.dtype)


def _eps(dtype: Any) -> float:
    return 2.0**-8 if dtype.kind == "V" else float(np.finfo(dtype).eps)


def _same(a: Any, b: Any) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b, equal_nan=True)


def _moved_smoothly(before: Any, after: Any) -> bool:
    """Whether some element has changed, by more than rounding and less than a jump."""
    if before is None or after is None:
        return False
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    a, b, eps = before.astype(wide), after.astype(wide), _eps(before.dtype)
    change, size = abs(b - a), np.maximum(abs(a), abs(b))
    most = np.maximum(0.3 * size, eps ** (1 / 6))
    return bool(((change > _NOISE * eps * size) & (change > 0) & (change < most)).any())


def _grow_with_square(y: Any, plus: Any, minus: Any, plus2: Any, minus2: Any) -> bool:
    """Whether some element's second difference over 2h is four times that over h."""
    if not is_differentiable(y.dtype):
        return False
    noise = 4 * _NOISE * _eps(y.dtype)
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    y, plus, minus, plus2, minus2 = [x.astype(wide) for x in (y, plus, minus, plus2, minus2)]
    near, far = abs(plus + minus - 2 * y), abs(plus2 + minus2 - 2 * y)
    seen = near > noise * np.maximum(abs(y), abs(plus2))
    return bool((seen & (far > 3 * near) & (far < 5 * near)).any())
