"""Samples of determinants, norms and other functions of matrices."""

import numpy as np

from ...spec import ErrorSample, Point, Sample, register_op
from ..forms import near_one, normal, over
from .matrices import DTYPES, HALF, NOT_SQUARE, SQUARE, adjoint, finite_only, regular, unitary

# -- determinants ------------------------------------------------------------------------------

register_op(
    # without (1, 1), where the Hessian is 0 and the comparison would see only rounding
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
        yield Sample(f"rank {rank}", (x * kept @ adjoint(x),))


register_op(
    "det_shifts", _singular_samples, dtypes=DTYPES,
    skips={"K14": "made of bases of null spaces, which differ from one SVD to another"},
    points=[Point("regular ones need none", (np.stack([np.eye(2)] * 3),), np.zeros((3, 0, 2, 2)))],
)  # fmt: skip
register_op(
    "slogdet", over(SQUARE, regular), reference=np.linalg.slogdet, dtypes=DTYPES,
    errors=[NOT_SQUARE, HALF],
    points=[Point("singular", (np.ones((2, 2)),), (0.0, -np.inf))],
)  # fmt: skip
register_op("slogdet_parts", over(SQUARE, regular), reference=np.linalg.slogdet, dtypes=DTYPES)

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
    """Singular values of 0.4, 0.8 …: the exponential stays O(1)."""
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
    yield Sample("stack, inf", (_uneven(rng, dtype, (2, 3, 2)),), {"ord": np.inf})
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
        Point("no columns", (np.zeros((3, 0)),), 0.0, (np.zeros((3, 0)),), {"ord": 1}),
        Point("spectral norm of the identity", (np.eye(2),), 1.0, (np.eye(2) / 2,),
              {"ord": 2}, kink=True),
        Point("nuclear norm at rank 1", (np.diag([2.0, 0.0]),), 2.0, (np.diag([1.0, 0.0]),),
              {"ord": "nuc"}, kink=True),
    ],
)  # fmt: skip


def _cond_reference(x, p=None):
    return (np.linalg.cond if p == "fro" else finite_only(np.linalg.cond))(x, p=p)


register_op(
    "cond",
    over([((3, 3), {}), ((3, 2), {"p": 2}), ((2, 2, 3), {"p": -2}), ((3, 3), {"p": "fro"}),
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
