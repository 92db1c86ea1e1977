"""x Φ(x) with its derivative, and erf x, for float32 in few passes; Φ is the normal distribution.

The first two come from one exponential and one continued fraction, t(z) = φ(z) / Φ(−z) for
z = |x|, which grows from 0.8 to z without ever being small, so neither tail cancels:

    Φ(x) = s for x < 0, 1 − s else,  s = φ(z) / t(z),  φ(z) = e^−z²/2 / √2π
    (x Φ(x))′ = Φ(x) + x φ(x)

    t(z) = z + a₀/(z + b₀ + a₁/(z + b₁ + a₂/(z + b₂ + a₃/(z + b₃))))

Laplace's fraction for t has aₖ = k + 1 and bₖ = 0, and many terms near 0. These four levels are
fitted on 0..14.5 for the smallest largest relative error, 4.4e-8; in float32 the rounding makes it
2 units in the last place. No level but the last comes near 0, so the negative a₂ is harmless.
SciPy's erfc is the reference, and what other dtypes use.

    erf x = tanh(x + x p(x²)),  p a quotient of polynomials of degree 3

Fitted on −4.3 .. 4.3, beyond which the tanh is 1, for the smallest largest relative error of the
result, 3.3e-9. Towards the ends tanh makes less and less of an error of its argument, and it is
never above 1, which a quotient of polynomials may be by rounding.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.blocks import over_blocks, scratch

# (aₖ, bₖ), the innermost level first; what is added to a₃/(z + b₃) and so on outwards
INNERMOST = 2.76939233
LEVELS = ((24.96921239, 2.53776176), (-16.54759181, 3.59613055), (2.79293885, -0.03841489))
OUTERMOST = 0.99916613  # rounded so that s is ½ at 0 to the last digit
# p above and below the line, the highest power first, which below has the coefficient 1
TO_ARTANH = (
    (5.7039666548, 58.3416889317, 378.2858863151, 395.1049546952),
    (72.9090638392, 482.8589256230, 3077.6406492002),
)
_ONE = 4.3  # erf is 1 from here on
_FAR = 40.0  # φ(z) is 0 beyond, and z² no infinity
FEW = 1 << 12  # elements; fewer are computed in fresh memory: the thread's takes longer to find


def _number(value: float) -> np.ndarray:
    """A number as ufuncs take it in half of the time that they take one of Python's in."""
    return np.array(value, np.float32)


_INNERMOST, _OUTERMOST = _number(INNERMOST), _number(OUTERMOST)
_LEVELS = [(_number(a), _number(b)) for a, b in LEVELS]
_HIGHEST, *_ABOVE = map(_number, TO_ARTANH[0])
_BELOW = [*map(_number, TO_ARTANH[1])]
_HALVED, _HEIGHT, _ZERO = _number(-0.5), _number(1 / math.sqrt(2 * math.pi)), _number(0)
_FARTHEST, _NEAREST = _number(_FAR), _number(-_FAR)
_FULL, _MINUS_FULL = _number(_ONE), _number(-_ONE)


def _fraction(z: Any, out: Any) -> Any:
    """t(z), from the innermost level outwards."""
    t = np.add(z, _INNERMOST, out)
    for a, b in _LEVELS:
        np.divide(a, t, t)
        np.add(t, z, t)
        np.add(t, b, t)
    np.divide(_OUTERMOST, t, t)
    return np.add(t, z, t)


_NUMPYS = np.ndarray, np.generic


def takes(x: Any) -> bool:
    """Whether x is for the functions below: float32 of NumPy, of any size, so that no bit depends
    on how an array was cut."""
    return isinstance(x, _NUMPYS) and x.dtype.char == "f"


def _filled(fill: Callable, x: Any, count: int, rooms: int) -> tuple:
    """`count` new arrays, filled by fill(x, *them, *arrays to work in); in blocks of a large x."""
    if x.size >= FEW:

        def work(x: Any, *ys: Any) -> None:
            fill(x, *ys, *[scratch.empty(f"block {i}", x.shape, x) for i in range(rooms)])

        return over_blocks(work, x, count)
    shape = x.shape
    x = np.asarray(x) if x.size != 1 else np.full(2, x)  # NumPy takes longer for one than for two
    ys = [np.empty_like(x) for _ in range(count)]
    fill(x, *ys, *np.empty((rooms, *x.shape), x.dtype))
    return tuple(ys if x.shape == shape else [y[:1].reshape(shape)[()] for y in ys])


def gelu(x: Any) -> tuple:
    """(x Φ(x), Φ(x) + x φ(x)).

    The first is within 8 units in the last place for x > −3. Below, z²/2 is rounded before its
    exponential is taken, which costs about z²/2 units: 15 at −5, 90 at −13, where the value is
    1e-37. The second is within 2.4e-7 everywhere.
    """
    return _filled(_gelu, x, 2, rooms=2)


def _gelu(x: Any, y: Any, slope: Any, z: Any, density: Any) -> None:
    near = x.clip(_NEAREST, _FARTHEST, out=slope)
    np.abs(near, z)
    np.multiply(z, z, density)
    np.multiply(density, _HALVED, density)
    np.exp(density, density)
    np.multiply(density, _HEIGHT, density)
    s = _fraction(z, y)
    np.divide(density, s, s)
    np.multiply(near, density, slope)  # x φ(x)
    phi = z
    np.copyto(phi, np.greater_equal(x, _ZERO))  # 1 for x ≥ 0, else 0
    np.subtract(phi, s, phi)
    np.abs(phi, phi)
    np.add(slope, phi, slope)
    np.multiply(x, phi, y)


def erf(x: Any) -> Any:
    """erf x, within 3 units in the last place."""
    return _filled(_erf, x, 1, rooms=3)[0]


def _erf(x: Any, y: Any, square: Any, above: Any, below: Any) -> None:
    x.clip(_MINUS_FULL, _FULL, out=y)
    np.multiply(y, y, square)
    np.multiply(square, _HIGHEST, above)
    p = _horner(square, above, _ABOVE, above)
    np.divide(p, _horner(square, square, _BELOW, below), p)
    np.multiply(p, y, p)
    np.add(y, p, y)
    np.tanh(y, y)


def _horner(x: Any, highest: Any, coefficients: list, out: Any) -> Any:
    """(…(highest + c₀) x + c₁) x + …"""
    first, *others = coefficients
    y = np.add(highest, first, out)
    for coefficient in others:
        np.multiply(y, x, y)
        np.add(y, coefficient, y)
    return y
