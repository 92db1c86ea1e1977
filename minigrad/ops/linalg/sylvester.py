"""Sylvester's equation, and the matrix square root, whose derivative solves one. By SciPy."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import primitive
from ..axes import as_floating, sum_to
from ..batching import align
from .matrices import adjoint, finite, on_stacks, scipy_function, square_matrices, stack_batch


@primitive
def solve_sylvester(a, b, q):
    """a y + y b = q ;  gq = s with aᴴ s + s bᴴ = g, ga = −s yᴴ, gb = −yᴴ s

    a (…, m, m), b (…, n, n), q (…, m, n); a and −b must share no eigenvalue. By the Schur form
    (R. H. Bartels and G. W. Stewart 1972); needs SciPy (the extra `full`).
    """
    m, n = (x.shape[-1] if x.ndim > 1 and x.shape[-1] == x.shape[-2] else None for x in (a, b))
    if m is None or n is None or q.shape[-2:] != (m, n):
        raise np.linalg.LinAlgError(
            f"a must be (…, m, m), b (…, n, n), q (…, m, n); got {a.shape}, {b.shape}, {q.shape}"
        )
    a, b, q = map(as_floating, (a, b, q))
    if any(x.dtype.kind == "c" for x in (a, b, q)):
        # SciPy's Schur form of a real matrix has 2 × 2 blocks, which it then reads as triangular
        a, b = (x if x.dtype.kind == "c" else x.astype(np.result_type(x, 1j)) for x in (a, b))
    unit = _far_from_1(a, b)
    a, b, q = (finite(x) if unit == 1 else finite(x) / unit for x in (a, b, q))
    y = on_stacks(scipy_function("solve_sylvester", a), a, b, q)
    return y.astype(np.result_type(a, b, q), copy=False)


def _far_from_1(*xs: Any) -> float:
    """A power of 4 near the largest |x| where products of SciPy's leave the numbers; else 1."""
    if any(array_module(x) is not np for x in xs):
        return 1.0  # scipy_function says what there is on a GPU
    top = max(float(np.abs(x).max(initial=0)) for x in xs)
    if not 0 < top < np.inf or -_FAR < (exponent := int(np.frexp(top)[1])) < _FAR:
        return 1.0
    return 2.0 ** (exponent // 2 * 2 - 2)


_FAR = 40  # a third of float32's largest exponent


@solve_sylvester.vjp
def solve_sylvester_dx(g, a, b, y, a_shape, b_shape, q_shape, needs):
    s = solve_sylvester(adjoint(a), adjoint(b), g)
    ga = sum_to(-(s @ adjoint(y)), a_shape) if needs[0] else None
    gb = sum_to(-(adjoint(y) @ s), b_shape) if needs[1] else None
    return ga, gb, sum_to(s, q_shape) if needs[2] else None


@primitive
def sqrtm(x):
    """y y = x, the root with eigenvalues of positive real part ;  yᴴ gx + gx yᴴ = g

    x (…, n, n) without eigenvalues on the negative real axis or at 0: there it is complex, or not
    differentiable. Needs SciPy (the extra `full`).
    """
    x = as_floating(square_matrices(x))
    unit = _far_from_1(x)
    y = on_stacks(scipy_function("sqrtm", x), finite(x) / unit) * unit**0.5
    wide = np.complex64 if y.dtype.kind == "c" else x.dtype
    return y.astype(np.result_type(x, wide), copy=False)


@sqrtm.vjp("x")
def sqrtm_dx(g, y):
    root = adjoint(y)
    return solve_sylvester(root, root, g)


@solve_sylvester.batch
def solve_sylvester_batch(op, xs, batched, params):
    """Examples are one more leading stack; arrays that they share broadcast."""
    return op(*align(xs, batched))


sqrtm.batch(stack_batch)
