"""Padding: zeros or a constant around x, or x's own elements repeated beyond its edges."""

from typing import Any

import numpy as np

from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import array_like, constant_array, constant_like, number_in, widen
from .borders import OPTION, bordered

__all__ = ["pad", "pad_repeated", "pad_repeated_dx", "pad_zeros"]

_FROM_X = ("reflect", "symmetric", "edge", "wrap")
_MODES = {"constant", "empty", *_FROM_X, *OPTION}


@linear
def pad_zeros(x, widths=()):
    """x with zeros around it, widths = ((before, after) for each axis) ;  gx = the middle of g."""
    if len(widths) != x.ndim:
        raise ValueError(f"widths={widths!r} must hold a pair for each of {x.ndim} axes")
    return np.pad(x, widths) if x.ndim else x.copy()


@pad_zeros.vjp("x")
def pad_zeros_dx(g, widths, x_shape):
    return g[tuple([slice(a, a + n) for (a, _), n in zip(widths, x_shape)])]


@pad_zeros.batch
def pad_zeros_batch(op, xs, batched, params):
    return op(*xs, widths=((0, 0), *params["widths"]))


@linear
def pad_repeated(x, *, widths, mode):
    """x with its own elements around it, as np.pad of this mode ("edge", "reflect" …) has them

    widths: (before, after) for each axis. gx: the middle of g, and each element of the border added
    where it came from.
    """
    return np.pad(x, widths, mode)


@pad_repeated.vjp("x")
def pad_repeated_dx_rule(g, widths, mode, x_shape):
    return op.pad_repeated_dx(g, widths=widths, mode=mode, shape=x_shape)


@linear
def pad_repeated_dx(x, *, widths, mode, shape):
    """The transpose of pad_repeated: x folded back to `shape`, 16-bit floats added in float32

    The border consists of stretches that run through the padded array forwards or backwards. Each
    is added to a slice, which needs no index for each element, and in one order everywhere.
    """
    padded = tuple([before + n + after for (before, after), n in zip(widths, shape, strict=True)])
    if x.shape != padded:
        raise ValueError(f"x {x.shape} must be {padded}: {shape} with widths {widths} around it")
    along = [
        (axis, before, n, _stretches(n, before, after, mode))
        for axis, ((before, after), n) in enumerate(zip(widths, shape, strict=True))
        if before or after
    ]
    return _folded(widen(x), along).astype(x.dtype, copy=False)


@pad_repeated_dx.vjp("x")
def pad_repeated_dx_dx(g, widths, mode):
    return op.pad_repeated(g, widths=widths, mode=mode)


@pad_repeated.batch
def pad_repeated_batch(op, xs, batched, params):
    return op(*xs, **{**params, "widths": ((0, 0), *params["widths"])})


@pad_repeated_dx.batch
def pad_repeated_dx_batch(op, xs, batched, params):
    widths, shape = ((0, 0), *params["widths"]), (xs[0].shape[0], *params["shape"])
    return op(*xs, widths=widths, mode=params["mode"], shape=shape)


def _folded(g: Any, along: list) -> Any:
    """A new array: the middle of g along these axes, with what lies around it added to it."""
    if not along:
        return g.copy()
    (axis, before, n, stretches), *rest = along
    lead = (slice(None),) * axis
    y = _folded(g[(*lead, slice(before, before + n))], rest)
    for there, here in stretches:
        border = _folded(g[(*lead, there)], rest)
        if isinstance(here, int):  # one element repeated
            border, here = border.sum(axis, keepdims=True), slice(here, here + 1)
        y[(*lead, here)] += border
    return y


def _stretches(n: int, before: int, after: int, mode: Any) -> list[tuple[slice, Any]]:
    """The border along an axis of n elements: (a slice of the padded axis, the slice of x there).

    An int in place of a slice of x is one element, repeated.
    """
    found = []
    places = np.pad(np.arange(n), (before, after), mode)
    for start, stop in ((0, before), (before + n, before + n + after)):
        steps = np.diff(places[start:stop])
        while start < stop:
            own = steps[len(steps) - (stop - start - 1) :]
            step = int(own[0]) if own.size else 1
            other = np.flatnonzero(own != step)
            end = start + 1 + int(other[0] if other.size else own.size)
            first, last = int(places[start]), int(places[end - 1])
            if abs(step) > 1:  # from one end to the other: a separate stretch
                end, last, step = start + 1, first, 1
            here: Any = slice(first, last + 1) if step > 0 else first
            if step < 0:
                here = slice(first, last - 1 if last else None, -1)
            found.append((slice(start, end), here))
            start = end
    return found


@composite(numpy=np.pad)
@on_its_gpu
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0, **other) -> Any:
    """x with elements added around it: NumPy's pad.

    pad_width: an int, (before, after), one pair for each axis, or {axis: widths}. mode:
    "constant" (constant_values, a number or pairs like the widths), "edge" (the last element
    again), "reflect" (mirrored about the last element), "symmetric" (mirrored behind it), "wrap"
    (from the other end), "mean", "median", "maximum" or "minimum" (of the stat_length elements
    nearest to the border, by default all), "linear_ramp" (in equal steps to
    end_values, by default 0), "empty" (anything: zeros here).
    An element that appears several times gets the sum of the gradients. With reflect_type="odd"
    the two mirrors turn x over as well: twice the last element less what "even" would have there.
    """
    x = array_like(x)
    value = other.pop(OPTION[mode], None) if mode in OPTION else None
    odd = mode in ("reflect", "symmetric") and other.pop("reflect_type", "even") == "odd"
    if other:
        raise TypeError(
            f"pad: {sorted(other)} are not supported with mode={mode!r}; cut or scale the result"
        )
    widths = _pairs(pad_width, x.ndim)
    if mode not in _MODES:
        choices = ", ".join(sorted(_MODES - {"constant"}))
        raise ValueError(f"pad: mode={mode!r}; choose 'constant' or one of {choices}")
    if mode != "constant" and not (type(constant_values) is int and constant_values == 0):
        raise TypeError(f"pad: constant_values has no meaning with mode={mode!r}; leave it out")
    if mode in ("constant", "empty"):  # "empty": any values; zeros do
        return _constant(x, widths, constant_values)
    if not any(before or after for before, after in widths):
        return op.copy(x)
    if mode in OPTION:
        return bordered(x, widths, mode, value)
    if odd and x.dtype.kind == "b":
        raise TypeError(
            "pad: reflect_type='odd' takes twice the last element less others, which truths do not "
            "have; leave it out, or pad x.astype(int)"
        )
    return _turned_over(x, widths, mode) if odd else op.pad_repeated(x, widths=widths, mode=mode)


def _constant(x: Any, widths: tuple, constant_values: Any) -> Any:
    if np.ndim(constant_values) != 0:
        return _sides_padded(x, widths, constant_values)
    constant_values = number_in(constant_values, x.dtype, "constant_values")
    y = op.pad_zeros(x, widths=widths)
    if isinstance(constant_values, int | float) and constant_values == 0:
        return y
    inside = op.pad_zeros(op.ones_like(x, dtype=bool), widths=widths)
    y = op.where(inside, y, constant_values)
    return op.astype(y, dtype=x.dtype, copy=False)  # as in NumPy


def _turned_over(x: Any, widths: tuple, mode: Any) -> Any:
    """x with its point reflections around it: an axis pads what those before it have padded.

    Each element is s x[place] + a x[0] + b x[−1], s + a + b = 1, with place where "even" has it.
    What NumPy makes of an axis that is 1 at one end and 0 else are the coefficients a and b.
    """
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        if not (before or after):
            continue
        own = tuple([(before, after) if k == axis else (0, 0) for k in range(x.ndim)])
        y = op.pad_repeated(x, widths=own, mode=mode if n > 1 else "edge")
        if n > 1:
            column = (-1, *(1,) * (x.ndim - 1 - axis))
            a, b = (_share_of(end, n, own[axis], mode) for end in (0, n - 1))
            place = np.pad(np.arange(n), own[axis], mode)
            s = np.where((place == 0) | (place == n - 1), 0, 1 - a - b)
            s, a, b = (constant_like(c.astype(x.dtype).reshape(column), x) for c in (s, a, b))
            y = _times(s, y) + _times(a, x[_one(axis, 0)]) + _times(b, x[_one(axis, n - 1)])
        x = y
    return x


def _share_of(end: int, n: int, widths: tuple, mode: Any) -> Any:
    unit = np.zeros(n, np.int64)
    unit[end] = 1
    return np.pad(unit, widths, mode, reflect_type="odd")


def _times(c: Any, x: Any) -> Any:
    """c x, and 0 where c is 0, also of an infinite x."""
    return c * op.where(c != 0, x, 0)


def _one(axis: int, place: int) -> tuple:
    return (*(slice(None),) * axis, slice(place, place + 1))


def _sides_padded(x: Any, widths: tuple, constant_values: Any) -> Any:
    """x with one constant for each side; each axis pads the result of those before it."""
    try:
        values = np.broadcast_to(constant_values, (x.ndim, 2)).tolist()
    except ValueError:
        raise ValueError(
            f"pad: constant_values={constant_values!r} must be one number, (before, after), or a "
            f"pair for each of {x.ndim} axes"
        ) from None
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        x = op.pad(x, {axis: (before, 0)}, constant_values=low)
        x = op.pad(x, {axis: (0, after)}, constant_values=high)
    return x


def _numbers(widths: Any) -> Any:
    """Widths with plain numbers in place of tensors, as a computed width is one."""
    if isinstance(widths, dict):
        return {axis: _numbers(pair) for axis, pair in widths.items()}
    if isinstance(widths, list | tuple):
        return [_numbers(width) for width in widths]
    plain = constant_array(widths, "pad_width")
    return plain.tolist() if hasattr(plain, "tolist") else plain


def _pairs(widths: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """(before, after) for each axis, as np.pad reads its pad_width."""
    widths = _numbers(widths)
    try:
        if isinstance(widths, dict):
            given = {i % ndim: np.broadcast_to(pair, (2,)).tolist() for i, pair in widths.items()}
            pairs = [given.get(axis, [0, 0]) for axis in range(ndim)]
        else:  # as objects: uint64 with int64 would be float64
            pairs = np.broadcast_to(np.asarray(widths, object), (ndim, 2)).tolist()
    except ValueError:
        raise ValueError(
            f"pad: pad_width must be an int, (before, after), or a pair for each of the {ndim} "
            f"axes of x; got {widths!r}"
        ) from None
    if any(not isinstance(n, int | np.integer) for pair in pairs for n in pair):
        raise TypeError(f"pad: pad_width must hold integers, got {widths!r}")
    if any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"pad: pad_width must not be negative, got {widths!r}; slice x instead")
    return tuple([(int(before), int(after)) for before, after in pairs])
