"""Samples of constants in the shape of an array."""

import numpy as np

from ..spec import ErrorSample, Sample, register_op


def _shapes(rng, dtype):
    for shape in [(), (3,), (2, 0), (2, 3)]:
        yield Sample(f"shape {shape}", (rng.standard_normal(shape).astype(dtype),))


def _with_dtype(rng, dtype):
    yield from _shapes(rng, dtype)
    yield Sample("as integers", (rng.standard_normal((2, 2)).astype(dtype),), {"dtype": np.int32})
    yield Sample("of another shape", (rng.standard_normal(2).astype(dtype),), {"shape": (3, 1)})


def _filled(rng, dtype):
    for sample in _shapes(rng, dtype):
        yield Sample(sample.name, sample.args, {"fill_value": 2.5})
    yield Sample("of another shape", sample.args, {"fill_value": 2.5, "shape": (3, 1)})


_BYTES = np.ones(2, np.uint8)
_BAD_DTYPE = (
    ErrorSample("no such dtype", (np.ones(2),), TypeError, "nonsense", {"dtype": "nonsense"}),
)

register_op("zeros_like", _with_dtype, reference=np.zeros_like, errors=_BAD_DTYPE)
register_op("ones_like", _with_dtype, reference=np.ones_like, errors=_BAD_DTYPE)
_NO_FIT = (
    ErrorSample("beyond", (_BYTES,), OverflowError, "bounds for uint8", {"fill_value": 300}),
    ErrorSample("no number", (_BYTES,), ValueError, "NaN to integer", {"fill_value": np.nan}),
)
register_op("full_like", _filled, reference=np.full_like, errors=(*_BAD_DTYPE, *_NO_FIT))
register_op(
    "empty_like",
    _with_dtype,
    call=lambda x, **options: np.zeros_like(np.empty_like(x, **options)),
    reference=np.zeros_like,  # the values are arbitrary: shape and dtype are compared
    errors=_BAD_DTYPE,
)
