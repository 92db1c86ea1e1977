"""Whether a gradient depends on its inputs in a way that the graph does not show.

A second derivative follows what a rule reads by its arguments: inputs and results. A forward may
leave a value elsewhere: an array or a number made of x on ctx, in a closure, a global or a class.
That value looks like a constant, and its part of the second derivative would be 0 in silence.
Nothing that can be read in the code tells it from a true constant, such as a mask or a window. So a
Function's class, or an op with such a rule, is tried when a backward is recorded for the first
time:

- The forward runs at a point near by, and the rule on what that has left, but with the inputs and
  results of the first point. If the gradients change a little, they depend on x in hiding.
- Where the rule reads no input or result at all, the gradients cannot depend on x as far as the
  graph shows; then the forward must not be curved.

A jump is no smooth dependence: a mask that flips has the derivative 0. A run that is random, fails,
or differs each time proves nothing, and counts as constant. A run of the rule follows each run of a
forward, for those that push and pop. The last run is at the first point: the forward then leaves
its former values behind.
"""

import random as pythons
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import array_module, to_host
from ..backends.dtypes import is_differentiable
from ..backends.leaving import ended_by
from ..modes.recording import inside_forward

_NOISE = 64  # units in the last place that say nothing
_PLAIN_MODULES = {"builtins", "cmath", "cupy", "math", "minigrad", "numpy", "scipy"}
SMALL = 1 << 14  # bytes up to which an input is copied, for a rule that reads something outside


def reads_arguments_alone(function: Any, seen: frozenset = frozenset()) -> bool:
    """Whether a rule (a Function's backward or jvp) can be seen to read only what it is given.

    It may call functions of which the same can be seen.
    """
    fn = getattr(function, "__wrapped__", function)
    code, names = getattr(fn, "__code__", None), getattr(fn, "__globals__", {})
    if code is None or isinstance(fn, MethodType) or code.co_freevars:
        return False
    if fn.__defaults__ or fn.__kwdefaults__:
        return False
    builtin = names.get("__builtins__", {})
    known = builtin if isinstance(builtin, dict) else vars(builtin)
    seen |= {fn}
    return all(_is_plain(names.get(name, known.get(name)), seen) for name in _globals_of(code))


def _globals_of(code: CodeType) -> set[str]:
    """Names that the code, or a function in it, may look up outside; attributes are among them."""
    inner = [_globals_of(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names}.union(*inner)


def _is_plain(value: Any, seen: frozenset) -> bool:
    """Whether a global is no place to keep a number: NumPy, this library, their functions."""
    if value in seen if isinstance(value, FunctionType) else value is None:
        return True
    if isinstance(value, ModuleType):
        module = value.__name__
    elif isinstance(value, type) or callable(value) and not hasattr(value, "dtype"):
        module = getattr(value, "__module__", None) or type(value).__module__
    else:
        return False
    if module.partition(".")[0] in _PLAIN_MODULES:
        return True
    return isinstance(value, FunctionType) and reads_arguments_alone(value, seen)


def holds_numbers(value: Any, depth: int = 5) -> bool:
    """Whether floating numbers can be found in a value, in its contents, in a function's reads.

    A container of more than a thousand entries is taken to hold some.
    """
    if isinstance(value, str | bytes | int | ModuleType | None):
        return False
    if isinstance(value, float | complex) or not depth:
        return True
    if hasattr(value, "dtype") and not isinstance(value, type):
        return is_differentiable(value.dtype)
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple | set | frozenset | deque):
        parts = value
    elif isinstance(value, FunctionType | MethodType):
        parts = read_outside(value)
    else:  # an object, or a class with what it has been given
        own = {} if _is_plain(value, frozenset()) else getattr(value, "__dict__", {})
        slots = getattr(type(value), "__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        parts = [*own.values(), *[getattr(value, name, None) for name in names if name[:2] != "__"]]
    return len(parts) > 1000 or any(holds_numbers(part, depth - 1) for part in [*parts])


def read_outside(function: Any) -> list:
    """The values that a rule may read in addition to its arguments: closures, globals, defaults,
    its object."""
    fn: Any = getattr(function, "__wrapped__", function)
    found = [fn.__self__] if isinstance(fn, MethodType) else []
    fn = getattr(fn, "__func__", fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return [*found, *getattr(fn, "__dict__", {}).values(), *getattr(fn, "args", ())]
    for cell in fn.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not set yet
            continue
    found += [fn.__globals__[name] for name in _globals_of(code) if name in fn.__globals__]
    return [*found, *(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]


class Run:
    """One run of a forward on its copies, and the rule's result for the saved values.

    values     what is saved for the rule, of which `visible` says whether the graph shows it
    ys         the results
    """

    values: Sequence
    visible: Sequence[bool]
    ys: Sequence

    def gradients(self, values: Sequence) -> list:
        """The rule's result for these saved values and a fixed cotangent, on the host."""
        raise NotImplementedError


def hides(run: Callable[[list], Run], points: list[list]) -> bool:
    """Whether the gradients depend on the inputs in hiding, by the first point that tells it."""
    draws = random.get_state(), np.random.get_state(), pythons.getstate()

    def repeated(xs: list) -> Run:
        _set(draws)
        return run([np.array(x) if isinstance(x, np.generic) else x.copy() for x in xs])

    with ended_by(partial(_set, draws)), np.errstate(all="ignore"):
        found = (inside_forward(_hides_at, repeated, xs) for xs in points)
        return next((answer for answer in found if answer is not None), False)


def _set(draws: tuple) -> None:
    random.set_state(draws[0])
    np.random.set_state(draws[1])
    pythons.setstate(draws[2])


def _hides_at(run: Callable[[list], Run], xs: list) -> bool | None:
    """The answer at one point; None if it tells nothing."""
    before, answer = None, None
    try:
        first = run(xs)
        before = first.gradients(first.values)
        near = run([moved(x, 1 / 3) for x in xs])
        mixed = [
            a if seen else b
            for seen, a, b in zip(first.visible, first.values, near.values, strict=True)
        ]
        after = near.gradients(mixed)
        answer = any(map(_moved_smoothly, before, after))
        answer = answer or not any(first.visible) and _is_curved(run, xs)
    except Exception:  # outside the domain, or what cannot run by itself
        before = None
    try:
        last = run(xs)
        again = last.gradients(last.values)
    except Exception:
        return None
    same = before is not None and len(before) == len(again) and all(map(_same, before, again))
    return answer if same else None


def _is_curved(run: Callable[[list], Run], xs: list) -> bool:
    """Whether the second differences of the forward grow as those of a smooth curve: with h²."""
    results = []
    for times in (0.0, 1.0, -1.0, 2.0, -2.0):
        made = run([moved(x, 0.25, times) for x in xs])
        made.gradients(made.values)
        results.append([to_host(y) for y in made.ys])
    return any(_grow_with_square(*ys) for ys in zip(*results, strict=True))


def some(like: Any, seed: int = 1) -> Any:
    """A fixed cotangent or tangent for an array; zeros for one of integers."""
    if not is_differentiable(like.dtype):
        return array_module(like).zeros_like(like)
    g = np.random.default_rng(seed).uniform(0.5, 1.5, like.shape)
    return array_module(like).asarray(g).astype(like.dtype)


def moved(x: Any, power: float, times: float = 1.0) -> Any:
    """x with each element a little further: eps^power of the size of x, in a fixed direction."""
    if not is_differentiable(x.dtype) or not x.size:
        return x
    size = float(abs(x).max()) or 1.0
    direction = np.random.default_rng(2).uniform(-1.0, 1.0, x.shape)
    step = times * size * _eps(x.dtype) ** power * direction
    return (x + array_module(x).asarray(step)).astype(x.dtype)


def _eps(dtype: Any) -> float:
    return 2.0**-8 if dtype.kind == "V" else float(np.finfo(dtype).eps)


def _wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _same(a: Any, b: Any) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b, equal_nan=True)


def _moved_smoothly(before: Any, after: Any) -> bool:
    """Whether some element has changed, by more than rounding and less than a jump."""
    if before is None or after is None:
        return False
    a, b, eps = _wide(before), _wide(after), _eps(before.dtype)
    change, size = abs(b - a), np.maximum(abs(a), abs(b))
    most = np.maximum(0.3 * size, eps ** (1 / 6))
    return bool(((change > _NOISE * eps * size) & (change > 0) & (change < most)).any())


def _grow_with_square(y: Any, plus: Any, minus: Any, plus2: Any, minus2: Any) -> bool:
    """Whether some element's second difference over 2h is four times that over h."""
    if not is_differentiable(y.dtype):
        return False
    noise = 4 * _NOISE * _eps(y.dtype)
    y, plus, minus, plus2, minus2 = map(_wide, (y, plus, minus, plus2, minus2))
    near, far = abs(plus + minus - 2 * y), abs(plus2 + minus2 - 2 * y)
    seen = near > noise * np.maximum(abs(y), abs(plus2))
    return bool((seen & (far > 3 * near) & (far < 5 * near)).any())
