"""Samples of inverses and linear equations."""

import numpy as np

from ....engine.registry import op
from ...spec import ErrorSample, Point, register_op
from ..forms import normal, of_several, over, together
from .matrices import (
    DTYPES,
    HALF,
    INFINITE,
    NOT_SQUARE,
    SHAPES,
    SINGULAR,
    SQUARE,
    adjoint,
    finite_only,
    indefinite,
    one_triangle,
    regular,
    triangular,
)

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
        ErrorSample("b does not fit", (np.eye(2), np.ones(3)), ValueError, r"n = 2, got \(3,\)"),
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
    large=of_several(
        [
            (((2, 36, 36), (3, 1, 36, 2)), {"lower": True}),
            (((2, 36, 36), (36, 2)), {"unit_diagonal": True}),
        ],
        lambda rng, dtype, shape: normal(rng, dtype, shape) / 36 + np.eye(*shape[-2:]),
    ),
    skips={"K12": "the reference eliminates, which spreads NaN and inf; substitution does not"},
    errors=[
        ErrorSample("singular", (np.diag([1.0, 0.0]), np.ones(2)), np.linalg.LinAlgError,
                    "(?i)singular"),
        ErrorSample("not square", (np.ones((2, 3)), np.ones(2)), np.linalg.LinAlgError,
                    r"square matrices.*got shape \(2, 3\)"),
        ErrorSample("b does not fit", (np.eye(2), np.ones(3)), ValueError, r"n = 2, got \(3,\)"),
    ],
)  # fmt: skip


def _of_hermitian_if(function, triangle=lambda x: x):
    """The function of x, or of its Hermitian part with hermitian=True. bare: the lower triangle of
    its result for x itself, with a gradient that must be Hermitian."""

    def of(x, hermitian=False, bare=False, **params):
        if bare:
            return op.tril(function(x, hermitian=True, **params))
        if not hermitian:
            return function(x, **params)
        return function(triangle((x + adjoint(x)) / 2), hermitian=True, **params)

    return of


# its smaller singular value is between 2 ε and 3 ε, for sides of length 3 and 2
NEARLY_OF_RANK_1 = np.array([[1.0, 0.0], [0.0, 2.5 * np.finfo(float).eps], [0.0, 0.0]])
LOWER = Point("reads the lower triangle", (np.array([[1.0, 7.0], [0.0, 2.0]]),),
              np.diag([1.0, 0.5]), ([[-1.0, -0.25], [-0.25, -0.25]],),
              {"bare": True, "rcond": 1e-15})  # fmt: skip
HERMITIAN_PINV = [((3, 3), {"hermitian": True, "rcond": rcond}) for rcond in (None, 1e-10)]
register_op(
    "pinv",
    together(
        over([*SHAPES, ((2, 2), {"rcond": 1e-10})], regular), over(HERMITIAN_PINV, indefinite)
    ),
    call=_of_hermitian_if(op.pinv, one_triangle), dtypes=DTYPES,
    reference=finite_only(_of_hermitian_if(np.linalg.pinv)),
    errors=[HALF, INFINITE],
    points=[
        Point("rank 1", (np.array([[1.0, 1.0], [1.0, 1.0]]),), np.full((2, 2), 0.25)),
        Point("zero", (np.zeros((2, 3)),), np.zeros((3, 2)), (np.zeros((2, 3)),)),
        Point("up to ε times the longer side counts as 0", (NEARLY_OF_RANK_1,),
              [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], params={"rtol": None}),
        LOWER,
    ],
)  # fmt: skip
register_op(
    "pseudoinverse",
    together(
        over([(shape, {"rcond": 1e-15}) for shape in ((3, 2), (2, 3, 3))], regular),
        over([((3, 3), {"rcond": 1e-15, "hermitian": True})], indefinite),
    ),
    call=_of_hermitian_if(op.pseudoinverse, one_triangle),
    reference=finite_only(_of_hermitian_if(np.linalg.pinv)),
    dtypes=DTYPES,
    points=[LOWER],
)

LEAST_SQUARES = [
    ((4, 2), (4, 3)), ((2, 4), (2, 3)), ((3, 3), (3, 1)), ((2, 4, 2), (4, 1)), ((3, 1), (2, 3, 2)),
]  # fmt: skip
register_op(
    "least_squares",
    of_several([(pair, {"rcond": 1e-15}) for pair in LEAST_SQUARES], regular),
    reference=finite_only(lambda a, b, rcond: np.linalg.pinv(a, rcond) @ b),
    dtypes=DTYPES,
    points=[
        Point("a share of the largest counts as 0", (np.diag([2.0, 0.5]), np.ones((2, 1))),
              np.array([[0.5], [0.0]]), ([[-0.25, 0.25], [0.25, 0.0]], [[0.5], [0.0]]),
              {"rcond": 0.3}),
    ],
)  # fmt: skip


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
        [(((4, 2), (4,)), {}), (((4, 2), (4, 3)), {}), (((3, 3), (3, 2)), {}),
         (((2, 4, 2), (4, 3)), {}),
         # more rows like these have nearly rank 2, which the default must not cut off in float32
         (((2, 4), (2,)), {"rcond": 1e-5}), (((5, 3), (5, 1)), {"rcond": 1e-6})],
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
        Point("rank 1", (np.diag([2.0, 0.0]), np.array([1.0, 3.0])),
              (np.array([0.5, 0.0]), np.zeros(0), np.int64(1), np.array([2.0, 0.0]))),
        Point("a share of the largest counts as 0", (np.diag([2.0, 0.5]), np.array([1.0, 3.0])),
              (np.array([0.5, 0.0]), np.zeros(0), np.int64(1), np.array([2.0, 0.5])),
              params={"rcond": 0.3}),
        Point("by default that share is ε times the longer side", (NEARLY_OF_RANK_1, np.ones(3)),
              (np.array([1.0, 0.0]), np.zeros(0), np.int64(1), NEARLY_OF_RANK_1.diagonal())),
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
    skips={"K17": "NumPy takes wrong axes if a has none beyond those of b: a.shape[-0:]",
           "K26": "NumPy finds no axis counted from the end"},
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
