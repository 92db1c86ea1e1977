"""K29: fused and compiled, an op gives NumPy's results at the ends of the number line."""

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...backends.optional import optional
from ...compiled import accelerate
from ...engine.graph import Leaf, wrap
from ...expressions.trace import holds_for
from ...fusion.fuse import fuse
from ...tensor_api.derivatives import grad
from ..case import Context, argument_names, differentiated, primitive_of
from ..errors import DoesNotApply, GradcheckError
from ..function import Arrays, Function, as_array, is_smooth_array, replaced
from ..spec import OpSpec, Sample
from .base import check
from .special import special_values

_MOST = 1 << 12  # combinations of special values: fewer values for many arguments
_LEAST = 128  # elements: a loop then has whole vectors and a rest
_SOME = (1.5, -2.5, 3.7, 20, -20, 100, -100)
_RELATIVE, _ABSOLUTE = 256, 16  # roundings by which loops may differ: compiled/functions.py
_SUMS = 1000  # roundings of the largest entry: sums are added in another order


@check("K29", "fused and compiled, NumPy's numbers at ±0, ±∞, NaN, the smallest and the largest",
       per="op", gradient=False, optional=True)  # fmt: skip
def k29(spec: OpSpec, context: Context) -> int:
    """Value and gradients of an op as a program of one element: fused, and as a compiled loop.

    The loop runs in float32, at the full level also in float64. (tests/compiled/test_words.py
    compares all functions that loops call in both.) An op with its own compiled code runs with
    mg.accelerate on, with infinities, NaN and tiny numbers among those of its samples.
    """
    count, compiles = 0, optional("numba") is not None
    for dtype in ("float64", "float32", "float16"):
        samples = context.samples(spec, dtype) if dtype in spec.dtypes else []
        loops = compiles and (dtype == "float32" or (context.full and dtype == "float64"))
        for sample in {repr(s.params): s for s in reversed(samples)}.values():
            count += _as_a_program(spec, sample, dtype, loops)
        if compiles and dtype == "float32":
            count += _by_its_own_code(spec, samples if context.full else samples[:3])
    if not compiles:
        context.notes.add((spec.name, "K29", "compiled: numba is not installed"))
    if not count:
        raise DoesNotApply("the op is no program of one element")
    return count


# -- programs of one element -----------------------------------------------------------------------


def _as_a_program(spec: OpSpec, sample: Sample, dtype: str, loops: bool) -> int:
    """How many numbers were compared: none, if the op cannot be recorded as such a program."""
    args = _combinations(sample, dtype)
    fn = functools.partial(spec.call, **sample.params)
    if not args or not holds_for(fn, [x.dtype for x in args], [x.shape for x in args]):
        return 0
    positions = differentiated(spec, tuple(args))
    with _warned() as usual:
        accepted = [_value_and_gradients(fn, args, positions)]
    if dtype == "float16":  # fused, it computes in float32, and rounds once, at the end
        wide = [x.astype(np.float32) if is_smooth_array(x) else x for x in args]
        ys = _value_and_gradients(fn, wide, positions)
        accepted.append([y.astype(x.dtype) for x, y in zip(accepted[0], ys, strict=True)])
    forms = {"fused": lambda: _value_and_gradients(fuse(fn), args, positions)}
    if loops:
        forms["compiled"] = lambda: _by_a_loop(fn, args, positions)
    count = 0
    for form, computed in forms.items():
        with _warned() as new:
            found = computed()
        if new and not usual:
            raise GradcheckError(f"{form}, {dtype}: {new[0].message}; otherwise nothing is said")
        for i, y in enumerate(found[: len(accepted[0])]):
            what = f"{form}, {dtype}: {_name(i, positions, spec)}"
            _require_one_of(y, [ys[i] for ys in accepted], args, what)
            count += y.size
    return count


def _combinations(sample: Sample, dtype: str) -> list[np.ndarray]:
    """All tuples of special values in the floating arguments; fewer values for many arguments."""
    places = [i for i, x in enumerate(sample.args) if is_smooth_array(x)]
    if not places or not all(isinstance(x, np.ndarray) for x in sample.args):
        return []
    values = np.concatenate([special_values(dtype), np.array(_SOME, dtype)])
    some = np.linspace(0, len(values) - 1, int(_MOST ** (1 / len(places)))).astype(int)
    values = values if len(values) ** len(places) <= _MOST else values[some]
    grid = [x.reshape(-1) for x in np.meshgrid(*[values] * len(places), indexing="ij")]
    args = []
    for i, x in enumerate(sample.args):
        full = grid[places.index(i)] if i in places else np.resize(x, grid[0].shape)
        args.append(np.tile(full, 1 + _LEAST // full.size))
    return args


_COTANGENTS = (1.0, 0.0)


def _value_and_gradients(fn: Callable, args: list, positions: list[int]) -> Arrays:
    """[the value, its gradients for a cotangent of ones, those for one of zeros]."""
    leaves = list(args)
    for i in positions:
        leaves[i] = Function.leaves([args[i]])[0]
    y = fn(*leaves)
    found = [as_array(y)]
    for g in _COTANGENTS if getattr(y, "requires_grad", False) else ():
        wanted = [leaves[i] for i in positions]
        gs = grad([y], wanted, [np.full_like(found[0], g)], retain_graph=True, allow_unused=True)
        found += [as_array(wanted[k] * 0 if g is None else g) for k, g in enumerate(gs)]
    return found


def _by_a_loop(fn: functools.partial, args: list, positions: list[int]) -> Arrays:
    """The same by one compiled loop, recorded on symbols; [] if it cannot be one."""
    from ...compiled import launch

    def program(g: Any, *xs: Any) -> list:
        leaves = list(xs)
        for i in positions:
            leaves[i] = wrap(xs[i])
            leaves[i].node = Leaf(leaves[i])
        y = fn(*leaves)
        if not getattr(y, "requires_grad", False):
            return [getattr(y, "data", y)]
        gs = grad([y], [leaves[i] for i in positions], [wrap(g)], allow_unused=True)
        return [y.data, *[np.zeros_like(g) if x is None else x.data for x in gs]]

    key, found = object(), []
    for g in _COTANGENTS:
        gs = np.full_like(next(x for x in args if is_smooth_array(x)), g)
        ys = launch.run(key, program, [gs, *args]) or []
        found += ys[1:] if found else ys
    return found


# -- ops with their own compiled code -----------------------------------------------------------


def _by_its_own_code(spec: OpSpec, samples: list[Sample]) -> int:
    """With mg.accelerate on and off, one element and then all elements of each argument in turn are
    infinite, NaN, tiny or −0. Sums of the largest numbers may overflow in one order alone."""
    primitive = primitive_of(spec)
    cases = [
        (Sample(sample.name, args, sample.params), f"{sample.name}, {value} in argument {i}")
        for sample in samples
        for i in differentiated(spec, sample.args)
        for value in (
            np.inf,
            -np.inf,
            np.nan,
            -0.0,
            2.0**76,
            float(np.finfo("float32").smallest_subnormal),
        )
        for args in _with(sample.args, i, value)
    ]
    with _accelerated(primitive.name if primitive is not None else "") as own:
        found = [_called(spec, sample) for sample, _ in cases] if own else []
    count = 0
    for ys, (sample, what) in zip(found, cases, strict=False):
        for i, (y, exact) in enumerate(zip(ys, _called(spec, sample), strict=True)):
            finite = np.isfinite(exact)
            size = float(np.abs(exact[finite]).max(initial=0.0))
            off = _SUMS * np.finfo(exact.dtype).eps * size if exact.dtype.kind == "f" else 0.0
            what = f"compiled, {what}: array {i} of value and gradients"
            _require_one_of(y, [exact], sample.args, what, off, signed=False)
            count += y.size
    return count


def _with(args: tuple, i: int, value: float) -> Iterator[tuple]:
    for place in (..., np.size(args[i]) // 2) if np.size(args[i]) else ():
        changed = args[i].copy()
        changed.reshape(-1)[place] = value
        yield replaced(args, i, changed)


def _called(spec: OpSpec, sample: Sample) -> Arrays:
    """The results, and the gradients of all arguments for cotangents of several sizes and signs."""
    positions = differentiated(spec, sample.args)
    function = Function(spec.call, sample.args, sample.params, positions)
    leaves, ys = function.record(function.xs)
    values = [as_array(y) for y in ys]
    vs = [np.cos(np.arange(y.size)).reshape(y.shape).astype(y.dtype) for y in values]
    pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if getattr(y, "requires_grad", False)]
    if not pairs:
        return values
    gs = grad([y for y, _ in pairs], leaves, [v for _, v in pairs], allow_unused=True)
    return values + [as_array(g) for g in gs if g is not None]


@contextmanager
def _accelerated(name: str) -> Iterator[bool]:
    """mg.accelerate on, for arrays of any size; yields whether the op has compiled code."""
    from ...compiled import install

    if name not in install.own_code():
        yield False
        return
    least, install.LEAST = install.LEAST, 1
    try:
        with accelerate(process=False):
            yield True
    finally:
        install.LEAST = least


# -- the comparison --------------------------------------------------------------------------------


@contextmanager
def _warned() -> Iterator[list]:
    with warnings.catch_warnings(record=True) as seen, np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("always")
        yield seen


def _require_one_of(
    y: np.ndarray, accepted: list, args: Any, what: str, off: float = 0.0, signed: bool = True
) -> None:
    """NaN where NaN, ∞ where ∞, zeros of one sign, and else equal but for rounding: each element
    must match one of `accepted`."""
    same = np.zeros(y.shape, bool)
    for exact in accepted:
        if y.shape != exact.shape or y.dtype != exact.dtype:
            was, is_now = f"{exact.dtype} {exact.shape}", f"{y.dtype} {y.shape}"
            raise GradcheckError(f"{what} is {is_now}; otherwise it is {was}")
        same |= _same(y, exact, off, signed)
    if not same.all():
        at = tuple(int(k) for k in np.argwhere(~same)[0])
        given = [float(x[at]) for x in args if is_smooth_array(x) and x.shape == y.shape]
        raise GradcheckError(f"{what} for {given}: {y[at]!r}; otherwise it is {accepted[0][at]!r}")


def _same(y: np.ndarray, exact: np.ndarray, off: float, signed: bool) -> np.ndarray:
    if y.dtype.kind not in "fc":
        return y == exact
    eps = np.finfo(y.dtype).eps
    near = np.abs(y - exact) <= eps * (_RELATIVE * np.abs(exact) + _ABSOLUTE) + off
    equal = y == exact
    if signed and y.dtype.kind == "f":
        equal &= (y != 0) | (np.signbit(y) == np.signbit(exact))
        near &= (y != 0) | (exact != 0)
    return equal | (near & np.isfinite(exact)) | (np.isnan(y) & np.isnan(exact))


def _name(i: int, positions: list[int], spec: OpSpec) -> str:
    if not i:
        return "the value"
    turn, k = divmod(i - 1, len(positions))
    names, at = argument_names(spec), positions[k]
    name = names[at] if at < len(names) else f"argument {at}"
    return f"the gradient by {name} of a cotangent of {_COTANGENTS[turn]:g}"
