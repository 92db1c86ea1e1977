"""Samples of minigrad/ops/cast.py."""

import numpy as np

from ..spec import ErrorSample, Sample, register_op
from .elements import NUMBERS, ONE, unary, uniform


def targets(rng, dtype):
    """To a dtype of the same precision: narrower ones have no finite differences."""
    single = dtype in (np.dtype("float32"), np.dtype("complex64"))
    for shape in ONE:
        for target in ("float32", "complex64") if single else ("float64", "complex128"):
            x = uniform(rng, shape, dtype, -2, 2)
            yield Sample(f"{shape} to {target}", (x,), {"dtype": np.dtype(target)})


def whole(rng, dtype):
    for target in ("int32", "bool"):
        x = uniform(rng, (2, 3), dtype, -4, 4)
        yield Sample(f"to {target}", (x,), {"dtype": np.dtype(target)})


def _astype(x, dtype):
    real = np.iscomplexobj(x) and np.dtype(dtype).kind not in "cb"
    return (x.real if real else x).astype(dtype)


WIDE = ("float64", "float32", "complex128", "complex64")
ON_THE_HOST = "its samples go to the host; tests/cuda tests the way there and back"
register_op("cast", targets, reference=_astype, dtypes=WIDE)
register_op(
    "astype",
    targets,
    reference=_astype,
    dtypes=WIDE,
    errors=[ErrorSample("no dtype", (np.ones(3),), TypeError, "", {"dtype": "number"})],
)
register_op("discretize", whole, reference=_astype, dtypes=("float64", "float32"))
register_op(
    "device_copy",
    unary(device="cpu"),
    reference=lambda x, device: x.copy(),
    dtypes=NUMBERS,
    skips={"K14": ON_THE_HOST},
)
register_op(
    "to",
    unary(device="cpu"),
    reference=lambda x, device: x.copy(),
    dtypes=NUMBERS,
    skips={"K14": ON_THE_HOST},
)
register_op("copy", unary(), reference=np.copy, dtypes=NUMBERS)
register_op("positive", unary(), reference=np.positive, dtypes=NUMBERS)


def transposed(rng, dtype):
    yield Sample("transposed", (uniform(rng, (2, 3), dtype, -2, 2).T,))
    yield from unary()(rng, dtype)


register_op("contiguous", transposed, reference=np.array, dtypes=NUMBERS)
