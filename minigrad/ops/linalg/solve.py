"""Inverses and linear equations. M. B. Giles, "Collected matrix derivative results" (2008), §2."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...backends.device import array_module
from ...engine.graph import raw
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, sum_to
from ..elementwise.selection import constant_in
from ..scaling import overflow_ignored, power_of_two
from .matrices import (
    adjoint,
    as_columns,
    check_right_side,
    equal_stacks,
    equation_batch,
    finite,
    hermitian_from,
    hermitian_part,
    identity_like,
    lapack,
    reciprocal,
    scipy_function,
    square_matrices,
    stack_batch,
    triangle,
)


@primitive(numpy=np.linalg.inv)
def inv(x):
    """y = x⁻¹ ;  gx = −yᴴ g yᴴ

    x (…, n, n) -> y (…, n, n). LinAlgError for a singular matrix.
    """
    return np.linalg.inv(lapack(x))


@inv.vjp("x")
def inv_dx(g, y):
    yh = adjoint(y)
    return -(yh @ g @ yh)


@primitive(numpy=np.linalg.solve)
def solve(a, b):
    """a y = b ;  gb = a⁻ᴴ g, ga = −gb yᴴ, each summed over the axes its input was broadcast on

    a (…, n, n); b (n,), one vector for all, or (…, n, k); leading axes broadcast. LinAlgError for
    a singular a.
    """
    check_right_side(b, square_matrices(a, "a").shape[-1])
    if b.ndim > 1:
        a, b = equal_stacks(a, b)
    elif a.ndim > 2 and array_module(a) is not np:
        return np.linalg.solve(*equal_stacks(a, lapack(b)[:, None]))[..., 0]
    return np.linalg.solve(a, lapack(b))


@solve.vjp
def solve_dx(g, a, y, b_shape, needs):
    gb = solve(adjoint(a), as_columns(g, b_shape))
    return _equation_gradients(-gb @ _row(y, b_shape), gb, a.shape, b_shape, needs)


def _row(y, b_shape):
    """yᴴ for the outer product that a's gradient is."""
    return adjoint(as_columns(y, b_shape))


def _equation_gradients(ga, gb, a_shape, b_shape, needs):
    """Both gradients in their inputs' shapes, None for one that is not wanted."""
    gb = gb[..., 0] if len(b_shape) == 1 else gb
    return sum_to(ga, a_shape) if needs[0] else None, sum_to(gb, b_shape) if needs[1] else None


@primitive
def triangular_solve(a, b, lower=False, unit_diagonal=False):
    """a y = b with one triangle of a, the other never read ;  gb = a⁻ᴴ g, ga = −(gb yᴴ)'s triangle

    a (…, n, n); b (n,) or (…, n, k). With unit_diagonal the diagonal counts as ones, and that of a
    gets no gradient. LinAlgError for a zero on the diagonal.
    """
    check_right_side(b, square_matrices(a, "a").shape[-1])
    y = _substitute(a, as_columns(lapack(b), b.shape), lower, unit_diagonal)
    return y[..., 0] if b.ndim == 1 else y


def _substitute(a, b, lower, unit_diagonal):
    """SciPy for one matrix or for large ones, else NumPy's solver on the whole stack.

    SciPy goes through a stack in Python, which is slower than NumPy's elimination of a
    triangle below n = 32, which skips nothing but loops in C. Without SciPy NumPy does it all.
    """
    n, k = b.shape[-2:]
    single = a.ndim == b.ndim == 2
    try:
        substitute = scipy_function("solve_triangular", a)
    except ImportError:
        substitute = None
    if substitute is not None and n and k and (single or n >= 32):
        options = {"lower": lower, "unit_diagonal": unit_diagonal, "check_finite": False}
        if single:
            return substitute(a, b, **options)
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        pairs = [
            np.broadcast_to(x, (*stack, *x.shape[-2:])).reshape((-1, *x.shape[-2:])) for x in (a, b)
        ]
        ys = [substitute(*pair, **options) for pair in zip(*pairs, strict=True)]
        if ys:
            return np.stack(ys).reshape((*stack, n, k))
    if unit_diagonal:
        eye = array_module(a).eye(n, dtype=a.dtype)
        return np.linalg.solve(*equal_stacks(triangle(a, lower, 1) + eye, b))
    return np.linalg.solve(*equal_stacks(triangle(a, lower), b))


@triangular_solve.vjp
def triangular_solve_dx(g, a, y, b_shape, lower, unit_diagonal, needs):
    gb = triangular_solve(
        adjoint(a), as_columns(g, b_shape), lower=not lower, unit_diagonal=unit_diagonal
    )
    ga = triangle(-gb @ _row(y, b_shape), lower, k=int(unit_diagonal)) if needs[0] else None
    return _equation_gradients(ga, gb, a.shape, b_shape, needs)


@primitive
def pseudoinverse(x, *, rcond=1e-15, hermitian=False):
    """y = x⁺ ;  gx = −yᴴ g yᴴ + (1 − x y) gᴴ y yᴴ + yᴴ y gᴴ (1 − y x)

    G. H. Golub and V. Pereyra (1973), for a rank that stays the same near x: where it does not, x⁺
    jumps and has no derivative.
    """
    if not hermitian:
        return np.linalg.pinv(finite(x), rcond)
    if array_module(x) is np:
        return np.linalg.pinv(finite(x), rcond, hermitian=True)
    w, v = np.linalg.eigh(finite(x))  # CuPy's pinv has no such option
    size = abs(w)
    largest = np.maximum(size[..., :1], size[..., -1:])  # they come in ascending order
    return (v * reciprocal(w, size <= rcond * largest)[..., None, :]) @ adjoint(v)


@pseudoinverse.vjp("x")
def pseudoinverse_dx(g, x, y, hermitian):
    if hermitian:
        x = hermitian_from(x)
    gh, yh = adjoint(g), adjoint(y)
    unit = power_of_two(x, axis=(-2, -1))  # y yᴴ is as far from 1 as the square of x
    tall = gh @ ((y * unit) @ (yh * unit))
    wide = ((yh * unit) @ (y * unit)) @ gh
    gx = (tall - x @ (y @ tall)) + (wide - (wide @ y) @ x)
    gx = gx / unit / unit - yh @ g @ yh
    return hermitian_part(gx) if hermitian else gx


@composite(numpy=np.linalg.pinv)
def pinv(x: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = 1e-15) -> Any:
    """The Moore-Penrose inverse of x (…, m, n): (…, n, m).

    Singular values up to rcond (or rtol; None there: ε max(m, n)) times the largest count as 0.
    hermitian=True reads the lower triangle of a Hermitian x; the gradient is then Hermitian.
    """
    x = array_like(x)
    if rcond is not None and rtol != 1e-15:
        raise ValueError("pinv: rcond and rtol are two names of one bound; give one of them")
    if rcond is None:
        rcond = rtol
    if rcond is None:
        rcond = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    return pseudoinverse(x, rcond=rcond, hermitian=hermitian)


@primitive
def least_squares(a, b, *, rcond):
    """The shortest y of those with the least |a y − b| ;  with r = b − a y and p = a⁺:

    gb = pᴴ g ;  ga = −gb yᴴ + r (p gb)ᴴ + (pᴴ y) (g − p a g)ᴴ

    a (…, m, n), b (…, m, k) -> y (…, n, k). Singular values of a up to rcond times the largest
    count as 0. Golub and Pereyra (1973), as pinv; but p b is not formed, it would lose digits.
    """
    u, s, vh = np.linalg.svd(finite(a), full_matrices=False)
    c = adjoint(u) @ finite(b)
    return adjoint(vh) @ (reciprocal(s, s <= rcond * s[..., :1])[..., None] * c)


@least_squares.vjp
def least_squares_dx(g, a, b, y, rcond, needs):
    p = op.pseudoinverse(a, rcond=rcond)
    gb = adjoint(p) @ g
    ga = None
    if needs[0]:
        residual, beyond = b - a @ y, g - p @ (a @ g)
        unit = power_of_two(a, axis=(-2, -1))  # p p is as far from 1 as the square of a
        ga = (
            (residual / unit) @ adjoint((p * unit) @ gb)
            + (adjoint(p) @ y) @ adjoint(beyond)
            - gb @ adjoint(y)
        )
    return _equation_gradients(ga, gb, a.shape, b.shape, needs)


class LstsqResult(NamedTuple):
    """solution (n,) or (…, n, k); sums of squared residuals; rank and singular values of a."""

    x: Any
    residuals: Any
    rank: Any
    singular_values: Any


@composite(numpy=np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """The least-squares solution of a x = b, the shortest where there are several.

    a (…, m, n); b (m,) or (…, m, k). rcond: singular values up to this share of the largest count
    as 0 (None: ε max(m, n); a negative number: ε). residuals is empty, as NumPy's, where m ≤ n or
    the one matrix a has not full rank. Derivatives hold while the rank does not change.
    """
    a, b = array_like(a), array_like(b)
    if a.ndim < 2 or b.ndim < 1 or a.shape[-2] != (b.shape[0] if b.ndim == 1 else b.shape[-2]):
        raise np.linalg.LinAlgError(
            f"lstsq: a must be (…, m, n) and b (m,) or (…, m, k) with the same m; got {a.shape} "
            f"and {b.shape}"
        )
    m, n = a.shape[-2:]
    s = op.svdvals(a)
    eps = float(np.finfo(s.dtype).eps)
    rcond = max(m, n) * eps if rcond is None else rcond if rcond >= 0 else eps
    rank = op.count_nonzero(s > rcond * s[..., :1], axis=-1)
    columns = as_columns(b, b.shape)
    x = least_squares(a, columns, rcond=rcond)
    r = columns - a @ x
    with overflow_ignored():  # they are squares
        residuals = op.sum((r * r.conj()).real, axis=-2)
    single = raw(rank).ndim == 0
    if m <= n or (single and int(rank) < n):
        residuals = residuals[..., :0].reshape(-1) if a.ndim == 2 else residuals[..., :0]
    return LstsqResult(x[..., 0] if b.ndim == 1 else x, residuals, rank, s)


@composite(numpy=np.linalg.matrix_power)
def matrix_power(x: Any, n: int) -> Any:
    """xⁿ for an int n, by squaring; n < 0 takes the inverse. x⁰ is the identity: gx = 0."""
    x = array_like(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError(f"matrix_power: {x.shape} is not (…, n, n), square matrices")
    if not hasattr(n, "__index__"):
        raise TypeError(f"matrix_power: the exponent must be an integer, got {n!r}")
    n = n.__index__()
    if n == 0:
        return constant_in(x, identity_like(x))
    power, n = (inv(x) if n < 0 else x), abs(n)
    while n % 2 == 0:
        power, n = power @ power, n // 2
    y, n = power, n // 2
    while n:
        power = power @ power
        y, n = (y @ power if n % 2 else y), n // 2
    return y.copy() if y is x else y


@composite(numpy=np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """y with Σ a y = b, summed over all axes of y, which are the last ones of a.

    axes: those of a that are moved to the end first.
    """
    a, b = array_like(a), array_like(b)
    if axes is not None:
        moved = [axis % a.ndim for axis in axes]
        a = a.transpose([axis for axis in range(a.ndim) if axis not in moved] + moved)
    shape = a.shape[b.ndim :]
    if prod(shape) != b.size or prod(a.shape[: b.ndim]) != b.size:
        raise np.linalg.LinAlgError(
            f"tensorsolve: the axes of a {a.shape} beyond those of b {b.shape} must count as many "
            "elements as b has"
        )
    return solve(a.reshape((b.size, b.size)), b.reshape(-1)).reshape(shape)


@composite(numpy=np.linalg.tensorinv)
def tensorinv(x: Any, ind: int = 2) -> Any:
    """The inverse of x as a linear map from its last axes to its first `ind` ones."""
    x = array_like(x)
    if ind <= 0 or x.ndim == 0:
        raise ValueError(f"tensorinv: ind={ind} must be positive, and x {x.shape} have axes")
    rows, columns = x.shape[:ind], x.shape[ind:]
    if prod(rows) != prod(columns):
        raise np.linalg.LinAlgError(
            f"tensorinv: the first {ind} axes {rows} and the others {columns} of x must count as "
            "many elements"
        )
    return inv(x.reshape((prod(rows), prod(columns)))).reshape((*columns, *rows))


for _op in (inv, pseudoinverse):
    _op.batch(stack_batch)
for _op in (solve, triangular_solve, least_squares):
    _op.batch(equation_batch)
