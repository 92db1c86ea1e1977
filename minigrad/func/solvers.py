"""Solvers for fixed points, roots and linear systems, on arrays whose last axis is the vector.

Axes in front count examples, which are independent of one another: all run together until the last
is done. Functions take and give arrays.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import finfo
from ..errors import ConvergenceError


def tolerance(dtype: Any) -> float:
    """The default tolerance: ε^(3/4), 1.8e-12 for float64."""
    return float(finfo(dtype).eps) ** 0.75


def largest(x: Any) -> Any:
    """The largest absolute value of each example."""
    return np.max(np.abs(x), axis=-1, initial=0) if isinstance(x, np.ndarray) else abs(x).max(-1)


def length(x: Any) -> Any:
    """The Euclidean length of each example, as one more axis of length 1."""
    return np.sqrt((np.abs(x) ** 2).sum(axis=-1, keepdims=True))


def is_small(r: Any, x: Any, tol: float) -> bool:
    """Whether |r| ≤ tol · (1 + |x|) in every example."""
    error = largest(r)
    return bool((np.isfinite(error) & (error <= tol * (1 + largest(x)))).all())


def iterate(f: Callable, x: Any, tol: float, max_steps: int) -> Any:
    """x ← f(x), until it no longer moves."""
    for _ in range(max_steps):
        y = f(x)
        if is_small(y - x, y, tol):
            return y
        if not np.isfinite(y).all():
            break
        x = y
    raise _stopped("fixed_point", max_steps, f(x) - x, tol)


def anderson(f: Callable, x: Any, tol: float, max_steps: int, memory: int = 5) -> Any:
    """x ← the combination of recent f(x) whose residuals cancel best.

    Anderson, Iterative procedures for nonlinear integral equations, 1965.
    """
    xs: list = []
    rs: list = []
    for _ in range(max_steps):
        r = f(x) - x
        if is_small(r, x, tol):
            return x + r
        if not np.isfinite(r).all():
            break
        xs, rs = [*xs[-memory:], x], [*rs[-memory:], r]
        if len(xs) == 1:
            x = x + r
            continue
        dx = np.stack([b - a for a, b in zip(xs, xs[1:])], axis=-1)
        dr = np.stack([b - a for a, b in zip(rs, rs[1:])], axis=-1)
        weights = np.linalg.pinv(dr) @ r[..., None]
        x = x + r - ((dx + dr) @ weights)[..., 0]
    raise _stopped("fixed_point", max_steps, f(x) - x, tol)


def newton(f: Callable, step: Callable, x: Any, tol: float, max_steps: int) -> Any:
    """x ← x − J⁻¹ f(x), with step(x, r) = J⁻¹ r, shortened while |f| does not fall."""
    r = f(x)
    for _ in range(max_steps):
        if is_small(r, x, tol):
            return x
        x, r = _shortened(f, x, r, step(x, r))
    if is_small(r, x, tol):
        return x
    raise _stopped("root", max_steps, r, tol)


def _shortened(f: Callable, x: Any, r: Any, d: Any) -> tuple:
    """(x − sd, f there) with s = 1, ½, ¼ … for each example, the first that makes |f| smaller."""
    before, scale = length(r), (length(r) * 0) + 1
    for _ in range(30):
        y = x - scale * d
        after = f(y)
        worse = ~(length(after) <= (1 - 1e-4 * scale) * before) & (before > 0)  # also where NaN
        if not worse.any():
            break
        scale = np.where(worse, scale / 2, scale)
    return y, after


def gmres(product: Callable, b: Any, tol: float, max_steps: int, restart: int = 30) -> Any:
    """x with product(x) = A x = b: the residual is least over the Krylov space of b.

    Saad and Schultz, GMRES, 1986; restarted, with each basis orthogonalised twice.
    """
    x, wanted = b * 0, tol * length(b)
    for _ in range(-(-max_steps // restart)):
        r = b - product(x)
        if (length(r) <= wanted).all():
            return x
        x = x + _krylov_step(product, r, min(restart, b.shape[-1]))
    r = b - product(x)
    if (length(r) <= 10 * wanted).all():
        return x
    raise ConvergenceError(
        f"gmres stopped after {max_steps} steps with a residual of {float(length(r).max()):.2g} "
        f"for a right side of length {float(length(b).max()):.2g}. The system is singular or badly "
        'conditioned; linear="dense" says which, if it is small',
        steps=max_steps, residual=float(length(r).max()),
    )  # fmt: skip


def _krylov_step(product: Callable, r: Any, steps: int) -> Any:
    """The correction in the span of r, Ar, A²r … that makes the residual least."""
    beta = length(r)
    basis = [_unit(r, beta)]
    columns: list = []
    for _ in range(steps):
        w = product(basis[-1])
        first = _along(basis, w)
        w = w - _combined(basis, first)
        again = _along(basis, w)  # once more, against rounding
        w = w - _combined(basis, again)
        norm = length(w)
        columns.append(np.concatenate([first + again, norm], axis=-1))
        basis.append(_unit(w, norm))
        if (norm <= finfo(r.dtype).eps * beta).all():
            break
    xp, k = array_module(r), len(columns)
    h = xp.zeros((*r.shape[:-1], k + 1, k), dtype=r.dtype)
    for j, column in enumerate(columns):
        h[..., : j + 2, j] = column
    weights = np.linalg.pinv(h)[..., :, 0] * beta
    return _combined(basis[:k], weights)


def _unit(x: Any, norm: Any) -> Any:
    return x / np.where(norm > 0, norm, 1)


def _along(basis: list, w: Any) -> Any:
    """The components of w along the basis vectors, in a last axis."""
    return np.stack([(v.conj() * w).sum(axis=-1) for v in basis], axis=-1)


def _combined(basis: list, weights: Any) -> Any:
    return sum(weights[..., i : i + 1] * v for i, v in enumerate(basis))


def _stopped(what: str, steps: int, r: Any, tol: float) -> ConvergenceError:
    worst = largest(r)
    if not np.isfinite(worst).all():
        return ConvergenceError(
            f"{what}: the search left the finite numbers; f moves away from the solution here. "
            "Start nearer, or use another solver (newton)",
            steps=steps, residual=float(worst.max()), tol=tol,
        )  # fmt: skip
    failed = int((~(worst <= tol)).sum())
    return ConvergenceError(
        f"{what} stopped after {steps} steps with a residual of {float(worst.max()):.2g}"
        + (f" ({failed} of {worst.size} examples)" if worst.size > 1 else "")
        + f", tol={tol:.2g}. Start nearer, allow more with max_steps=, or ask for less with tol=",
        steps=steps, residual=float(worst.max()), tol=tol,
    )  # fmt: skip
