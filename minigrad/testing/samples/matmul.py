"""Samples of products of matrices and vectors: every kind of operand, batches that broadcast."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import COMPLEX, of_several

PAIRS = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((1, 3, 4), (2, 4, 1)),
    ((0, 3, 4), (4, 5)),
    ((3, 0), (0, 2)),
]


def pairs(*more):
    return of_several([(pair, {}) for pair in more])


def in_common_dtype(function):
    """The NumPy function with bfloat16 products kept in bfloat16; NumPy returns float32."""

    def reference(*arrays, **params):
        return function(*arrays, **params).astype(np.result_type(*arrays))

    return reference


register_op(
    "matmul",
    pairs(*PAIRS),
    reference=in_common_dtype(np.matmul),
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "inner lengths differ",
            (np.ones((3, 4)), np.ones((3, 4))),
            ValueError,
            r"matmul\(a: float64 \(3, 4\), b: float64 \(3, 4\)\): the last axis of a is 4 .* b 3",
        ),
        ErrorSample(
            "a scalar", (np.ones((3, 4)), np.ones(())), ValueError, r"0-d.*use a \* b for scalars"
        ),
    ],
    points=[Point("empty sum", (np.zeros((1, 0)), np.zeros((0, 2))), np.zeros((1, 2)))],
)


def _linear(x, w, b=None):
    if w.ndim != 2 or b is not None and b.shape != w.shape[:1]:
        raise ValueError("w is a matrix, with one entry of the bias for each row")
    y = np.matmul(x, w.T)
    return (y if b is None else y + b).astype(np.result_type(x, w))


register_op(
    "linear",
    pairs(
        ((5, 3), (4, 3), (4,)),
        ((5, 3), (4, 3)),
        ((3,), (4, 3), (4,)),
        ((2, 5, 3), (4, 3), (4,)),
        ((2, 2, 5, 3), (4, 3), (4,)),
        ((0, 3), (4, 3), (4,)),
    ),
    large=pairs(((16, 520), (40, 520), (40,)), ((2, 12, 300), (48, 300))),
    reference=_linear,
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "x does not fit w",
            (np.ones((2, 3)), np.ones((4, 5))),
            ValueError,
            r"linear\(x: float64 \(2, 3\), w: float64 \(4, 5\).*x must be \(\.\.\., n\)",
        ),
        ErrorSample(
            "b does not fit w",
            (np.ones((2, 3)), np.ones((4, 3)), np.ones(3)),
            ValueError,
            r"b must have shape \(4,\)",
        ),
    ],
)

# -- NumPy's other products ------------------------------------------------------------------

register_op(
    "dot",
    pairs(
        ((), (3,)),
        ((3,), (3,)),
        ((2, 3), (3, 4)),
        ((2, 3, 4), (4,)),
        ((2, 3, 4), (5, 4, 2)),
        ((4,), (2, 4, 3)),
    ),
    reference=np.dot,
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "lengths differ",
            (np.ones((2, 3, 4)), np.ones((5, 3, 2))),
            ValueError,
            r"axes differ in length: a \(2, 3, 4\).*b \(5, 3, 2\)",
        )
    ],
)
register_op(
    "inner",
    pairs(((), (3,)), ((3,), (3,)), ((2, 3), (4, 3)), ((2, 3, 4), (4,))),
    reference=np.inner,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("lengths differ", (np.ones(3), np.ones(4)), ValueError, "axes differ in length")
    ],
)
register_op(
    "outer",
    pairs(((3,), (4,)), ((2, 3), (2,)), ((), ())),
    reference=np.outer,
    dtypes=COMPLEX,
)
register_op("vdot", pairs(((3,), (3,)), ((2, 3), (3, 2))), reference=np.vdot, dtypes=COMPLEX)
register_op(
    "vecdot",
    of_several(
        [
            (((3,), (3,)), {}),
            (((2, 3), (3,)), {}),
            (((2, 1, 3), (4, 3)), {}),
            (((3, 2), (3, 2)), {"axis": 0}),
        ]
    ),
    reference=in_common_dtype(np.vecdot),
    dtypes=COMPLEX,
)
register_op(
    "kron",
    pairs(((2, 3), (3, 2)), ((3,), (2, 2)), ((2, 1, 2), (3,)), ((), (2,))),
    reference=np.kron,
    dtypes=COMPLEX,
)
register_op(
    "tensordot",
    of_several(
        [
            (((2, 3, 4), (3, 4, 2)), {}),
            (((2, 3, 4), (4, 5)), {"axes": 1}),
            (((2, 3), (4,)), {"axes": 0}),
            (((2, 3, 4), (4, 5, 2)), {"axes": ((0, -1), (2, 0))}),
            (((3, 4), (4, 3)), {"axes": (0, 1)}),
            (((2, 3, 4, 2), (4, 2, 3, 3)), {"axes": ((1, 2, 0), (2, 0, 1))}),
        ]
    ),
    reference=np.tensordot,
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "lengths differ",
            (np.ones((2, 3)), np.ones((2, 4))),
            ValueError,
            r"tensordot: the contracted axes differ in length: a \(2, 3\) over \(1,\)",
            {"axes": ((1,), (1,))},
        )
    ],
)


def _addmm(x, a, b, beta=1, alpha=1):
    return beta * x + alpha * (a @ b)


register_op(
    "addmm",
    of_several(
        [
            (((2, 4), (2, 3), (3, 4)), {}),
            (((4,), (2, 3), (3, 4)), {"beta": 0.5, "alpha": 2.0}),
        ]
    ),
    reference=_addmm,
    dtypes=COMPLEX,
)
