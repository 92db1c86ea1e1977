"""exp, log, tanh … of compiled loops beside mpmath, and at the ends of their ranges."""

import math

import mpmath
import numpy as np
import pytest

pytestmark = pytest.mark.promise(
    "exp, log, tanh, Φ in loops are within a few units in the last place"
)

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
functions = pytest.importorskip("minigrad.compiled.functions")
kernel_of = pytest.importorskip("minigrad.compiled.jit").kernel_of

# The reference, an interval of float32 and one of float64, and units in the last place allowed.
CASES = {
    "exp": (mpmath.exp, (-87, 88.7), (-700, 709), 1),
    "expm1": (mpmath.expm1, (-30, 88.7), (-50, 709), 2),
    "log": (mpmath.log, (1e-30, 50), (1e-300, 50), 1),
    "log1p": (mpmath.log1p, (-0.999, 100), (-0.999, 100), 1.5),
    "tanh": (mpmath.tanh, (-12, 12), (-22, 22), 2.5),
    "expit": (lambda x: 1 / (1 + mpmath.exp(-x)), (-80, 40), (-700, 40), 2),
    "ndtr": (mpmath.ncdf, (-12, 8), (-37, 8), 5),
    "density": (mpmath.npdf, (-12, 12), (-37, 37), 3),
    "erf": (mpmath.erf, (-4, 4), (-6, 6), 3),
    "erfc": (mpmath.erfc, (-4, 9), (-6, 26), 5),
}
_loops: dict = {}


def applied(name, x):
    """The function on an array, by a compiled loop."""
    key = name, x.dtype
    if key not in _loops:
        f = getattr(functions.functions(x.dtype), name)

        def loop(x, y):
            for i in range(x.size):
                y[i] = f(x[i])

        _loops[key] = kernel_of(loop, on_disk=False)
    y = np.empty_like(x)
    _loops[key](x, y)
    return y


def assembly(name, dtype):
    applied(name, np.ones(3, dtype))
    loop = _loops[name, np.dtype(dtype)]
    return loop.inspect_llvm(loop.signatures[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_function_is_within_a_few_units_in_the_last_place(name, dtype):
    reference, single, double, allowed = CASES[name]
    low, high = single if dtype is np.float32 else double
    rng = np.random.default_rng(0)
    spread = rng.normal(size=200) * np.exp(3 * rng.normal(size=200))
    x = np.concatenate([rng.uniform(low, high, 200), np.clip(spread, low, high)]).astype(dtype)
    with mpmath.workdps(40):
        for value, y in zip(x, applied(name, x), strict=True):
            exact = reference(mpmath.mpf(float(value)))
            if abs(exact) >= np.finfo(dtype).tiny:
                unit = float(np.spacing(dtype(abs(exact))))
                assert abs(mpmath.mpf(float(y)) - exact) <= allowed * unit, value


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_at_zero_infinity_and_nan_it_is_what_numpy_and_scipy_say(name, dtype):
    import scipy.special

    info = np.finfo(dtype)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max, -1.0, -2.0], dtype)
    other = {"density": lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi)}
    reference = other.get(name) or getattr(np, name, None) or getattr(scipy.special, name)
    with np.errstate(all="ignore"):
        expected = reference(x)
    y = applied(name, x)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    signs = np.signbit(expected[:2])  # of ±0
    assert (np.signbit(y[:2]) == signs).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "erf"])
def test_subnormal_arguments_keep_their_size(name, dtype):
    x = np.array([1, -1, 5], dtype) * np.finfo(dtype).smallest_subnormal
    slope = 2 / math.sqrt(math.pi) if name == "erf" else 1
    np.testing.assert_allclose(
        applied(name, x), slope * x, atol=float(np.finfo(dtype).smallest_subnormal)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_reaches_subnormal_results(dtype):
    info = np.finfo(dtype)
    x = np.array([math.log(float(info.tiny)) - k for k in (1, 5, 10)], dtype)
    y = applied("exp", x)
    expected = np.exp(x.astype(np.longdouble)).astype(dtype)
    assert (y > 0).all() and (abs(y - expected) <= info.smallest_subnormal).all()
    assert applied("exp", np.array([math.log(float(info.tiny)) - 60], dtype))[0] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_loop_of_it_works_on_vectors(name, dtype):
    kind = {"float32": "float", "float64": "double"}[np.dtype(dtype).name]
    text = assembly(name, dtype)
    assert any(f"<{lanes} x {kind}>" in text for lanes in (2, 4, 8, 16))


def test_the_coefficients_of_erfcx_are_those_of_interpolation():
    """(1 + 2z) e^z² erfc z at the zeros of the 25th Chebyshev polynomial, in t."""
    with mpmath.workdps(40):
        for j in range(25):
            t = mpmath.cos(mpmath.pi * (2 * j + 1) / 50)
            z = mpmath.mpf("3.75") * (1 + t) / (1 - t)
            if z > 60:  # e^z² would have no digits: its asymptotic series there
                terms = [mpmath.fac2(2 * m - 1) * (-1 / (2 * z * z)) ** m for m in range(12)]
                scaled = sum(terms) / (z * mpmath.sqrt(mpmath.pi))
            else:
                scaled = mpmath.exp(z * z) * mpmath.erfc(z)
            value = mpmath.polyval([mpmath.mpf(c) for c in functions.ERFCX[::-1]], t)
            assert abs(value - (1 + 2 * z) * scaled) < 1e-15
