"""Linear equations with a banded matrix, given by its diagonals. By SciPy."""

from functools import partial
from typing import Any

import numpy as np

from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, as_floating, constant_like, sum_to
from .matrices import (
    as_columns,
    check_right_side,
    equation_batch,
    lapack,
    on_stacks,
    scipy_function,
)


@primitive
def banded_solve(ab, b, lower=0, upper=0):
    """a y = b, ab[upper + i − j, j] = a[i, j] ;  gb = a⁻ᴴ g, ga = −gb yᴴ, of which gab has the band

    a has `lower` diagonals below the main one and `upper` above. ab (…, lower + upper + 1, n); b
    (n,), one vector for all, or (…, n, k); leading axes broadcast. The entries of ab that lie
    outside of a are not read and have the gradient 0. Time and memory grow as n, backwards too.
    LinAlgError for a singular a. Needs SciPy (the extra `full`).
    """
    rows = lower + upper + 1
    if min(lower, upper) < 0 or ab.ndim < 2 or ab.shape[-2] != rows:
        raise ValueError(
            f"ab holds {lower} lower diagonals, the main one and {upper} upper ones in its rows: "
            f"it must be (…, {rows}, n), got {ab.shape}"
        )
    n = ab.shape[-1]
    check_right_side(b, n)
    ab, b = as_floating(lapack(ab)), as_floating(lapack(b))
    solve = scipy_function("solve_banded", ab)
    columns = as_columns(b, b.shape)
    lead = np.broadcast_shapes(ab.shape[:-2], columns.shape[:-2])
    dtype = np.result_type(ab, b)
    if 0 in (*lead, *columns.shape[-2:]):  # nothing to solve
        y = np.zeros_like(b, shape=(*lead, *columns.shape[-2:]), dtype=dtype)
    else:
        y = on_stacks(partial(solve, (lower, upper), check_finite=False), ab, columns)
        y = y.astype(dtype, copy=False)
    return y[..., 0] if b.ndim == 1 else y


@banded_solve.vjp
def banded_solve_dx(g, ab, y, b_shape, lower, upper, needs):
    g, y = (as_columns(x, b_shape) for x in (g, y))
    gb = op.banded_solve(_adjoint_band(ab, lower, upper), g, lower=upper, upper=lower)
    gab = None
    if needs[0]:
        n = ab.shape[-1]
        i = _rows_of_a(lower, upper, n)
        products = (
            op.take(gb, constant_like(i % max(n, 1), gb), axis=-2) * y[..., None, :, :].conj()
        )
        inside = constant_like((i >= 0) & (i < n), gb)
        gab = sum_to(np.where(inside, -op.sum(products, axis=-1), 0), ab.shape)
    gb = gb[..., 0] if len(b_shape) == 1 else gb
    return gab, sum_to(gb, b_shape) if needs[1] else None


def _rows_of_a(lower, upper, n):
    """(lower + upper + 1, n): the row in a of each entry of ab."""
    return np.arange(n) + np.arange(-upper, lower + 1)[:, None]


def _adjoint_band(ab, lower, upper):
    """The diagonals of aᴴ, in the same form: those of a in reverse order, each shifted."""
    n = ab.shape[-1]
    places = _rows_of_a(upper, lower, n) % max(n, 1)
    lines = np.arange(lower + upper, -1, -1)[:, None]
    return ab.conj()[..., constant_like(lines, ab), constant_like(places, ab)]


@composite
def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any) -> Any:
    """y with a y = b for a banded matrix a, with SciPy's arguments: ab[u + i − j, j] = a[i, j].

    l_and_u = (l, u): how many diagonals lie below and above the main one; ab (…, l + u + 1, n), b
    (n,) or (…, n, k). Differentiable in ab and b. LinAlgError for a singular a.
    """
    lower, upper = l_and_u
    return op.banded_solve(array_like(ab), array_like(b), lower=int(lower), upper=int(upper))


banded_solve.batch(equation_batch)
