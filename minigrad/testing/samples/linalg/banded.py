"""Samples of linear equations with a banded matrix. The reference builds the full matrix."""

import numpy as np

from ...spec import ErrorSample, Sample, register_op
from ..forms import normal
from .matrices import DTYPES

_SHAPES = [  # of ab, of b, and the diagonals below and above
    ((4, 5), (5,), 1, 2),
    ((3, 4), (4, 2), 1, 1),
    ((2, 3, 4), (4,), 2, 0),
    ((2, 2, 3), (3, 2), 0, 1),
    ((5, 3), (2, 3, 1), 2, 2),
    ((1, 3), (3,), 0, 0),
    ((4, 2), (2,), 2, 1),  # more diagonals than the matrix has
    ((3, 1), (1,), 1, 1),
    ((3, 0), (0, 2), 1, 1),
    ((0, 3, 4), (4,), 1, 1),
]


def _bands(rng, dtype):
    for shape, right, lower, upper in _SHAPES:
        ab = normal(rng, dtype, shape)
        ab[..., upper, :] += 4
        args = ab, normal(rng, dtype, right)
        yield Sample(f"{shape} {right} {lower} {upper}", args, {"lower": lower, "upper": upper})


def _by_matrix(ab, b, lower=0, upper=0):
    if ab.ndim < 2 or ab.shape[-2] != lower + upper + 1:
        raise ValueError("shapes")
    n = ab.shape[-1]
    a = np.zeros((*ab.shape[:-2], n, n), ab.dtype)
    for i in range(n):
        for j in range(max(0, i - lower), min(n, i + upper + 1)):
            a[..., i, j] = ab[..., upper + i - j, j]
    return np.linalg.solve(a, b)


def _solve_banded(ab, b, lower=0, upper=0):
    from ....engine.registry import op

    return op.solve_banded((lower, upper), ab, b)


for _name, _call in (("banded_solve", None), ("solve_banded", _solve_banded)):
    register_op(
        _name,
        _bands,
        call=_call,
        reference=_by_matrix,
        dtypes=DTYPES,
        skips={"K12": "the reference eliminates in the whole matrix, which spreads NaN and inf"},
        errors=[
            ErrorSample(
                "another number of diagonals", (np.ones((3, 4)), np.ones(4)), ValueError,
                r"1 lower diagonals.*2 upper ones.*must be \(…, 4, n\), got \(3, 4\)",
                {"lower": 1, "upper": 2},
            ),
            ErrorSample(
                "fewer diagonals than none", (np.ones((1, 4)), np.ones(4)), ValueError,
                r"-1 lower diagonals", {"lower": -1, "upper": 1},
            ),
            ErrorSample(
                "b does not fit", (np.ones((3, 4)), np.ones(3)), ValueError,
                r"n = 4, got \(3,\)", {"lower": 1, "upper": 1},
            ),
            ErrorSample(
                "singular", (np.zeros((3, 4)), np.ones(4)), np.linalg.LinAlgError,
                "(?i)singular", {"lower": 1, "upper": 1},
            ),
            ErrorSample(
                "float16", (np.ones((1, 4), np.float16), np.ones(4, np.float16)), TypeError,
                r"in float16.*x\.astype\(mg\.float32\)",
            ),
        ],
    )  # fmt: skip
