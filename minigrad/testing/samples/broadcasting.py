"""Samples of the shape ops that repeat elements: their gradients are sums, not moves."""

import numpy as np

from ..spec import ErrorSample, register_op
from .forms import COMPLEX, of_several, over


def shaped(name, forms, reference, **options):
    """Samples of an op of one array."""
    register_op(name, over(forms), reference=reference, dtypes=COMPLEX, **options)


shaped(
    "broadcast_to",
    [((3,), {"shape": (2, 3)}), ((2, 1, 3), {"shape": (4, 2, 2, 3)}), ((), {"shape": (2, 0)})],
    np.broadcast_to,
    errors=[ErrorSample("shape", (np.ones(3),), ValueError, "broadcast", {"shape": (2,)})],
)
register_op(
    "broadcast_arrays",
    of_several([(((3,), (2, 1)), {}), (((), (2, 3)), {})]),
    reference=np.broadcast_arrays,
    dtypes=COMPLEX,
)
shaped(
    "tile",
    [
        ((3,), {"reps": 2}),
        ((2, 3), {"reps": (2, 1)}),
        ((3,), {"reps": (2, 2)}),
        ((2, 3), {"reps": 2}),
        ((), {"reps": (2,)}),
        ((3,), {"reps": 0}),
    ],
    np.tile,
)
shaped(
    "repeat",
    [
        ((3,), {"repeats": 2}),
        ((2, 3), {"repeats": 2}),
        ((2, 3), {"repeats": 2, "axis": -1}),
        ((2, 3, 2), {"repeats": 5, "axis": 1}),
        ((2, 3), {"repeats": [2, 0, 1], "axis": 1}),
    ],
    np.repeat,
)
