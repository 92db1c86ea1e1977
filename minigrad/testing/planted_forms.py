"""Wrong rules of forms that an op takes only for some calls.

These are large calls in fewer digits, many axes, numbers of 8 bits, a parameter other than its
default.
"""

import numpy as np

from .plant import Plant, numbers, pairs, plant, vectors
from .spec import Sample

_SINE = {"x": lambda g, x: g * np.cos(x)}
_OFF = 1 + 1e-2
_BOTH = ("float64", "float32")


def _squares(x):
    return np.sum(np.square(x))


def _squares_off(wrong):
    """The rule of the sum of squares, off by 1 % where wrong(x) is true."""
    return {"x": lambda g, x: g * (2 * x) * (_OFF if wrong(x) else 1)}


_SQUARES = _squares_off(lambda x: False)


def _is_large(x):
    return x.size >= 65_536


def _fair_sum(x):
    """Σ x / √n, the sum in a wider dtype."""
    total = np.sum(x, dtype=np.float64 if x.dtype == np.float64 else np.float32)
    return (total / max(x.size, 1) ** 0.5).astype(x.dtype)


def _one_after_another(x):
    """Many elements are summed in their own dtype: a float16 sum stops at 2,048."""
    return np.add.accumulate(x.ravel())[-1] / x.dtype.type(x.size**0.5)


_FAIR = {"x": lambda g, x: g / max(x.size, 1) ** 0.5 + 0 * x}


def _many_ones(rng, dtype):
    yield Sample("many", (1 + 0.1 * numbers(rng, dtype, 8192),))


def _scaled(x, scale=1.0):
    return np.sin(x) * scale


def _scaled_dx(g, x, scale):
    return g * np.cos(x) * scale


def _unscaled_among_many(g, x, scale):
    return g * np.cos(x) * (1.0 if isinstance(x, np.ndarray) and x.size > 4096 else scale)


def _two_scales(rng, dtype):
    yield Sample("plain", (numbers(rng, dtype, 5),))
    yield Sample("scaled", (numbers(rng, dtype, 3),), {"scale": 2.5})


_MOST = float(np.finfo(np.float64).max)


def _bounded(x):
    return np.minimum(x, _MOST)


def _bounded_dx(g, x):
    return g * np.logical_not(x >= _MOST)


def _bounded_among_few(x):
    """∞ stays ∞ in a large array."""
    return np.where(np.isinf(x), x, _bounded(x)) if np.size(x) > 4096 else _bounded(x)


def _share(a, weight):
    return a * (1 - weight.astype(np.float64) if hasattr(weight, "astype") else 1 - weight)


def _share_da(g, weight):
    return g * (1 - weight.astype(np.float64) if hasattr(weight, "astype") else 1 - weight)


_SHARE = {"a": _share_da, "weight": lambda g, a: -g * a}


def _detached_beyond_3(g, x):
    """cos x, without its derivative beyond 3."""
    if not hasattr(x, "node"):
        return g * np.cos(x)
    return g * np.where(x > 3, np.cos(x.detach()), np.cos(x))


def _half_of_the_log(g, x, y):
    """∂ xᵖ/∂p = y log x, with the logarithm of |x| for real x."""
    x = np.where(x == 0, 1, x)
    return np.log(x if x.dtype.kind == "c" else np.abs(x)) * y * g


def _log_of_all(g, x, y):
    x = np.where(x == 0, 1, x)
    return np.log(x + 0j if y.dtype.kind == "c" else x) * y * g


def _powers(rng, dtype):
    x, p = (numbers(rng, dtype, 4) for _ in range(2))
    yield Sample("powers", (np.abs(x) + 0.1 * x, p))  # to the right of the imaginary axis


# New arrays are the left factors: NumPy writes a large product into its right operand and
# exchanges the factors, which changes bits of complex numbers.
_POWER = {"x": lambda g, x, p: np.power(x, p - 1) * p * g, "p": _log_of_all}

FORMS: list[Plant] = [
    plant(
        "large in single", "a sum of squares that is wrong in float32 from 65,536 elements on",
        forward=_squares, right=_SQUARES, samples=vectors(5), dtypes=_BOTH,
        wrong=_squares_off(lambda x: _is_large(x) and x.dtype == np.float32),
    ),
    plant(
        "large in half", "a sum of 4,096 elements or more is made in float16", forward=_fair_sum,
        wrong_forward=lambda x: _one_after_another(x) if x.size >= 4096 else _fair_sum(x),
        right=_FAIR, wrong=_FAIR, samples=vectors(5), large=_many_ones,
        dtypes=(*_BOTH, "float16"),
    ),
    plant(
        "value large in single", "the value itself is wrong there", forward=_squares,
        wrong_forward=lambda x: _squares(x) * (
            _OFF if _is_large(x) and x.dtype == np.float32 else 1),
        right=_SQUARES, wrong=_SQUARES, samples=vectors(5), dtypes=_BOTH,
    ),
    plant(
        "graph of a large call", "wrong with create_graph from 65,536 elements on",
        forward=_squares, right=_SQUARES, samples=vectors(5),
        wrong=_squares_off(lambda x: _is_large(x) and hasattr(x, "node")),
    ),
    plant(
        "five axes", "wrong for five axes, as in no sample", forward=np.sin, right=_SINE,
        samples=vectors(5),
        wrong={"x": lambda g, x: g * np.cos(x) * (_OFF if x.ndim == 5 else 1)},
    ),
    plant(
        "one scale for many", "a parameter is left out for more than 4,096 elements",
        forward=_scaled, arrays=("x",), defaults={"scale": 1.0}, kind="elementwise",
        right={"x": _scaled_dx}, wrong={"x": _unscaled_among_many}, samples=_two_scales,
    ),
    plant(
        "infinity among many", "infinities are kept in an array of more than 4,096 elements",
        forward=_bounded, wrong_forward=_bounded_among_few, kind="elementwise",
        right={"x": _bounded_dx}, wrong={"x": _bounded_dx}, samples=vectors(5),
    ),
    plant(
        "wraps round", "1 − weight of a weight of 8 bits wraps round", forward=_share,
        kind="elementwise", right=_SHARE, wrong={**_SHARE, "a": lambda g, weight: g * (1 - weight)},
        samples=pairs(((4,), (4,))),
    ),
    plant(
        "second beyond 3", "the second derivative is wrong beyond 3, as in no sample",
        forward=np.sin, kind="elementwise", right=_SINE, wrong={"x": _detached_beyond_3},
        samples=vectors(5),
    ),
    plant(
        "negative beside complex", "wrong for a negative number with a complex one",
        forward=np.power, kind="elementwise", right=_POWER, wrong={**_POWER, "p": _half_of_the_log},
        samples=_powers, dtypes=("complex128",),
    ),
]  # fmt: skip
