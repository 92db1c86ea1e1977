"""log(1 + t) and eˣ − 1 in float32 on processors for which NumPy has no vector loops of these two.

NumPy's exp, log and tanh are vectorised from AVX2 on, its log1p and expm1 only from AVX-512 on.
Without AVX-512 these two call the C library once an element, which is far slower. Both follow from
the others without a loss of digits: within 4 units in the last place where the C library is within
1.
"""

from typing import Any

import numpy as np


def _by_element(name: str, other: str) -> bool:
    """Whether NumPy has a float32 loop for this processor of `other` and not of `name`."""
    try:
        from numpy.lib.introspect import opt_func_info

        found = opt_func_info(func_name=f"^({name}|{other})$")
        current = {key: loops["ff"]["current"] for key, loops in found.items()}
        return "baseline" in current[name] and "baseline" not in current[other]
    except (ImportError, KeyError):  # NumPy before 2.2 does not say
        return False


_NOTHING_LEFT = -100  # eˣ is far below the last place of 1 from here on
LOG1P_BY_ELEMENT = _by_element("log1p", "log")
EXPM1_BY_ELEMENT = _by_element("expm1", "tanh")


def _is_float32(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.char == "f"  # a tape's stand-in says that it is


def log_of_1_plus(t: Any) -> Any:
    """log(1 + t) for t from 0 to 1, or complex t."""
    if t.dtype.kind == "c":
        return complex_log_of_1_plus(t)
    return log_by_parts(t) if LOG1P_BY_ELEMENT and _is_float32(t) else np.log1p(t)


def complex_log_of_1_plus(z: Any) -> Any:
    """log |1 + z| + i arg(1 + z); for small z = x + iy the first is log(1 + x (2 + x) + y²)/2.

    NumPy adds the 1 to x first, which leaves the real part of a small z no digit.
    """
    near = np.maximum(np.abs(z.real), np.abs(z.imag)) < 0.5
    x, y = np.where(near, z.real, 0), np.where(near, z.imag, 0)
    log = np.log1p(z, out=np.empty_like(z))
    np.copyto(log.real, np.log1p(x * (2 + x) + y * y) / 2, where=near)
    return log


def log_by_parts(t: np.ndarray) -> np.ndarray:
    """log(1 + t) = log u + log(1 + (t − (u − 1))/u), where u is 1 + t as rounded

    The last term is so small that it is its own logarithm; u − 1 and t minus that are exact.
    """
    u = np.add(t, 1, out=np.empty_like(t))
    lost = np.subtract(u, 1, out=np.empty_like(t))
    np.subtract(t, lost, out=lost)
    lost /= u
    np.log(u, out=u)
    u += lost
    return u


def exp_minus_1_below_0(x: Any, out: Any = None) -> Any:
    """eˣ − 1 for x ≤ 0."""
    by_tanh = EXPM1_BY_ELEMENT and _is_float32(x)
    return exp_minus_1_by_tanh(x, out) if by_tanh else np.expm1(x, out=out)


def exp_minus_1_by_tanh(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """eˣ − 1 = 2t/(1 − t) with t = tanh(x/2), for x ≤ 0, where 1 − t has all its digits

    Half of the smallest numbers is rounded: what twice that is more than x is taken off at the end.
    out may be x.
    """
    x = x.clip(_NOTHING_LEFT, 0, out=np.empty_like(x))
    t = np.multiply(x, 0.5, out=np.empty_like(x))
    more = np.subtract(t, x, out=x)
    more += t
    np.tanh(t, out=t)
    y = np.subtract(1, t, out=np.empty_like(t) if out is None else out)
    t += t
    np.divide(t, y, out=y)
    y -= more
    return y
