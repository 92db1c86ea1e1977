"""Samples of convolutions in 1, 2 and 3 dimensions, and of their primitives."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...ops.windows import Windows, windows
from ..spec import ErrorSample, register_op
from .forms import COMPLEX, in_both_orders, of_several


def _views(x, how):
    """All windows of x (N, C, *size) as (N, C, *out, *kernel)."""
    x = np.pad(x, ((0, 0), (0, 0), *how.padding))
    dims = len(how.kernel)
    spans = [d * (k - 1) + 1 for k, d in zip(how.kernel, how.dilation)]
    v = sliding_window_view(x, spans, tuple(range(2, 2 + dims)))
    strides = [slice(None, None, s) for s in how.stride]
    return v[(slice(None), slice(None), *strides, *(slice(None, None, d) for d in how.dilation))]


def _conv(x, w, b=None, *, how, groups=1):
    dims = len(how.kernel)
    out, kernel = "xyz"[:dims], "pqr"[:dims]
    v = _views(x, how)
    v = v.reshape((len(x), groups, v.shape[1] // groups, *v.shape[2:]))
    w = w.reshape((groups, len(w) // groups, *w.shape[1:]))
    y = np.einsum(f"ngc{out}{kernel},goc{kernel}->ngo{out}", v, w)
    y = y.reshape((len(x), y.shape[1] * y.shape[2], *y.shape[3:]))
    return y if b is None else y + b.reshape((-1, *(1,) * dims))


def _conv_dw(a, x, *, how, groups=1):
    dims = len(how.kernel)
    out, kernel = "xyz"[:dims], "pqr"[:dims]
    v = _views(x, how)
    v = v.reshape((len(x), groups, -1, *v.shape[2:]))
    a = a.reshape((len(a), groups, -1, *a.shape[2:]))
    y = np.einsum(f"ngo{out},ngc{out}{kernel}->goc{kernel}", a, v)
    return y.reshape((-1, *y.shape[2:]))


def _public(dims):
    """The reference of conv1d, conv2d, conv3d, with their arguments turned into windows."""

    def reference(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
        if x.ndim == dims + 1:
            return reference(x[None], w, b, stride, padding, dilation, groups)[0]
        if x.shape[1] != w.shape[1] * groups or b is not None and b.shape != w.shape[:1]:
            raise ValueError("channels differ")
        if padding == "same":  # an odd number adds one at the end
            spans = np.multiply(dilation, np.subtract(w.shape[2:], 1))
            padding = tuple((int(n) // 2, int(n + 1) // 2) for n in spans)
        how = windows("reference", w.shape[2:], stride, padding, dilation)
        y = _conv(x, w, b, how=how, groups=groups)
        return y.astype(np.result_type(x, w))

    return reference


WINDOWS = [
    Windows((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Windows((3, 2), (2, 1), ((0, 1), (2, 0)), (1, 2)),
    Windows((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
]
VOLUMES = Windows((1, 2, 2), (1, 1, 1), ((0, 0), (1, 0), (0, 0)), (1, 1, 1))

# Sizes from which convolutions take other forms (fast/conv/), each with distinct axes.
LARGE = [
    (((16, 16, 11, 12), (16, 16, 3, 3), (16,)), {"padding": 1}),  # Winograd
    (((7, 36, 11, 10), (36, 36, 3, 3), (36,)), {"padding": ((1, 0), (0, 2))}),  # in tiles
    (((24, 60, 14, 13), (64, 60, 1, 1), (64,)), {}),  # pointwise
    (((16, 16, 13, 12), (16, 16, 3, 3), (16,)), {"stride": 2, "padding": 1}),  # im2col HWNC
    (((16, 16, 9, 10), (20, 16, 3, 2)), {"stride": (1, 2), "padding": ((2, 0), (0, 1))}),
    (((16, 16, 9, 10), (20, 16, 2, 2), (20,)), {"dilation": (1, 2)}),
    (((32, 3, 16, 16), (16, 3, 3, 2), (16,)), {"padding": ((0, 1), (1, 0)), "stride": (2, 1)}),
    (((16, 3, 40, 41), (16, 3, 5, 5)), {"padding": 2}),  # im2row
    (((64, 4, 9, 8), (16, 2, 2, 3)), {"groups": 2, "stride": (2, 1)}),  # refused by these forms
    (((4, 16, 21, 20), (4, 16, 5, 7), (4,)), {"padding": (2, 3)}),  # direct, in two ways
    (((4, 4, 70, 70), (8, 2, 3, 3), (8,)), {"padding": 1, "groups": 2}),  # several blocks
    (((5, 8, 30, 31), (8, 8, 5, 5), (8,)), {"padding": 2, "dilation": (1, 2)}),
    (((32, 16, 9, 8), (16, 1, 3, 3), (16,)), {"padding": 1, "groups": 16}),  # banded
    (((16, 8, 14, 15), (8, 1, 5, 5)), {"padding": 2, "groups": 8}),
    (((8, 8, 29, 30), (8, 1, 5, 5), (8,)), {"padding": 2, "groups": 8, "stride": 2}),
    (((16, 16, 36, 37), (16, 1, 3, 3), (16,)), {"padding": 1, "groups": 16}),  # shifted, in blocks
]
LARGE_1D = [
    (((64, 3, 70), (16, 3, 5), (16,)), {"padding": ((1, 2),)}),  # im2row
    (((16, 16, 80), (24, 16, 4), (24,)), {"stride": 3, "padding": ((1, 2),)}),  # im2col HWNC
    (((3, 8, 200), (8, 4, 7), (8,)), {"padding": 3, "dilation": 2, "groups": 2}),  # direct
]
LARGE_3D = [
    (((4, 16, 8, 7, 8), (16, 16, 3, 3, 3), (16,)), {"padding": 1}),  # Winograd
    (((16, 16, 4, 5, 6), (16, 16, 3, 3, 3)), {"padding": ((1, 0), (0, 1), (1, 2))}),
    (((16, 16, 5, 6, 7), (20, 16, 2, 3, 2), (20,)), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
    (((32, 3, 6, 5, 7), (16, 3, 2, 3, 2), (16,)), {"stride": (2, 1, 1), "padding": (1, 0, 1)}),
    (((2, 8, 5, 6, 7), (4, 4, 3, 2, 4), (4,)), {"groups": 2, "padding": (1, 0, 2)}),  # direct
    # banded: tiles that extend past the end of rows, blocks of channels
    (((4, 20, 4, 7, 25), (20, 1, 3, 4, 5), (20,)),
     {"groups": 20, "padding": ((1, 0), (1, 2), (0, 0)), "dilation": (1, 2, 1)}),
    (((3, 18, 3, 25, 36), (18, 1, 3, 2, 3)), {"groups": 18, "stride": (1, 1, 2)}),
]  # fmt: skip

# -- what users call -------------------------------------------------------------------------

register_op(
    "conv2d",
    of_several(
        [
            (((1, 1, 4, 3), (1, 1, 2, 2), (1,)), {"padding": (0, 1)}),
            (((2, 3, 5, 4), (4, 3, 3, 3), (4,)), {"padding": 1}),
            (((2, 3, 5, 4), (4, 3, 3, 3)), {}),
            (((2, 2, 5, 6), (3, 2, 2, 3), (3,)), {"stride": 2}),
            (((1, 2, 6, 5), (2, 2, 2, 3)), {"stride": (2, 1), "padding": (1, 2)}),
            (((1, 2, 7, 6), (2, 2, 3, 2)), {"dilation": 2, "padding": 1}),
            (((2, 4, 4, 4), (6, 2, 3, 3), (6,)), {"groups": 2, "padding": 1}),
            (((2, 3, 4, 4), (3, 1, 3, 3)), {"groups": 3}),
            (((2, 3, 4, 5), (2, 3, 1, 1), (2,)), {}),
            (((2, 2, 4, 5), (2, 2, 2, 3)), {"padding": "same", "dilation": (1, 3)}),
            (((2, 2, 4, 5), (2, 2, 2, 3)), {"padding": "valid"}),
            (((1, 2, 4, 5), (2, 2, 3, 3)), {"padding": ((0, 2), (1, 0))}),
            (((2, 5, 5), (3, 2, 3, 3), (3,)), {}),
            (((1, 2, 4, 5), (2, 2, 2, 2)), {"padding": ((0, 3), (0, 0))}),  # windows of zeros alone
            (((1, 2, 9, 9), (2, 2, 2, 2)), {}),  # enough windows for a product per image
            (((0, 2, 4, 4), (3, 2, 3, 3)), {}),
        ]
    ),
    large=in_both_orders(LARGE),
    reference=_public(2),
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "channels that do not divide by groups",
            (np.ones((1, 3, 5, 5)), np.ones((4, 1, 3, 3))),
            ValueError,
            r"conv2d: with groups=2, x \(1, 3, 5, 5\) of 3 channels needs w of shape \(O, 3/2",
            {"groups": 2},
        ),
        ErrorSample(
            "outputs that do not divide by groups",
            (np.ones((1, 4, 5, 5)), np.ones((3, 2, 3, 3))),
            ValueError,
            r"O divisible by groups; got w \(3, 2, 3, 3\)",
            {"groups": 2},
        ),
        ErrorSample(
            "kernel larger than padded input",
            (np.ones((1, 2, 3, 3)), np.ones((1, 2, 6, 2))),
            ValueError,
            r"conv2d: the kernel \(6, 2\).*larger than the padded input \(size \(3, 3\), padding "
            r"\(\(1, 1\), \(1, 1\)\)",
            {"padding": 1},
        ),
        ErrorSample(
            "w of another dimension",
            (np.ones((1, 2, 3, 3)), np.ones((1, 2, 3))),
            ValueError,
            r"conv2d: x must have 4 axes.*got x \(1, 2, 3, 3\), w \(1, 2, 3\)",
        ),
        ErrorSample(
            "'same' with a stride",
            (np.ones((1, 2, 5, 5)), np.ones((1, 2, 3, 3))),
            ValueError,
            r"padding 'same' needs stride 1, got \(2, 2\)",
            {"padding": "same", "stride": 2},
        ),
        ErrorSample(
            "stride 0",
            (np.ones((1, 2, 5, 5)), np.ones((1, 2, 3, 3))),
            ValueError,
            "stride must be an int ≥ 1, or 2 of them, got 0",
            {"stride": 0},
        ),
        ErrorSample(
            "bias of another length",
            (np.ones((1, 2, 5, 5)), np.ones((1, 2, 3, 3)), np.ones(2)),
            ValueError,
            r"b must have shape \(1,\), got \(2,\)",
        ),
    ],
)
register_op(
    "conv1d",
    of_several(
        [
            (((1, 2, 5), (2, 2, 3), (2,)), {}),
            (((2, 3, 6), (4, 3, 3), (4,)), {"padding": 1}),
            (((2, 4, 7), (2, 2, 2)), {"stride": 2, "groups": 2}),
            (((3, 8), (2, 3, 2), (2,)), {"dilation": 2}),
        ]
    ),
    large=in_both_orders(LARGE_1D),
    reference=_public(1),
    dtypes=COMPLEX,
)
register_op(
    "conv3d",
    of_several(
        [
            (((1, 1, 2, 3, 3), (1, 1, 1, 2, 2), (1,)), {}),
            (((1, 2, 3, 4, 4), (2, 2, 2, 3, 2), (2,)), {"padding": 1}),
            (((1, 2, 4, 4, 5), (2, 1, 2, 2, 3)), {"stride": (2, 1, 2), "groups": 2}),
            (((1, 1, 3, 4, 3), (1, 1, 2, 2, 1)), {"dilation": (2, 3, 1)}),
        ]
    ),
    large=in_both_orders(LARGE_3D),
    reference=_public(3),
    dtypes=COMPLEX,
)

# -- the three primitives --------------------------------------------------------------------


def _in_dtype(function):
    def reference(*arrays, **params):
        return function(*arrays, **params).astype(np.result_type(*arrays))

    return reference


_ZEROS = "windows of padded results hold zeros, which turn inf into NaN; the reference has none"
_BAD_SIZES = "conv1d, conv2d and conv3d, which users call, check the shapes of a primitive"
register_op(
    "conv",
    of_several(
        [
            (((1, 1, 4, 3), (1, 1, 2, 2), (1,)), {"how": WINDOWS[2]}),
            (((2, 3, 5, 4), (4, 3, 3, 3), (4,)), {"how": WINDOWS[0]}),
            (((1, 4, 5, 4), (2, 2, 3, 2)), {"how": WINDOWS[1], "groups": 2}),
            (((2, 2, 4, 4), (3, 2, 2, 2)), {"how": WINDOWS[2]}),
            (((1, 2, 2, 3, 2), (2, 2, 1, 2, 2), (2,)), {"how": VOLUMES}),
        ]
    ),
    reference=_in_dtype(_conv),
    dtypes=COMPLEX,
    skips={"K17": _BAD_SIZES},
)


def _conv_dx(a, w, *, size, how, groups=1):
    """The transpose of `_conv`: each kernel position adds to its positions of y."""
    a = a.reshape((len(a), groups, -1, *a.shape[2:]))
    w = w.reshape((groups, -1, *w.shape[1:]))
    padded = [n + sum(p) for n, p in zip(size, how.padding)]
    y = np.zeros((len(a), groups, w.shape[2], *padded), np.result_type(a, w))
    out = a.shape[3:]
    for place in np.ndindex(*how.kernel):
        spans = [
            slice(d * k, d * k + s * (n - 1) + 1, s)
            for k, d, s, n in zip(place, how.dilation, how.stride, out)
        ]
        y[(..., *spans)] += np.einsum("ngo...,goc->ngc...", a, w[(..., *place)])
    inside = [slice(p[0], p[0] + n) for n, p in zip(size, how.padding)]
    return y[(..., *inside)].reshape((len(a), -1, *size))


register_op(
    "conv_dx",
    of_several(
        [
            (((1, 1, 2, 1), (1, 1, 2, 2)), {"size": (5, 3), "how": WINDOWS[2]}),
            (((2, 4, 5, 4), (4, 3, 3, 3)), {"size": (5, 4), "how": WINDOWS[0]}),
            (((1, 2, 2, 4), (2, 2, 3, 2)), {"size": (5, 4), "how": WINDOWS[1], "groups": 2}),
            (((2, 3, 2, 2), (3, 2, 2, 2)), {"size": (5, 4), "how": WINDOWS[2]}),
        ]
    ),
    reference=_in_dtype(_conv_dx),
    dtypes=COMPLEX,
    skips={"K17": _BAD_SIZES, "K12": _ZEROS},
)
register_op(
    "conv_dw",
    of_several(
        [
            (((1, 1, 2, 1), (1, 1, 5, 3)), {"how": WINDOWS[2]}),
            (((2, 4, 5, 4), (2, 3, 5, 4)), {"how": WINDOWS[0]}),
            (((1, 2, 2, 4), (1, 4, 5, 4)), {"how": WINDOWS[1], "groups": 2}),
            (((2, 3, 2, 2), (2, 2, 4, 4)), {"how": WINDOWS[2]}),
        ]
    ),
    reference=_in_dtype(_conv_dw),
    dtypes=COMPLEX,
    skips={"K17": _BAD_SIZES},
)
