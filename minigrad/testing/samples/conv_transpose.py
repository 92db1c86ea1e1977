"""Samples of transposed convolutions in 1, 2 and 3 dimensions."""

import numpy as np

from ...ops.windows import windows
from ..spec import ErrorSample, register_op
from .conv import _ZEROS, _conv_dx
from .forms import COMPLEX, in_both_orders, of_several

# Sizes from which they take other forms (fast/conv/), each with distinct axes.
LARGE = [
    (((16, 16, 8, 7), (16, 16, 4, 5), (16,)), {"stride": 2, "padding": 1}),  # sub-pixel
    (((32, 16, 5, 6), (16, 16, 4, 3)), {"stride": (2, 1), "padding": ((1, 0), (1, 0)),
                                       "output_padding": (1, 0)}),
    (((32, 16, 8, 10), (16, 16, 3, 3), (16,)), {"padding": ((1, 0), (2, 1))}),  # Winograd
    (((4, 32, 14, 15), (32, 8, 4, 4)), {"stride": 2, "padding": 1}),  # strided scatter
    (((3, 8, 11, 12), (8, 3, 5, 4)), {"stride": (2, 3), "groups": 2, "padding": ((1, 0), (0, 2))}),
    (((16, 16, 7, 8), (16, 16, 2, 2), (16,)), {"stride": 2}),
    (((16, 16, 7, 8), (16, 16, 2, 2)), {"stride": 2, "dilation": 2}),
    (((16, 16, 12, 11), (16, 1, 5, 5), (16,)), {"stride": 2, "padding": 2, "groups": 16}),
]  # fmt: skip


def _transpose(dims):
    def reference(x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        if x.ndim == dims + 1:
            args = (stride, padding, output_padding, groups, dilation)
            return reference(x[None], w, b, *args)[0]
        if x.shape[1] != w.shape[0] or b is not None and b.shape != (w.shape[1] * groups,):
            raise ValueError("channels differ")
        if x.ndim != dims + 2:
            raise ValueError("axes")
        how = windows("reference", w.shape[2:], stride, padding, dilation)
        more = np.broadcast_to(output_padding, dims)
        size = tuple(
            int((n - 1) * s - sum(p) + d * (k - 1) + 1 + m)
            for n, (k, s, p, d), m in zip(x.shape[2:], how.axes(), more)
        )
        y = _conv_dx(x, w, size=size, how=how, groups=groups)
        y = y if b is None else y + b.reshape((-1, *(1,) * dims))
        return y.astype(np.result_type(x, w))

    return reference


register_op(
    "conv_transpose2d",
    of_several(
        [
            (((1, 1, 2, 2), (1, 1, 2, 2), (1,)), {}),
            (((2, 3, 3, 2), (3, 2, 3, 3), (2,)), {"stride": 2, "padding": 1}),
            (((1, 2, 3, 2), (2, 2, 3, 3)), {"stride": 2, "padding": 1, "output_padding": 1}),
            (((1, 4, 3, 2), (4, 1, 2, 3)), {"groups": 2, "dilation": 2}),
            (
                ((1, 2, 3, 3), (2, 2, 2, 2)),
                {"stride": (1, 2), "dilation": 3, "output_padding": 2, "padding": ((0, 1), (1, 2))},
            ),
            (((1, 2, 3, 2), (2, 1, 2, 2)), {"stride": 2, "dilation": 3, "output_padding": (2, 0)}),
            (((2, 3, 3), (2, 3, 2, 2), (3,)), {}),
        ]
    ),
    large=in_both_orders(LARGE),
    reference=_transpose(2),
    dtypes=COMPLEX,
    skips={"K12": _ZEROS},
    errors=[
        ErrorSample(
            "channels differ",
            (np.ones((1, 3, 4, 4)), np.ones((2, 1, 3, 3))),
            ValueError,
            r"conv_transpose2d: with groups=1, x \(1, 3, 4, 4\) needs w of shape \(C, O/groups",
        ),
        ErrorSample(
            "w of another dimension",
            (np.ones((1, 2, 3, 3)), np.ones((2, 1, 3))),
            ValueError,
            r"conv_transpose2d: x must have 4 axes.*got x \(1, 2, 3, 3\), w \(2, 1, 3\)",
        ),
        ErrorSample(
            "output_padding as large as the stride",
            (np.ones((1, 2, 4, 4)), np.ones((2, 1, 3, 3))),
            ValueError,
            r"output_padding \(2, 2\) must be smaller than the stride \(2, 2\)",
            {"stride": 2, "output_padding": 2},
        ),
        ErrorSample(
            "bias of another length",
            (np.ones((1, 2, 4, 4)), np.ones((2, 1, 3, 3)), np.ones(2)),
            ValueError,
            r"b must have shape \(1,\), got \(2,\)",
        ),
    ],
)
register_op(
    "conv_transpose1d",
    of_several(
        [
            (((1, 2, 3), (2, 1, 2), (1,)), {}),
            (((2, 3, 4), (3, 2, 3), (2,)), {"stride": 2, "padding": 1}),
            (((1, 4, 3), (4, 1, 2)), {"stride": 2, "output_padding": 1, "groups": 2}),
            (((1, 2, 3), (2, 1, 2)), {"dilation": 3}),
        ]
    ),
    large=in_both_orders(
        [(((16, 16, 40), (16, 16, 4), (16,)), {"stride": 2, "padding": 1})]  # sub-pixel
    ),
    reference=_transpose(1),
)
register_op(
    "conv_transpose3d",
    of_several(
        [
            (((1, 1, 2, 1, 2), (1, 1, 1, 2, 2), (1,)), {}),
            (((1, 2, 2, 3, 2), (2, 1, 2, 2, 2)), {"stride": (2, 1, 2), "padding": (1, 0, 0)}),
            (
                ((1, 2, 2, 1, 2), (2, 1, 1, 2, 1)),
                {"stride": (2, 1, 1), "output_padding": (1, 0, 0), "groups": 2},
            ),
            (((1, 1, 1, 2, 2), (1, 1, 1, 2, 2)), {"dilation": (1, 3, 2)}),
        ]
    ),
    large=in_both_orders(
        [  # sub-pixel; strided scatter
            (((16, 16, 3, 4, 5), (16, 16, 4, 3, 2)), {"stride": (2, 1, 2), "padding": (1, 0, 0)}),
            (((2, 4, 4, 5, 6), (4, 3, 4, 3, 5)), {"stride": (3, 2, 2), "groups": 2, "padding": 1}),
        ]
    ),
    reference=_transpose(3),
    skips={"K12": _ZEROS},
)
