"""Samples of decompositions and eigenvalues.

Functions of a Hermitian matrix get its Hermitian part from any matrix: then every entry may be
varied alone. Factors are compared without their free phases and bases. Each vector is multiplied by
the conjugate of a combination of its entries. The projector on a complement replaces its basis.
"""

import numpy as np

from ....engine.graph import raw
from ....engine.registry import op
from ....ops.axes import module_of
from ...spec import ErrorSample, Point, Sample, register_op
from ..forms import over, together
from .matrices import (
    DTYPES,
    HALF,
    INFINITE,
    NOT_SQUARE,
    SHAPES,
    SQUARE,
    adjoint,
    diagonalisable,
    finite_only,
    indefinite,
    independent_columns,
    nearly_hermitian,
    one_triangle,
    regular,
    rotating,
)

# -- adapters --------------------------------------------------------------------------------


def _hermitian(x):
    square = x.ndim > 1 and x.shape[-1] == x.shape[-2]
    return (x + adjoint(x)) * 0.5 if square else x  # the op must refuse it


def _turned(v):
    """(v m̄, m̄), m a fixed combination of each column's entries: the sign or phase drops out.

    With a single entry instead, that entry would become real, and its imaginary part rounding
    alone.
    """
    step = 0.5j if v.dtype.kind == "c" else 0.5
    weights = (1 + step * module_of(v).arange(v.shape[-2]))[:, None].astype(v.dtype)
    mark = np.sum(v * weights, axis=-2, keepdims=True)
    return v * mark.conj(), mark.conj()


def _projector(q, k):
    """The projector on the space of the columns beyond the first k."""
    return q[..., k:] @ adjoint(q[..., k:])


def _eigen(pairs):
    w, v = pairs
    return (w, _turned(v)[0]) if v.shape[-1] else (w, v)


def _ordered(w):
    """The order of the eigenvalues: LAPACK's may change when x does."""
    return op.argsort(op.real(w) + op.imag(w) * 0.5, axis=-1)


def _eig(pairs):
    w, v = _eigen(pairs)
    order = _ordered(w)
    return _values(w), op.take_along_axis(v, order[..., None, :], axis=-1)


def _values(w):
    return op.take_along_axis(w, _ordered(w), axis=-1)


def _svd(factors):
    """Each u_i turned, and its v_i with it; projectors on the complements."""
    u, s, vh = factors
    k, v = s.shape[-1], adjoint(vh)
    if not k:
        return s, _projector(u, 0), _projector(v, 0)
    turned, mark = _turned(u[..., :k])
    return turned, s, v[..., :k] * mark, _projector(u, k), _projector(v, k)


def _qr(factors):
    """With a positive diagonal Q and R are unique, except for the complement's basis."""
    q, r = factors
    k = min(r.shape[-2:])
    sign = _signs(r)
    return q[..., :k] * sign, r[..., :k, :] * sign.swapaxes(-1, -2), _projector(q, k)


def _signs(r):
    """The signs of R's diagonal, as a row. LAPACK's choice jumps where an entry of x changes its
    sign."""
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    return np.sign(diagonal.real)[..., None, :]


def both(adapter, ours, theirs):
    """(call, reference): the adapter around our op and around NumPy's function."""

    def call(*args, **params):
        return adapter(getattr(op, ours)(*args, **params))

    def reference(*args, **params):
        return adapter(theirs(*args, **params))

    return {"call": call, "reference": reference}


def of_hermitian(adapter, ours, theirs):
    """The same, for the Hermitian part of the argument; ours with other numbers in the triangle
    that it must not read. bare: the op itself, whose gradient must be Hermitian."""
    made = both(adapter, ours, theirs)

    def call(x, bare=False, **params):
        if bare:
            return getattr(op, ours)(x, **params)
        upper = params.get("upper", params.get("UPLO") == "U")
        return made["call"](one_triangle(_hermitian(x), lower=not upper), **params)

    return {
        "call": call,
        "reference": lambda x, **params: made["reference"](_hermitian(x), **params),
    }


def _same(y):
    return y


# -- decompositions ----------------------------------------------------------------------------

TWO_AND_3 = np.diag([2.0, 3.0])
register_op(
    "cholesky",
    over([*SQUARE, ((3, 3), {"upper": True})], nearly_hermitian),
    **of_hermitian(_same, "cholesky", np.linalg.cholesky),
    dtypes=DTYPES,
    errors=[
        ErrorSample("indefinite", (-np.eye(2),), np.linalg.LinAlgError,
                    "Matrix is not positive definite"),
        NOT_SQUARE, HALF,
    ],
    points=[
        Point("reads the lower triangle", (np.array([[4.0, 7.0], [0.0, 9.0]]),), TWO_AND_3,
              ([[0.25, 0.25], [0.25, 1 / 6]],), {"bare": True}),
        Point("reads the upper triangle", (np.array([[4.0, 0.0], [7.0, 9.0]]),), TWO_AND_3,
              ([[0.25, 0.25], [0.25, 1 / 6]],), {"bare": True, "upper": True}),
    ],
)  # fmt: skip
QR_MODES = [
    *SHAPES[:4],
    *[((4, 2), {"mode": m}) for m in ("complete", "r")],
    ((2, 3), {"mode": "r"}),
]
register_op(
    "qr",
    over(QR_MODES, independent_columns),
    call=lambda x, mode="reduced": _qr_of(op.qr, x, mode),
    reference=lambda x, mode="reduced": _qr_of(np.linalg.qr, x, mode),
    dtypes=DTYPES,
    errors=[
        ErrorSample("raw", (np.eye(2),), ValueError, "mode='raw'.*'reduced'", {"mode": "raw"}),
        ErrorSample("a vector", (np.ones(2),), np.linalg.LinAlgError, r"\(…, m, n\)"),
        HALF,
    ],
)


def _qr_of(function, x, mode):
    if mode != "r":
        return _qr(function(x, mode))
    r = function(x, mode)
    return r * _signs(r).swapaxes(-1, -2)


register_op(
    "qr_factors",
    over([((3, 3), {}), ((4, 2), {}), ((2, 4, 2), {"complete": True})], regular),
    call=lambda x, complete=False: _qr(op.qr_factors(x, complete=complete)),
    reference=lambda x, complete=False: _qr(_tall_qr(x, complete)),
    dtypes=DTYPES,
    errors=[ErrorSample("wide", (np.ones((2, 3)),), ValueError, "as many rows as columns")],
)


def _tall_qr(x, complete):
    if x.ndim > 1 and x.shape[-2] < x.shape[-1]:
        raise ValueError("for qr")
    return np.linalg.qr(x, "complete" if complete else "reduced")


def _numpy_svd(x, hermitian=False, **params):
    if hermitian:  # as NumPy, except for infinite entries
        w, v = np.linalg.eigh(x)
        order = np.argsort(np.abs(w), axis=-1)[..., ::-1]
        w = np.take_along_axis(w, order, axis=-1)
        v = np.take_along_axis(v, order[..., None, :], axis=-1)
        return v, np.abs(w), np.swapaxes(v * np.copysign(1, w)[..., None, :], -1, -2).conj()
    return finite_only(np.linalg.svd)(x, **params)


def _hermitian_if(x, hermitian=False, full_matrices=True, ours=False):
    if not hermitian:
        return x
    seen = raw(x)  # NumPy's, unless it lies on a GPU or a transform is at work
    if isinstance(seen, np.ndarray) and not np.isfinite(seen).all():
        raise np.linalg.LinAlgError("LAPACK gives either numbers or NaN")
    return one_triangle(_hermitian(x)) if ours else _hermitian(x)


FULL = [(shape, {"full_matrices": full}) for shape, _ in SHAPES for full in (False, True)]
register_op(
    "svd",
    together(
        over(FULL, regular),
        over([(shape, {"hermitian": True}) for shape in ((3, 3), (2, 3, 3))], indefinite),
    ),
    call=lambda x, **params: _svd(op.svd(_hermitian_if(x, ours=True, **params), **params)),
    reference=lambda x, **params: _svd(_numpy_svd(_hermitian_if(x, **params), **params)),
    dtypes=DTYPES,
    errors=[HALF, INFINITE],
)  # fmt: skip
register_op(
    "svd_factors", over(FULL[:4], regular), **both(_svd, "svd_factors", finite_only(np.linalg.svd)),
    dtypes=DTYPES,
)  # fmt: skip
register_op(
    "svdvals", over(SHAPES, regular), reference=finite_only(np.linalg.svdvals), dtypes=DTYPES,
    errors=[HALF, INFINITE],
    points=[
        Point("equal values", (np.eye(2),), np.ones(2), (np.eye(2),)),
        Point("zero", (np.zeros((2, 2)),), np.zeros(2), (np.zeros((2, 2)),), kink=True),
    ],
)  # fmt: skip


def _hermitian_from(x, lower=True, bare=False):
    if bare:
        return op.tril(op.hermitian_from(x, lower=lower))
    return op.hermitian_from(one_triangle(_hermitian(x), lower), lower=lower)


def _square(x):
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError("square matrices")
    return x


register_op(
    "hermitian_from",
    over([*SQUARE, ((3, 3), {"lower": False})], nearly_hermitian),
    call=_hermitian_from,
    reference=lambda x, lower=True: _square(_hermitian(x)),
    dtypes=DTYPES,
    errors=[NOT_SQUARE, HALF],
    points=[
        Point(
            "a Hermitian gradient",
            (np.array([[1.0, 7.0], [2.0, 3.0]]),),
            [[1.0, 0.0], [2.0, 3.0]],
            ([[1.0, 0.5], [0.5, 1.0]],),
            {"bare": True},
        ),
    ],
)

# -- eigenvalues -------------------------------------------------------------------------------

EIGH = [*SQUARE, ((3, 3), {"UPLO": "U"})]
# the skew part of the vectors' gradients drops out
SKEW = Point("a Hermitian gradient", (np.array([[1.0, 7.0], [0.0, 3.0]]),), None, (np.eye(2),),
             {"bare": True})  # fmt: skip
register_op(
    "eigh", over(EIGH, nearly_hermitian), **of_hermitian(_eigen, "eigh", np.linalg.eigh),
    dtypes=DTYPES, errors=[NOT_SQUARE, HALF], points=[SKEW],
)  # fmt: skip
register_op(
    "eigh_pairs", over(EIGH[-3:], nearly_hermitian),
    **of_hermitian(_eigen, "eigh_pairs", np.linalg.eigh), dtypes=DTYPES, points=[SKEW],
)  # fmt: skip
register_op(
    "eigvalsh", over(EIGH, nearly_hermitian),
    **of_hermitian(_same, "eigvalsh", np.linalg.eigvalsh), dtypes=DTYPES, errors=[NOT_SQUARE, HALF],
    points=[
        Point("equal values", (np.eye(3),), np.ones(3), (np.eye(3),)),
        Point("zero", (np.zeros((2, 2)),), np.zeros(2), (np.eye(2),)),
    ],
)  # fmt: skip


def _eig_samples(rng, dtype):
    for shape in ((3, 3), (1, 1), (2, 2, 2)):
        yield Sample(f"{shape}", (diagonalisable(rng, dtype, shape),))
    if np.dtype(dtype).kind == "f":
        for shape in ((2, 2), (2, 2, 2)):
            yield Sample(f"{shape}, complex pair", (rotating(rng, dtype, shape),))


register_op(
    "eig", _eig_samples, **both(_eig, "eig", np.linalg.eig), dtypes=DTYPES,
    errors=[NOT_SQUARE, HALF],
)  # fmt: skip
register_op("eig_pairs", _eig_samples, **both(_eig, "eig_pairs", np.linalg.eig), dtypes=DTYPES)
register_op(
    "eigvals", _eig_samples, **both(_values, "eigvals", np.linalg.eigvals), dtypes=DTYPES,
    errors=[NOT_SQUARE, HALF],
)  # fmt: skip
