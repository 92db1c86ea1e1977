"""Samples of the positions of maxima, of max_unpool, adaptive maxima and pooling by p-norms."""

import numpy as np

from ...engine.registry import op
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import REAL, distinct, normal, of_several, over
from .pool import TWO, WINDOWS, _how, _partial, _views


def _indices(x, how):
    dims = len(how.kernel)
    numbers = np.arange(np.prod(x.shape[-dims:])).reshape(x.shape[-dims:])
    numbers = np.broadcast_to(numbers, x.shape)
    chosen = _views(x, how, -np.inf).argmax(-1)
    return np.take_along_axis(_views(numbers, how, -1), chosen[..., None], -1)[..., 0].astype(int)


register_op(
    "max_pool_indices",
    over([((2, 4, 5), {"how": how}) for how in WINDOWS], distinct),
    reference=_indices,
    dtypes=REAL,
    differentiable=False,
    points=[
        Point("ties go to the first", (np.array([[1.0, 3.0, 3.0, 3.0]]),), np.array([[1, 2]]),
              params={"how": _how(2, (1, 2), None, 0)}),
        Point("the padding is no place", (np.full((1, 2), -np.inf),), np.array([[0, 1]]),
              params={"how": _how(2, (1, 2), None, ((0, 0), (1, 1)))}),
    ],
)  # fmt: skip
register_op(
    "unpool_places",
    of_several([((np.array([[[0, 5], [2, 3]]]),), {"size": (2, 3)})]),
    reference=lambda indices, size: indices.reshape((*indices.shape[: -len(size)], -1)),
    dtypes=("float64",),
    differentiable=False,
    errors=[
        ErrorSample(
            "before the image",
            (np.array([[-1, 3]]),),
            ValueError,
            r"from -1 to 3, but the result",
            {"size": (2, 3)},
        ),
        ErrorSample(
            "beyond the image",
            (np.array([[3, 6]]),),
            ValueError,
            r"from 3 to 6, but the result of size \(2, 3\) has the places 0..5",
            {"size": (2, 3)},
        ),
    ],
)


PLACES = np.array([[3, 0, 3], [1, 2, 4]])  # of two writes to position 3 the last one wins


def _written(x, places, count):
    y = np.zeros((*x.shape[:-1], count), x.dtype)
    for row, where, values in zip(y, places, x, strict=True):
        for i, value in zip(where, values, strict=True):
            row[i] = value
    return y


def _read(x, places):
    y = np.take_along_axis(x, places, -1)
    for row, where in zip(y, places, strict=True):
        for i, place in enumerate(where):
            if place in where[i + 1 :]:
                row[i] = 0
    return y


_FIT = "positions must lie in the array, which the size matrix changes"
register_op(
    "write_places",
    of_several([(((2, 3), PLACES), {"count": 5}), (((2, 3), PLACES), {"count": 7})]),
    reference=_written, dtypes=REAL, skips={"K17": _FIT},
)  # fmt: skip
register_op(
    "read_places", of_several([(((2, 5), PLACES), {})]), reference=_read, dtypes=REAL,
    skips={"K17": _FIT},
)  # fmt: skip


def _unpool_samples(dims):
    shapes = {1: ((2, 3, 6), (5,)), 2: ((2, 4, 5), (1, 2, 4, 4)), 3: ((2, 4, 2, 4), (2, 2, 4))}[
        dims
    ]

    def samples(rng, dtype):
        for shape in shapes:
            x = distinct(rng, dtype, shape)
            how = _how(dims, 2, None, 0)
            places = _indices(x, how)
            params = {"kernel_size": 2, "output_size": shape[-dims:]}
            yield Sample(f"{shape}", (normal(rng, dtype, places.shape), places), params)
        how = _how(dims, 2, 3, 1)  # windows that leave gaps and reach into the padding
        shape = (2, *(4,) * dims)
        places = _indices(distinct(rng, dtype, shape), how)
        params = {"kernel_size": 2, "stride": 3, "padding": 1, "output_size": shape[1:]}
        yield Sample("gaps", (normal(rng, dtype, places.shape), places), params)

    samples.__module__ = __name__
    return samples


def _unpool(dims):
    def reference(x, indices, kernel_size, stride=None, padding=0, output_size=None):
        if output_size is None or x.shape != indices.shape:
            raise ValueError("the reference needs output_size")
        y = np.zeros((int(np.prod(x.shape[:-dims])), int(np.prod(output_size))), x.dtype)
        rows = zip(y, indices.reshape((len(y), -1)), x.reshape((len(y), -1)), strict=True)
        for row, places, values in rows:
            row[places] = values
        return y.reshape((*x.shape[:-dims], *output_size))

    return reference


for _dims in (1, 2, 3):
    register_op(
        f"max_unpool{_dims}d",
        _unpool_samples(_dims),
        reference=_unpool(_dims),
        dtypes=REAL,
        skips={"K17": "indices and sizes must fit, which the size matrix changes"},
        errors=[
            ErrorSample("indices of another shape", (np.ones((2,) * 3), np.zeros((2,), int)),
                        ValueError, rf"max_unpool{_dims}d: .*indices its shape; got x \(2, 2, 2\)",
                        {"kernel_size": 2}),
            ErrorSample("index out of range", (np.ones((1,) * 3), np.full((1,) * 3, 99)),
                        ValueError, r"indices run from 99 to 99.*has the places 0\.\.",
                        {"kernel_size": 2}),
            ErrorSample("output_size", (np.ones((1,) * 3), np.zeros((1,) * 3, int)), ValueError,
                        rf"output_size .* must end in {_dims} lengths.*stride",
                        {"kernel_size": 2, "output_size": (9,) * _dims}),
            ErrorSample("fractions", (np.ones((1,) * 3), np.zeros((1,) * 3)), TypeError,
                        "indices must hold integers, got float64", {"kernel_size": 2}),
        ],
    )  # fmt: skip


# -- adaptive --------------------------------------------------------------------------------


def _adaptive(dims, combine):
    def reference(x, output_size):
        size = (output_size,) * dims if np.ndim(output_size) == 0 else output_size
        if x.ndim < dims or 0 in x.shape[-dims:]:
            raise ValueError("empty windows")
        old = x.shape[-dims:]
        size = [n if m is None else m for n, m in zip(old, size, strict=True)]
        y = np.zeros((*x.shape[:-dims], *size))
        for place in np.ndindex(*size):
            window = tuple(
                slice(i * n // m, -(-(i + 1) * n // m))
                for i, n, m in zip(place, old, size, strict=True)
            )
            y[(..., *place)] = combine(x.astype(float)[(..., *window)], tuple(range(-dims, 0)))
        return y.astype(x.dtype)

    return reference


FORMS = {
    1: [((2, 3, 7), {"output_size": 3}), ((5,), {"output_size": 5})],
    2: [((2, 5, 6), {"output_size": (2, 4)}), ((4, 6), {"output_size": (None, 3)}),
        ((1, 2, 3), {"output_size": 4})],
    3: [((3, 4, 2), {"output_size": (2, 3, 1)}), ((2, 2, 4, 4), {"output_size": 2})],
}  # fmt: skip


def _adaptive_max(dims):
    """With return_indices also the position of each window's maximum in x, its last axes as one."""
    of_windows = _adaptive(dims, np.max)

    def reference(x, output_size, return_indices=False):
        y = of_windows(x, output_size)
        if not return_indices:
            return y
        lead = x.shape[: x.ndim - dims]
        places = np.empty(y.shape, int)
        for i in np.ndindex(*y.shape):  # entries are distinct
            own = x[i[: len(lead)]]
            places[i] = np.flatnonzero((own == y[i]) | (np.isnan(own) & np.isnan(y[i])))[0]
        return y, places

    return reference


for _dims, _forms in FORMS.items():
    _forms = [*_forms, (_forms[-1][0], {**_forms[-1][1], "return_indices": True})]
    _far_below = -1e300 * np.arange(1.0, 5**_dims + 1).reshape((5,) * _dims)
    register_op(
        f"adaptive_max_pool{_dims}d",
        over(_forms, distinct),
        reference=_adaptive_max(_dims),
        dtypes=REAL,
        points=[
            Point("filled with less than all numbers", (_far_below,),
                  _adaptive_max(_dims)(_far_below, 3), params={"output_size": 3}),
        ],
        errors=[
            ErrorSample("empty", (np.ones((2, 0, 0, 0)),), ValueError,
                        rf"adaptive_max_pool{_dims}d: x must end in {_dims} non-empty axes",
                        {"output_size": 2}),
            ErrorSample("size", (np.ones((2, 2, 2)),), ValueError,
                        r"output size must be an int ≥ 1, or . of them, got 0",
                        {"output_size": 0}),
        ],
    )  # fmt: skip
register_op("adaptive_avg_pool3d", over(FORMS[3]), reference=_adaptive(3, np.mean), dtypes=REAL)


# -- p-norms ---------------------------------------------------------------------------------


def _lp_pool(dims):
    def reference(x, norm_type, kernel_size, stride=None, ceil_mode=False):
        how = _partial(x, _how(dims, kernel_size, stride, 0), ceil_mode)
        wide, there = _views(x.astype(float), how, 0), _views(np.ones(x.shape), how, 0)
        # a partial window counts as if its mean continued: PyTorch's convention
        y = (wide**norm_type).sum(-1) * (there.shape[-1] / there.sum(-1))
        return (y ** (1 / norm_type)).astype(x.dtype)

    return reference


def _lp_call(name):
    return lambda x, **params: getattr(op, name)(x, **params)


LP = {
    1: [
        ((2, 3, 6), {"norm_type": 2, "kernel_size": 2}),
        ((5,), {"norm_type": 2, "kernel_size": 3}),
        ((6,), {"norm_type": 2, "kernel_size": 3, "stride": 2, "ceil_mode": True}),
    ],
    2: [(shape, {"norm_type": 2, "kernel_size": how["kernel_size"]}) for shape, how in TWO[:4]]
    + [((2, 4, 4), {"norm_type": 4.0, "kernel_size": 2, "stride": 1})]
    + [((3, 4), {"norm_type": 2, "kernel_size": 2, "ceil_mode": True})],
    3: [
        ((2, 2, 4, 4), {"norm_type": 2, "kernel_size": 2}),
        ((2, 2, 3), {"norm_type": 2, "kernel_size": 2}),
        ((2, 2, 3), {"norm_type": 2, "kernel_size": 2, "stride": 1}),
        ((2, 2, 3), {"norm_type": 2, "kernel_size": 2, "ceil_mode": True}),
    ],
}
for _dims, _forms in LP.items():
    register_op(
        f"lp_pool{_dims}d", over(_forms, distinct), call=_lp_call(f"lp_pool{_dims}d"),
        reference=_lp_pool(_dims), dtypes=REAL,
        points=[Point("zeros have gradient 0", (np.zeros((2,) * _dims),), np.zeros((1,) * _dims),
                      (np.zeros((2,) * _dims),), {"norm_type": 2, "kernel_size": 2}, kink=True)],
        errors=[ErrorSample("norm_type", (np.ones((2,) * _dims),), ValueError,
                            f"lp_pool{_dims}d: norm_type must be positive and finite, got 0",
                            {"norm_type": 0, "kernel_size": 2})],
    )  # fmt: skip
