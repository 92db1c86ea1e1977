"""Powers, and their derivatives of every order where the base is 0."""

import math
from typing import Any

import numpy as np

from ...backends.dtypes import finfo
from ...engine.primitive import elementwise, primitive
from ...engine.registry import op
from ..axes import in_wide
from .selection import keep
from .support import recorded, with_fractions

__all__ = ["float_power", "pow", "power"]

_NUMBERS = (int, float, complex)


def _power(a: Any, b: Any) -> Any:
    """a ** b, which for a Python number b takes NumPy's short cuts (x ** 2 is x * x).

    Not of booleans: NumPy's short cut for their square gives int8, its power int64.
    """
    short = type(b) in _NUMBERS and hasattr(a, "dtype") and a.dtype != bool
    if short and isinstance(a, np.ndarray) and a.dtype.char in "fd":
        if type(b) is not complex and b in _WHOLE:
            return _whole_power(a, b)
    return a**b if short else np.power(a, b)


_WHOLE = frozenset(range(-64, 65)) - {-1, 0, 1, 2}  # exponents; for those left out NumPy has loops


def _whole_power(a: Any, n: Any) -> Any:
    """aⁿ by |a|ⁿ, since NumPy's vector loop is for a ≥ 0 alone, and a < 0 far slower."""
    if n == 3:
        return a * a * a
    y = np.power(np.abs(a), n)
    return np.copysign(y, a) if n % 2 else y


def power_da(g: Any, a: Any, b: Any) -> Any:
    """b aᵇ⁻¹, which is 0 for b = 0 at every a, also where aᵇ⁻¹ is infinite."""
    if type(b) is float and b - b != 0:  # infinite: as an array, whose powers of 0 outweigh it
        b = np.result_type(a.dtype, b).type(b)
    if type(b) in _NUMBERS or type(b) is bool:
        if b == 2:  # by far the most frequent: without a copy of a
            return g * (b * a)
        if type(b) is float and -1 < b < 0.34 and b != 0:  # aᵇ⁻¹ may be infinite, b times it not
            half = pow(a, (b - 1) / 2)
            return g * (b * half * half)
        return g * (b * pow(a, b - 1)) if b != 0 else np.zeros_like(g)
    if recorded(g, a, b):
        return power_derivative(a, b, by_a=1) * g
    b = _signed(b)
    # Only where b = 0 and a is 0, subnormal or NaN is 0·aᵇ⁻¹ not the right zero. The exponent is
    # raised by 1 there alone.
    ordinary = np.abs(a) >= finfo(a.dtype).smallest_normal
    rest = b - 1 + np.logical_and(np.logical_not(ordinary), b == 0)
    # elsewhere no look at values is free
    if not isinstance(a, np.ndarray | np.generic) and "c" not in a.dtype.kind + b.dtype.kind:
        small = (np.abs(b) < 1) & (b != 0) & (a > 0)
        half = a ** np.where(small, 0.5 * rest, rest)
        outweighed = np.logical_and(half == 0, np.isinf(b))
        return keep(half * b * np.where(small, half, 1) * g, np.logical_not(outweighed))
    power = a**rest
    if _ordinary(power):
        # New arrays on the left. Large ones on the right NumPy multiplies in place and the other
        # way round, and products of complex numbers then have other bits.
        return power * b * g
    return _number_if_it_can_be(power, b, power, a, b, by_a=1) * g


def _signed(b: Any) -> Any:
    """b, in which b − 1 does not wrap round; float64 would be wider than a."""
    unsigned = hasattr(b, "dtype") and b.dtype.kind == "u"
    return b.astype(np.result_type(b.dtype, np.int8)) if unsigned else b


def power_db(g: Any, y: Any, a: Any, b: Any) -> Any:
    """aᵇ log a; at a = 0 its limit, which is 0, or −∞ for an infinite y; NaN for a negative base
    where y is real."""
    if recorded(g, y, a, b):
        return power_derivative(a, b, by_b=1) * g
    a = with_fractions(a)
    if y.dtype.kind == "c":  # so is the logarithm then, also that of a real base
        a = a + 0j
    zero = a == 0
    if isinstance(zero, np.ndarray) and not np.count_nonzero(zero):  # 0⁰ = 1 has a 0 as well
        if _ordinary(y):
            return np.log(a) * y * g
        return _number_if_it_can_be(np.log(a), y, y, a, b, by_b=1) * g
    log = np.log(a + zero) - zero  # negative at 0: of an infinite size −∞
    log = log.item() if type(a) in _NUMBERS else log
    slope = _number_if_it_can_be(np.where(zero, np.abs(y), y), log, y, a, b, by_b=1)
    nothing = np.logical_and(zero, np.abs(y) <= 1)
    if not isinstance(zero, np.ndarray):  # elsewhere no look at values is free
        nothing = np.logical_or(nothing, np.logical_and(y == 0, a == np.inf))
    return keep(slope * g, np.logical_not(nothing))


def _ordinary(power: Any) -> bool:
    """Whether powers are known to be positive and finite. Beside them nothing is 0 · ∞."""
    if type(power) is not np.ndarray or power.dtype.kind != "f" or not power.size:
        return False
    return 0 < power.item(power.argmin()) and power.item(power.argmax()) < np.inf


def _number_if_it_can_be(x: Any, factor: Any, power: Any, a: Any, b: Any, **orders: int) -> Any:
    """x times the factor, one of them the power, found in another way where that is 0 · ∞ or the
    power is infinite."""
    with np.errstate(invalid="ignore"):
        slope = x * factor
        if not isinstance(power, np.ndarray | np.generic) or power.dtype.char not in "efd":
            return slope
        finite = np.isfinite(slope)
        if finite.all():
            return slope
        special = np.logical_or(power == 0, np.logical_and(np.isinf(power), a > 0))
        special = np.logical_and(special, np.logical_not(finite))
        return op.where(special, power_derivative.forward(a, b, **orders), slope)


@primitive(kind="elementwise")
def power_derivative(a, b, by_a=0, by_b=0):
    """y = ∂ᵐ/∂aᵐ ∂ⁿ/∂bⁿ aᵇ = aᵇ⁻ᵐ Σₖ C(n, k) ((b)ₘ)⁽ᵏ⁾ logⁿ⁻ᵏ a, m = by_a, n = by_b

    (b)ₘ = b (b − 1) … (b − m + 1). At a = 0 it is the limit from above, and so 0 or infinite,
    except for b = m, where aᵇ⁻ᵐ = 1. At the jump of 0ᵇ at b = 0 the derivatives in b are 0.
    """
    return in_wide(lambda a, b: _derivative(a, _signed(b), by_a, by_b), a, b)


@power_derivative.partial("a")
def power_derivative_da(a, b, by_a, by_b):
    return power_derivative(a, b, by_a=by_a + 1, by_b=by_b)


@power_derivative.partial("b")
def power_derivative_db(a, b, by_a, by_b):
    return power_derivative(a, b, by_a=by_a, by_b=by_b + 1)


def _derivative(a: Any, b: Any, m: int, n: int) -> Any:
    a, factors, rest = with_fractions(a), _coefficients(b, m, n), b - m
    real = np.result_type(a, b).kind != "c"
    a = a if real else a + 0j
    zero = a == 0
    base = a + zero
    terms, log = factors[n], np.log(base) if n else 0
    for j in range(n - 1, -1, -1):
        terms = terms * log + factors[j]
    whole = base**rest
    # a power of 0 outweighs a factor that is infinite, a factor of 0 a power that is
    y = keep(whole * terms, np.logical_and((whole != 0) | (log != log), terms != 0))
    if real:  # whole may be infinite, and y not
        half = np.power(np.abs(base), 0.5 * rest)
        y = op.where(np.isinf(whole), half * terms * half * np.copysign(1, whole), y)
    return op.where(zero, _at_zero(a, factors, b, rest, m), y)


def _coefficients(b: Any, m: int, n: int) -> list:
    """Of logʲ a, j = 0 … n: C(n, j) times the derivative of order n − j of (b)ₘ."""
    orders: list = [1] + [0] * n  # numbers so far: b may be infinite, and 0 times it is 0
    for i in range(m):
        for k in range(n, -1, -1):
            own = 0 if type(orders[k]) is int and orders[k] == 0 else (b - i) * orders[k]
            orders[k] = own + (k * orders[k - 1] if k else 0)
    found = [math.comb(n, j) * orders[n - j] for j in range(n + 1)]
    return [np.full_like(b, c) if type(c) is int else c for c in found]


def _at_zero(a: Any, factors: list, b: Any, rest: Any, m: int) -> Any:
    """The limit for a → 0 from above: of the highest power of log a = −∞ that has a factor; of
    powers alone, without a logarithm, a power of 0 or −0.

    Of complex numbers, whose phase has no limit, NaN in place of ±∞.
    """
    first, infinite = factors[0], np.nan if factors[0].dtype.kind == "c" else np.inf
    nothing = first == 0
    if len(factors) == 1:
        power = np.power(op.where(a == 0, a, 1), op.where(nothing, 1, rest))
        return keep(first * power, power != 0)

    def beyond(factor: Any, sign: int) -> Any:
        return sign * infinite * op.where(factor == 0, 1, factor)

    limit = op.where(nothing | (rest.real == 0), first, beyond(first, 1))
    for j in range(1, len(factors)):
        limit = op.where(factors[j] == 0, limit, beyond(factors[j], (-1) ** j))
    limit = keep(limit, np.logical_not((rest.real > 0) | ((b == 0) & (m == 0))))
    return op.where(b == b, limit, b)


pow = elementwise(
    _power,
    name="pow",
    numpy=np.power,
    da=power_da,
    db=power_db,
    doc="""y = aᵇ ;  ∂y/∂a = b aᵇ⁻¹, ∂y/∂b = y log a

    a⁰ has derivative 0 in a everywhere. At a = 0 the derivative in a is the limit: ±∞ for b < 1,
    1 for b = 1, 0 for b > 1; the one in b is 0 for b ≥ 0, and y log 0 = ∓∞ for b < 0, where y is
    infinite, too (NaN among complex numbers). Those of higher order are limits from above. The
    logarithm is taken only if b requires a gradient, so a negative base with a whole exponent is
    exact.
    """,
)


def _doubled(x: Any) -> Any:
    """An array in the dtype of float_power's result: powers of a float32 overflow, y does not."""
    wide = np.result_type(x.dtype, np.float64) if hasattr(x, "dtype") else None
    return x if wide is None or x.dtype == wide else x.astype(wide)


float_power = elementwise(
    np.float_power,
    da=lambda g, a, b: power_da(g, _doubled(a), _doubled(b)),
    db=lambda g, y, a, b: power_db(g, y, _doubled(a), _doubled(b)),
    doc="y = aᵇ in float64 or complex128 at least; derivatives as for pow, in y's dtype",
)

power = pow  # NumPy's name
