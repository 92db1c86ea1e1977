"""Ops that choose one of their arguments at each place: where, maximum, clip and their kin.

The chosen element gets the whole gradient, the rest exactly 0. Their rules select, by `keep`, and
never multiply by a mask: ∞ · 0 would be NaN.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import common_dtype, finfo, in_one_dtype, is_differentiable, weak_scalars
from ...engine.primitive import elementwise, primitive
from ...engine.registry import numpy_table, op
from ..axes import constant_array
from .support import zero

__all__ = [
    "clip", "fmax", "fmin", "heaviside", "maximum", "minimum", "nan_to_num", "where",
]  # fmt: skip


WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # integers of these many bytes


def choose(condition: Any, a: Any, b: Any) -> Any:
    """np.where, which branches at every element, without branches where a and b allow it.

    With the bits read as integers, ((a xor b) · c) xor b is a for c = 1 and b for c = 0. The
    selection does not depend on the meaning of the bits. On a million random choices five times as
    fast.
    """
    if type(a) is int or type(b) is int:
        _refuse_overflow(a, b)
    if not isinstance(condition, np.ndarray):  # a GPU selects without branches
        a, b = in_one_dtype(a, b)
        y = np.where(condition, a, b)
        both: tuple[Any, Any] = a, b
        numbers = [x for x in both if not hasattr(x, "dtype")]
        dtypes = {x.dtype for x in both if hasattr(x, "dtype")}
        if len(dtypes) != 1 or y.dtype.kind == "c":
            return y
        (dtype,) = dtypes  # CuPy's is float32 for bfloat16
        dtype = np.result_type(dtype, *numbers) if dtype.kind in "biu" else dtype
        return y.astype(dtype, copy=False)
    bits = _bits(condition, a, b)
    if bits is None:
        return np.where(condition, *in_one_dtype(a, b))
    a, b, dtype = bits
    y = a ^ b
    if y.shape != condition.shape:
        return ((y * condition) ^ b).view(dtype)
    y *= condition
    y ^= b
    return y.view(dtype)


def _refuse_overflow(a: Any, b: Any) -> None:
    """OverflowError for a Python integer out of the other's range, which np.where wraps."""
    for number, other in ((a, b), (b, a)):
        dtype = getattr(other, "dtype", None)
        if type(number) is int and dtype is not None and dtype.kind in "biu":
            np.asarray(number, np.int64 if dtype.kind == "b" else dtype)


MANY = 1 << 12  # choices, from which taking a number's bits pays


def _bits(condition: Any, a: Any, b: Any) -> tuple | None:
    """(a, b) as integers of their dtype's size, and that dtype; None where they have no one dtype.

    A number paired with an array gets the array's dtype, where NumPy would do so.
    """
    if condition.dtype.kind != "b":
        return None
    of_a, of_b = getattr(a, "dtype", None), getattr(b, "dtype", None)
    if of_a is None or of_b is None:
        dtype = of_b if of_a is None else of_a
        if dtype is None or condition.size < MANY or dtype.kind not in "fiu":
            return None
        if np.result_type(a, b) != dtype:
            return None
        a, b = np.asarray(a, dtype), np.asarray(b, dtype)
    elif of_a != of_b:
        return None
    else:
        dtype = of_a
    whole = WHOLE.get(dtype.itemsize)
    return None if whole is None else (a.view(whole), b.view(whole), dtype)


def _beside(condition: Any, *others: Any) -> Any:
    """A condition that is one truth value, as an array where the others lie."""
    if hasattr(condition, "dtype") and type(condition) is not np.bool_:
        return condition
    xp = array_module(next((x for x in others if hasattr(x, "dtype")), None))
    return condition if xp is np and hasattr(condition, "dtype") else xp.asarray(condition)


@primitive(kind="elementwise", constants=["condition"])
def keep(x, condition):
    """y = x where the condition holds, else 0, also for infinite x ;  dy/dx = 1 where it holds

    As in `choose`, the bits of x times 0 or 1: ten times as fast as np.where.
    """
    condition = _beside(condition, x)
    condition = condition if condition.dtype.kind == "b" else condition != 0
    whole = WHOLE.get(x.dtype.itemsize)
    if whole is None or not isinstance(x, np.ndarray):  # complex128; a GPU has no need of it
        return np.where(condition, x, 0).astype(x.dtype, copy=False)
    if condition.shape != x.shape:
        return (x.view(whole) * condition).view(x.dtype)
    bits = condition.astype(whole)  # which a product with x would copy through a buffer
    bits *= x.view(whole)
    return bits.view(x.dtype)


@keep.vjp("x")
def keep_dx(g, condition):
    return keep(g, condition)


def zero_wins(a: Any, b: Any) -> Any:
    """a · b, where 0 · ∞ is 0: of a cotangent and a derivative: the gradient of a branch not taken,
    or of a constant, stays 0."""
    a_counts, b_counts = (b != 0) | (np.abs(a) != np.inf), (a != 0) | (np.abs(b) != np.inf)
    return keep(a, a_counts) * keep(b, b_counts)


@primitive(kind="elementwise", constants=["condition"])
def where(condition, a, b):
    """y = a where the condition holds, else b ;  g goes to the chosen side, exactly 0 to the other

    An infinite derivative on the side not taken still spoils what is behind it: 0 · ∞ inside that
    op is NaN. Keep its argument harmless there: where(m, log(where(m, x, 1)), 0).
    """
    return choose(_beside(condition, a, b), a, b)


where.when_missing = ". The positions where a condition holds are mg.nonzero(condition)"


def _numpy_where(condition: Any, *choices: Any) -> Any:
    """np.where, which of a condition alone gives the positions where it holds."""
    return where(condition, *choices) if choices else op.nonzero(condition)


numpy_table[np.where] = _numpy_where


def constant_in(x: Any, y: Any) -> Any:
    """y, which is constant in x wherever x has a derivative: the gradient of x is 0, not None."""
    return where(np.False_, x, y)


@where.vjp("a")
def where_da(g, condition):
    return keep(g, condition)


@where.vjp("b")
def where_db(g, condition):
    return keep(g, np.logical_not(condition))


# -- the larger and the smaller --------------------------------------------------------------


def _to_chosen(g: Any, mine: Any, other: Any) -> Any:
    """g where this argument is chosen (`mine`), half of it where the other one is so, too."""
    return keep(choose(other, g * 0.5, g), mine)


def _or_nan(condition: Any, x: Any) -> Any:
    is_nan = x != x
    if isinstance(is_nan, bool | np.bool_):  # of a number, which has no place among a GPU's arrays
        return np.logical_or(condition, True) if is_nan else condition
    return np.logical_or(condition, is_nan)


maximum = elementwise(
    np.maximum,
    da=lambda g, a, b: _to_chosen(g, _or_nan(a >= b, a), _or_nan(a <= b, b)),
    db=lambda g, a, b: _to_chosen(g, _or_nan(b >= a, b), _or_nan(b <= a, a)),
    doc="y = max(a, b) ;  g goes to the larger, a NaN above all; half to each at a tie",
)
minimum = elementwise(
    np.minimum,
    da=lambda g, a, b: _to_chosen(g, _or_nan(a <= b, a), _or_nan(a >= b, b)),
    db=lambda g, a, b: _to_chosen(g, _or_nan(b <= a, b), _or_nan(b >= a, a)),
    doc="y = min(a, b) ;  g goes to the smaller, a NaN below all; half to each at a tie",
)
fmax = elementwise(
    np.fmax,
    da=lambda g, a, b: _to_chosen(g, _or_nan(a >= b, b), _or_nan(a <= b, a)),
    db=lambda g, a, b: _to_chosen(g, _or_nan(b >= a, a), _or_nan(b <= a, b)),
    doc="y = max(a, b), a NaN loses ;  g goes to the larger, half to each at a tie",
)
fmin = elementwise(
    np.fmin,
    da=lambda g, a, b: _to_chosen(g, _or_nan(a <= b, b), _or_nan(a >= b, a)),
    db=lambda g, a, b: _to_chosen(g, _or_nan(b <= a, a), _or_nan(b >= a, b)),
    doc="y = min(a, b), a NaN loses ;  g goes to the smaller, half to each at a tie",
)

# -- clip ------------------------------------------------------------------------------------


@primitive(kind="elementwise", arrays="x min max")
def clip(x, min=None, max=None):
    """y = min(max(x, min), max); None is no bound; bounds broadcast with x.

    g goes to what was chosen: to x strictly inside, else to the bound. At a bound x gets 0 (the
    minimum-norm choice) and the bound all of g. Where min >= max, y is max. A bound that is NaN is
    chosen.
    """
    if array_module(x) is np and any(array_module(bound) is not np for bound in (min, max)):
        y = x if min is None else np.maximum(x, min)  # a number: CuPy's clip calls NumPy's for it
        return y if max is None else np.minimum(y, max)
    y = np.clip(x, min, max)
    # NumPy has no bfloat16 loop for clip and answers in float32
    if y.dtype.kind != "f" or getattr(x, "dtype", y.dtype).kind != "V":  # x may be a number
        return y
    given = weak_scalars([z for z in (x, min, max) if z is not None])
    return y.astype(common_dtype(*given), copy=False)


@clip.vjp("x")
def clip_dx(g, x, min, max):
    outside = False if min is None else _unless_nan(x <= min, min, True)
    outside = outside if max is None else np.logical_or(outside, _unless_nan(x >= max, max, True))
    return keep(g, np.logical_not(outside))


def _unless_nan(condition: Any, bound: Any, otherwise: bool) -> Any:
    """The condition, and where the bound is NaN `otherwise`; of a number nothing is computed."""
    is_nan = bound != bound
    if is_nan is False:
        return condition
    return np.logical_or(condition, is_nan) if otherwise else condition & np.logical_not(is_nan)


@clip.vjp("min")
def clip_dmin(g, x, min, max):
    chosen = _unless_nan(x <= min, min, True)
    if max is not None:
        chosen = np.logical_and(chosen, _unless_nan(np.logical_not(min >= max), max, False))
    return keep(g, chosen)


@clip.vjp("max")
def clip_dmax(g, x, min, max):
    chosen = _unless_nan(x >= max, max, True)
    return keep(g, chosen if min is None else np.logical_or(chosen, min >= max))


def _numpy_clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Any:
    """np.clip's two spellings of the bounds; each may be one bound alone."""
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError("np.clip: a_min and a_max are min and max in another spelling; give one "
                         "pair of them")  # fmt: skip
    return clip(a, a_min if min is None else min, a_max if max is None else max)


numpy_table[np.clip] = _numpy_clip

# -- steps and repairs -----------------------------------------------------------------------

heaviside = elementwise(
    np.heaviside,
    da=zero,
    db=lambda g, a: keep(g, a == 0),
    doc="y = 0 for a < 0, 1 for a > 0, b at a = 0 ;  ∂y/∂a = 0; ∂y/∂b = 1 where a = 0, else 0",
)


@primitive(kind="elementwise", numpy=np.nan_to_num)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """y = x with NaN and ±∞ replaced by numbers, always a copy ;  dy/dx = 1 where x is finite

    posinf and neginf are the largest and the smallest number of x's dtype unless they are given.
    All three are constants: numbers, or arrays that broadcast to x. Of a complex x each part is
    replaced alone; the gradient of both is 0 then.
    """
    nan = constant_array(nan, "nan")
    posinf, neginf = constant_array(posinf, "posinf"), constant_array(neginf, "neginf")
    plain = isinstance(x, np.generic) or not hasattr(x, "dtype")
    y: Any = np.array(x) if plain else x.copy(order="K")
    if is_differentiable(y.dtype):  # NumPy's function leaves bfloat16, unknown to it, as it is
        most = float(finfo(y.dtype).max)
        large, small = most if posinf is None else posinf, -most if neginf is None else neginf
        for part in (y.real, y.imag) if y.dtype.kind == "c" else (y,):
            if isinstance(part, np.ndarray) and np.isfinite(part).all():
                continue  # a tenth of the passes; a GPU would be waited for
            places = part != part, part == np.inf, part == -np.inf
            for number, where_it_goes in zip((nan, large, small), places, strict=True):
                np.copyto(part, number, where=where_it_goes)
    return y if y.ndim else y[()]


@nan_to_num.vjp("x")
def nan_to_num_dx(g, x):
    return keep(g, np.isfinite(x))
