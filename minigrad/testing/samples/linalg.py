"""Samples of linear algebra: well-conditioned matrices and stacks, square, tall and wide.

Functions of a Hermitian matrix get its Hermitian part from any matrix, so that every entry may be
varied alone. Factors are compared without their free phases and bases: each vector is multiplied by
the conjugate of a combination of its entries; the basis of a complement gives way to the projector
on it.
"""

from typing import Any

import numpy as np

from ...core.registry import op
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import near_one, normal, of_several, over

DTYPES = ("float64", "float32", "complex128", "complex64")  # LAPACK has no 16-bit routines
SQUARE = [((3, 3), {}), ((1, 1), {}), ((2, 2, 2), {}), ((2, 1, 3, 3), {}), ((0, 0), {})]
SHAPES = [((3, 3), {}), ((4, 2), {}), ((2, 4), {}), ((2, 3, 2), {}), ((1, 3), {})]

NOT_SQUARE = ErrorSample(
    "not square", (np.ones((2, 3)),), np.linalg.LinAlgError, r"float64 \(2, 3\).*square"
)
SINGULAR = ErrorSample(
    "singular", (np.ones((2, 2)),), np.linalg.LinAlgError, r"float64 \(2, 2\)\): Singular matrix"
)
INFINITE = ErrorSample("inf", (np.diag([1.0, np.inf]),), np.linalg.LinAlgError, "holds inf or NaN")
HALF = ErrorSample(
    "float16", (np.eye(2, dtype=np.float16),), TypeError, r"in float16.*x\.astype\(mg\.float32\)"
)


# -- values ----------------------------------------------------------------------------------


def unitary(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Orthonormal columns, or rows where there are fewer of these."""
    tall = shape[-2] >= shape[-1]
    x = normal(rng, np.result_type(dtype, np.float64), shape)
    return np.linalg.qr(x)[0] if tall else np.linalg.qr(x.swapaxes(-1, -2))[0].swapaxes(-1, -2)


def spaced(n: int) -> np.ndarray:
    """Distinct numbers: 1, 2, 3 …"""
    return 1.0 + np.arange(n)


def regular(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Matrices with singular values 1, 2 …; a vector is just normal."""
    if len(shape) < 2:
        return normal(rng, dtype, shape)
    k = min(shape[-2:])
    u = unitary(rng, dtype, (*shape[:-1], k))
    v = unitary(rng, dtype, (*shape[:-2], k, shape[-1]))
    return ((u * spaced(k)) @ v).astype(dtype)


def nearly_hermitian(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """A Hermitian matrix with eigenvalues 1, 2 …, and something skew."""
    v = unitary(rng, dtype, shape)
    skew = normal(rng, dtype, shape) * 0.1
    return ((v * spaced(shape[-1])) @ _adjoint(v) + skew - _adjoint(skew)).astype(dtype)


def triangular(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """A diagonal near ±1, the rest of both triangles smaller; or a right-hand side."""
    x = normal(rng, dtype, shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return x
    eye = np.eye(shape[-1])
    return (x * 0.5 * (1 - eye) + (2 + 0.2 * np.sign(x.real)) * eye).astype(dtype)


def diagonalisable(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Eigenvalues 1, 2 … with eigenvectors near orthonormal ones: real for a real dtype."""
    v = unitary(rng, dtype, shape) + 0.1 * normal(rng, dtype, shape)
    return (v @ (spaced(shape[-1])[:, None] * np.linalg.inv(v))).astype(dtype)


def rotating(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Real matrices of order 2 with a pair of complex eigenvalues."""
    v = unitary(rng, np.float64, shape) + 0.1 * rng.standard_normal(shape)
    return (v @ np.array([[1, -1], [1, 1]]) @ np.linalg.inv(v)).astype(dtype)


def independent_columns(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """As `regular`, also in the first columns of a wide matrix, which determine its Q."""
    m, n = shape[-2:]
    square = regular(rng, dtype, (*shape[:-1], min(m, n)))
    more = normal(rng, dtype, (*shape[:-1], max(n - m, 0)))
    return np.concatenate([square, more], axis=-1)


# -- adapters --------------------------------------------------------------------------------


def _adjoint(x):
    return x.conj().swapaxes(-1, -2)


def _hermitian(x):
    square = x.ndim > 1 and x.shape[-1] == x.shape[-2]
    return (x + _adjoint(x)) * 0.5 if square else x  # the op is to refuse it


def _turned(v):
    """(v m̄, m̄), m a fixed combination of each column's entries: the sign or phase drops out.

    Of all entries: were it one, that one would become real, and its imaginary part rounding alone.
    """
    step = 0.5j if v.dtype.kind == "c" else 0.5
    weights = (1 + step * np.arange(v.shape[-2]))[:, None].astype(v.dtype)
    mark = np.sum(v * weights, axis=-2, keepdims=True)
    return v * mark.conj(), mark.conj()


def _projector(q, k):
    """On the space of the columns beyond the first k."""
    return q[..., k:] @ _adjoint(q[..., k:])


def _eigen(pairs):
    w, v = pairs
    return (w, _turned(v)[0]) if v.shape[-1] else (w, v)


def _ordered(w):
    """Which eigenvalue comes first, second …: LAPACK's order may change when x does."""
    return op.argsort(op.real(w) + op.imag(w) * 0.5, axis=-1)


def _eig(pairs):
    w, v = _eigen(pairs)
    order = _ordered(w)
    return _values(w), op.take_along_axis(v, order[..., None, :], axis=-1)


def _values(w):
    return op.take_along_axis(w, _ordered(w), axis=-1)


def _svd(factors):
    """Each u_i turned, its v_i turned along with it; projectors on the complements."""
    u, s, vh = factors
    k, v = s.shape[-1], _adjoint(vh)
    if not k:
        return s, _projector(u, 0), _projector(v, 0)
    turned, mark = _turned(u[..., :k])
    return turned, s, v[..., :k] * mark, _projector(u, k), _projector(v, k)


def _qr(factors):
    """With a positive diagonal Q and R are unique, but for the complement's basis."""
    q, r = factors
    k = min(r.shape[-2:])
    sign = _signs(r)
    return q[..., :k] * sign, r[..., :k, :] * sign.swapaxes(-1, -2), _projector(q, k)


def _signs(r):
    """Of R's diagonal, as a row. LAPACK's choice jumps where an entry of x changes its sign."""
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    return np.sign(diagonal.real)[..., None, :]


def both(adapter, ours, theirs):
    """(call, reference): the adapter around our op and around NumPy's function."""

    def call(*args, **params):
        return adapter(getattr(op, ours)(*args, **params))

    def reference(*args, **params):
        return adapter(theirs(*args, **params))

    return {"call": call, "reference": reference}


def finite_only(function):
    """NumPy's function through an SVD, which for some matrices with an inf never returns."""

    def reference(*args, **params):
        if not all(np.isfinite(x).all() for x in args):
            raise np.linalg.LinAlgError("inf or NaN")
        return function(*args, **params)

    return reference


def of_hermitian(adapter, ours, theirs):
    """The same, of the Hermitian part of the argument."""
    made = both(adapter, ours, theirs)
    return {name: lambda x, f=f, **params: f(_hermitian(x), **params) for name, f in made.items()}


def _same(y):
    return y


# -- inverses and equations --------------------------------------------------------------------

PAIRS = [
    ((3, 3), (3, 2)),
    ((3, 3), (3,)),
    ((3, 3), (3, 3)),
    ((2, 3, 3), (3,)),
    ((2, 3, 3), (3, 1)),
    ((2, 2), (2, 2, 3)),
    ((2, 1, 2, 2), (3, 2, 1)),
]
pairs = [(pair, {}) for pair in PAIRS]

register_op(
    "inv", over(SQUARE, regular), reference=np.linalg.inv, dtypes=DTYPES,
    errors=[NOT_SQUARE, SINGULAR, HALF],
)  # fmt: skip
register_op(
    "solve", of_several(pairs, regular), reference=np.linalg.solve, dtypes=DTYPES,
    errors=[
        ErrorSample("singular", (np.ones((2, 2)), np.ones(2)), np.linalg.LinAlgError,
                    r"solve\(a: float64 \(2, 2\), b: float64 \(2,\)\): Singular matrix"),
        ErrorSample("b does not fit", (np.eye(2), np.ones(3)), ValueError, "core dimension"),
    ],
)  # fmt: skip


def _triangular_reference(a, b, lower=False, unit_diagonal=False):
    if a.ndim < 2:
        raise np.linalg.LinAlgError("np.tril would take a vector for a matrix")
    a = np.tril(a) if lower else np.triu(a)
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    return np.linalg.solve(a * (1 - eye) + eye if unit_diagonal else a, b)


TRIANGLES = [{}, {"lower": True}, {"unit_diagonal": True}, {"lower": True, "unit_diagonal": True}]

register_op(
    "triangular_solve",
    of_several([*[(PAIRS[0], params) for params in TRIANGLES], *pairs[1:]], triangular),
    reference=_triangular_reference,
    dtypes=DTYPES,
    skips={"K12": "the reference eliminates, which spreads NaN and inf; substitution does not"},
    errors=[
        ErrorSample("singular", (np.diag([1.0, 0.0]), np.ones(2)), np.linalg.LinAlgError,
                    "(?i)singular"),
        ErrorSample("not square", (np.ones((2, 3)), np.ones(2)), np.linalg.LinAlgError,
                    r"square matrices.*got shape \(2, 3\)"),
        ErrorSample("b does not fit", (np.eye(2), np.ones(3)), ValueError, r"n = 2, got \(3,\)"),
    ],
)  # fmt: skip

PINV = [*SHAPES, ((2, 2), {"rcond": 1e-10})]
register_op(
    "pinv", over(PINV, regular), reference=finite_only(np.linalg.pinv), dtypes=DTYPES,
    errors=[HALF, INFINITE],
    points=[
        Point("rank 1", (np.array([[1.0, 1.0], [1.0, 1.0]]),), np.full((2, 2), 0.25)),
        Point("zero", (np.zeros((2, 3)),), np.zeros((3, 2)), (np.zeros((2, 3)),)),
    ],
)  # fmt: skip
register_op(
    "pseudoinverse",
    over([((3, 2), {"rcond": 1e-15}), ((2, 3, 3), {"rcond": 1e-15})], regular),
    reference=finite_only(np.linalg.pinv),
    dtypes=DTYPES,
)

LEAST_SQUARES = [
    ((4, 2), (4, 3)), ((2, 4), (2, 3)), ((3, 3), (3, 1)), ((2, 4, 2), (4, 1)), ((3, 1), (2, 3, 2)),
]  # fmt: skip
register_op(
    "least_squares",
    of_several([(pair, {"rcond": 1e-15}) for pair in LEAST_SQUARES], regular),
    reference=finite_only(lambda a, b, rcond: np.linalg.pinv(a, rcond) @ b),
    dtypes=DTYPES,
)


def _lstsq_reference(a, b, rcond=None):
    """NumPy's, with the rank as the integer that counting gives; matrix by matrix for a stack."""
    if a.ndim <= 2 >= b.ndim:
        x, residuals, rank, s = np.linalg.lstsq(a, b, rcond)
        return x, residuals, np.int64(rank), s
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    matrices = np.broadcast_to(a, (*stack, *a.shape[-2:])).reshape((-1, *a.shape[-2:]))
    sides = np.broadcast_to(b, (*stack, *b.shape[-2:])).reshape((-1, *b.shape[-2:]))
    parts = [_lstsq_reference(*pair) for pair in zip(matrices, sides, strict=True)]
    x, residuals = (
        np.stack(part).reshape((*stack, *part[0].shape)) for part in list(zip(*parts))[:2]
    )
    return x, residuals, np.linalg.matrix_rank(a), np.linalg.svdvals(a)


register_op(
    "lstsq",
    of_several(
        [(((4, 2), (4,)), {}), (((4, 2), (4, 3)), {}), (((2, 4), (2,)), {}), (((3, 3), (3, 2)), {}),
         (((5, 3), (5, 1)), {"rcond": 1e-6}), (((2, 4, 2), (4, 3)), {})],
        regular,
    ),
    reference=finite_only(_lstsq_reference),
    dtypes=DTYPES,
    skips={"K17": "NumPy takes no stacks; the reference's stacks need a matrix each"},
    errors=[
        ErrorSample("m differs", (np.ones((3, 2)), np.ones(4)), np.linalg.LinAlgError,
                    r"lstsq: a must be.*\(3, 2\) and \(4,\)"),
    ],
    points=[
        Point("rank 1", (np.ones((2, 2)), np.array([1.0, 3.0])),
              (np.ones(2), np.zeros(0), np.int64(1), np.array([2.0, 0.0]))),
    ],
)  # fmt: skip
register_op(
    "matrix_power",
    of_several([((x, n), {}) for x, n in [((3, 3), 2), ((3, 3), -1), ((2, 2, 2), 5), ((2, 2), -3),
                                          ((3, 3), 1), ((3, 3), 0)]], regular),
    reference=np.linalg.matrix_power,
    dtypes=DTYPES,
    errors=[
        ErrorSample("not square", (np.ones((2, 3)), 2), np.linalg.LinAlgError, "square matrices"),
        ErrorSample("a fraction", (np.ones((2, 2)), 0.5), TypeError, "must be an integer, got 0.5"),
    ],
)  # fmt: skip


def _tensor(rng, dtype, shape):
    """A well-conditioned map between spaces of four dimensions, in any shape; else normal."""
    if int(np.prod(shape)) != 16:
        return normal(rng, dtype, shape)
    return regular(rng, dtype, (4, 4)).reshape(shape)


register_op(
    "tensorsolve",
    of_several([(((2, 2, 4), (2, 2)), {}), (((4, 2, 2), (4,)), {}),
                (((2, 4, 2), (4,)), {"axes": (0, 2)})], _tensor),
    reference=np.linalg.tensorsolve,
    dtypes=DTYPES,
    skips={"K17": "NumPy mistakes the axes of a that has none beyond those of b: a.shape[-0:]"},
    errors=[ErrorSample("sizes differ", (np.ones((2, 3)), np.ones(2)), np.linalg.LinAlgError,
                        r"tensorsolve: the axes of a \(2, 3\)")],
)  # fmt: skip
register_op(
    "tensorinv",
    over([((2, 2, 4), {}), ((4, 2, 2), {"ind": 1}), ((2, 2, 2, 2), {})], _tensor),
    reference=np.linalg.tensorinv,
    dtypes=DTYPES,
    errors=[ErrorSample("ind", (np.eye(2),), ValueError, "ind=0 must be positive", {"ind": 0})],
)

# -- determinants ------------------------------------------------------------------------------

register_op(
    # without (1, 1), where the Hessian is 0 and what is compared would be rounding
    "det", over([SQUARE[0], *SQUARE[2:]], regular), reference=np.linalg.det, dtypes=DTYPES,
    errors=[NOT_SQUARE, HALF],
    points=[
        Point("rank 1 of 2", (np.array([[1.0, 2.0], [2.0, 4.0]]),), 0.0,
              (np.array([[4.0, -2.0], [-2.0, 1.0]]),)),
        Point("rank 2 of 3", (np.diag([1.0, 2.0, 0.0]),), 0.0, (np.diag([0.0, 0.0, 2.0]),)),
        Point("zero", (np.zeros((2, 2)),), 0.0, (np.zeros((2, 2)),)),
        Point("one of a stack", (np.array([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 3.0]]]),),
              np.array([0.0, 6.0]),
              (np.array([[[4.0, -2.0], [-2.0, 1.0]], [[3.0, 0.0], [0.0, 2.0]]]),)),
    ],
)  # fmt: skip


def _singular_samples(rng, dtype):
    yield Sample("regular", (regular(rng, dtype, (3, 3)),))
    for rank in (2, 1):
        kept = (np.arange(3) < rank).astype(dtype)
        x = unitary(rng, dtype, (2, 3, 3)).astype(dtype)
        yield Sample(f"rank {rank}", (x * kept @ _adjoint(x),))


register_op("det_shifts", _singular_samples, dtypes=DTYPES)
register_op(
    "slogdet", over(SQUARE, regular), reference=np.linalg.slogdet, dtypes=DTYPES,
    errors=[NOT_SQUARE, HALF],
    points=[Point("singular", (np.ones((2, 2)),), (0.0, -np.inf))],
)  # fmt: skip
register_op("slogdet_parts", over(SQUARE, regular), reference=np.linalg.slogdet, dtypes=DTYPES)

# -- decompositions ----------------------------------------------------------------------------

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


FULL = [(shape, {"full_matrices": full}) for shape, _ in SHAPES for full in (False, True)]
register_op(
    "svd", over(FULL, regular), **both(_svd, "svd", finite_only(np.linalg.svd)), dtypes=DTYPES,
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

# -- eigenvalues -------------------------------------------------------------------------------

EIGH = [*SQUARE, ((3, 3), {"UPLO": "U"})]
register_op(
    "eigh", over(EIGH, nearly_hermitian), **of_hermitian(_eigen, "eigh", np.linalg.eigh),
    dtypes=DTYPES, errors=[NOT_SQUARE, HALF],
)  # fmt: skip
register_op(
    "eigh_pairs", over(EIGH[-3:], nearly_hermitian),
    **of_hermitian(_eigen, "eigh_pairs", np.linalg.eigh), dtypes=DTYPES,
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

# -- functions of matrices ---------------------------------------------------------------------


def _uneven(rng, dtype, shape):
    """Entries away from 0, sums of rows and of columns away from each other."""
    rows, columns = shape[-2:]
    scale = (1 + np.arange(rows))[:, None] * 4.0 ** np.arange(columns)
    return (near_one(rng, dtype, shape) * scale).astype(dtype)


def _expm(x):
    import scipy.linalg

    if x.ndim < 2:
        raise np.linalg.LinAlgError("SciPy takes a scalar for a matrix")
    return scipy.linalg.expm(x)


def _small(rng, dtype, shape):
    """Singular values of 0.4, 0.8 …, so that the exponential stays O(1)."""
    return (regular(rng, dtype, shape) * 0.4).astype(dtype)


register_op(
    "matrix_exp", over(SQUARE, _small), reference=_expm, dtypes=DTYPES,
    errors=[NOT_SQUARE, HALF],
    points=[Point("zero", (np.zeros((2, 2)),), np.eye(2), (np.ones((2, 2)),))],
)  # fmt: skip

NORMS = [("fro", regular), ("nuc", regular), (2, regular), (-2, regular),
         (1, _uneven), (-1, _uneven), (np.inf, _uneven), (-np.inf, _uneven)]  # fmt: skip


def _norm_samples(rng, dtype):
    for ord, values in NORMS:
        yield Sample(f"ord={ord}", (values(rng, dtype, (3, 2)),), {"ord": ord})
    yield Sample("stack", (regular(rng, dtype, (2, 2, 3)),), {"ord": "nuc"})
    yield Sample("keepdims", (regular(rng, dtype, (2, 2, 2)),), {"keepdims": True})
    yield Sample("1, keepdims", (_uneven(rng, dtype, (2, 2, 3)),), {"ord": 1, "keepdims": True})


def _matrix_norm_reference(x, ord="fro", keepdims=False):
    norm = finite_only(np.linalg.matrix_norm) if ord in ("nuc", 2, -2) else np.linalg.matrix_norm
    return norm(x, ord=ord, keepdims=keepdims)


register_op(
    "matrix_norm",
    _norm_samples,
    reference=_matrix_norm_reference,
    dtypes=DTYPES,
    errors=[
        ErrorSample("ord", (np.eye(2),), ValueError, "ord=3; choose 'fro'", {"ord": 3}),
        ErrorSample("a vector", (np.ones(2),), ValueError, r"\(…, m, n\), got shape \(2,\)"),
    ],
    points=[
        Point("zero", (np.zeros((2, 2)),), 0.0, (np.zeros((2, 2)),), kink=True),
        Point("spectral norm of the identity", (np.eye(2),), 1.0, (np.eye(2) / 2,),
              {"ord": 2}, kink=True),
        Point("nuclear norm at rank 1", (np.diag([2.0, 0.0]),), 2.0, (np.diag([1.0, 0.0]),),
              {"ord": "nuc"}, kink=True),
    ],
)  # fmt: skip


def _cond_reference(x, p=None):
    return (finite_only(np.linalg.cond) if p in (None, 2, -2) else np.linalg.cond)(x, p=p)


register_op(
    "cond",
    over([((3, 3), {}), ((3, 2), {}), ((2, 2, 3), {"p": -2}), ((3, 3), {"p": "fro"}),
          ((3, 3), {"p": "nuc"})], regular),
    reference=_cond_reference,
    dtypes=DTYPES,
    errors=[ErrorSample("empty", (np.ones((0, 2)),), np.linalg.LinAlgError, "empty matrices")],
    points=[Point("singular", (np.diag([1.0, 0.0]),), np.inf)],
)  # fmt: skip


def _rank_samples(rng, dtype):
    x = regular(rng, dtype, (3, 2))
    yield Sample("full", (x,))
    yield Sample("rank 1", (x[:, :1] * np.ones(3, dtype),))
    yield Sample("stack, tol", (np.stack([x, x * 0]),), {"tol": 0.1})
    yield Sample("a vector", (x[:, 0],))


register_op(
    "matrix_rank", _rank_samples, reference=finite_only(np.linalg.matrix_rank), dtypes=DTYPES
)
register_op(
    "identity_like",
    over([((3, 3), {}), ((2, 2, 2), {})], normal),
    reference=lambda x: np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape),
    skips={"K17": "square matrices alone"},
)
