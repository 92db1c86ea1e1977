"""Samples of grids, blocks, powers and quarter turns."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import COMPLEX, near_one, of_several, over


def _meshgrid(*xs, **params):
    from ...engine.registry import op

    return op.meshgrid(*xs, **params)


register_op(
    "meshgrid",
    of_several(
        [
            (((3,), (2,)), {}),
            (((3,), (2,), (4,)), {"indexing": "ij"}),
            (((3,), (2,)), {"sparse": True}),
            (((3,), ()), {}),
            (((3,),), {}),
        ]
    ),
    call=_meshgrid,
    reference=np.meshgrid,
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "indexing",
            (np.ones(2),),
            ValueError,
            "must be 'xy' or 'ij', got 'yx'",
            {"indexing": "yx"},
        )
    ],
)


def _block(a, b, c, d):
    from ...engine.registry import op

    return op.block([[a, b], [c, d]])


register_op(
    "block",
    of_several([(((2, 2), (2, 3), (1, 2), (1, 3)), {}), (((2,), (3,), (4,), ()), {})]),
    call=_block,
    reference=lambda a, b, c, d: np.block([[a, b], [c, d]]),
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "rows of different length",
            (np.ones(2), np.ones(2), np.ones(2), np.ones(3)),
            ValueError,
            "concatenat",
        )
    ],
)
register_op(
    "rot90",
    over(
        [
            ((3, 2), {}),
            ((3, 2), {"k": 2}),
            ((3, 2), {"k": -1}),
            ((3, 2), {"k": 4}),
            ((2, 3, 4), {"k": 3, "axes": (2, 0)}),
            ((2, 3, 2), {"k": 6, "axes": (1, 2)}),
        ]
    ),
    reference=np.rot90,
    dtypes=COMPLEX,
)
register_op(
    "vander",
    over(
        [((3,), {}), ((3,), {"N": 4, "increasing": True}), ((2,), {"N": 0}), ((0,), {"N": 2})],
        near_one,
    ),
    reference=lambda x, **params: np.vander(x, **params),
    dtypes=("float64", "complex128"),
    errors=[
        ErrorSample("a matrix", (np.ones((2, 2)),), ValueError, r"got shape \(2, 2\)"),
        ErrorSample("N < 0", (np.ones(2),), ValueError, "N=-1 columns; it must be", {"N": -1}),
    ],
    points=[
        Point("powers of 0", (np.zeros(1),), [[0.0, 0.0, 1.0]], ([1.0],), {"N": 3}),
    ],
)
