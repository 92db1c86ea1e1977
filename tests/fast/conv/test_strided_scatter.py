"""The transpose of convolutions with strides, phase by phase: the same sums as window by window."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.fast.conv import strided_scatter
from minigrad.ops.conv.primitives import conv, conv_dx
from minigrad.ops.windows import Windows

pytestmark = pytest.mark.promise(
    "the transpose of a strided convolution, phase by phase, is that window by window"
)

RNG = np.random.default_rng(0)
# windows (kernel, stride, padding, dilation), results (N, O, *out), inputs a group, groups, extra
# places behind the last window
CASES = {
    "as in upsampling nets": (Windows((4, 4), (2, 2), ((1, 1), (1, 1)), (1, 1)), (3, 6, 14, 14)),
    "one-sided padding": (Windows((3, 3), (2, 3), ((2, 0), (0, 1)), (1, 1)), (2, 4, 12, 10)),
    "with dilation": (Windows((3, 2), (2, 2), ((1, 1), (0, 0)), (2, 3)), (2, 4, 11, 13)),
    "gaps between windows": (Windows((2, 1), (3, 2), ((0, 0), (0, 0)), (1, 1)), (2, 4, 10, 10)),
    "signals": (Windows((8,), (4,), ((2, 2),), (1,)), (2, 4, 150)),
    "volumes": (Windows((3, 3, 3), (2, 2, 2), ((1, 1),) * 3, (1, 1, 1)), (2, 4, 5, 6, 4)),
}


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("case", CASES)
def test_phase_by_phase_is_window_by_window(case, dtype, groups, extra, monkeypatch):
    how, shape = CASES[case]
    a = RNG.standard_normal(shape).astype(dtype)
    w = RNG.standard_normal((shape[1], 3, *how.kernel)).astype(dtype)
    size = tuple(
        (n - 1) * stride + dilation * (kernel - 1) + 1 - sum(pad) + extra
        for n, (kernel, stride, pad, dilation) in zip(shape[2:], how.axes(), strict=True)
    )
    assert strided_scatter.suits(how, a)
    y = conv_dx(a, w, size=size, how=how, groups=groups)
    monkeypatch.setattr(strided_scatter, "suits", lambda *args: False)
    other = conv_dx(a, w, size=size, how=how, groups=groups)
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(y, other, rtol=rtol, atol=rtol * np.abs(other).max())


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_transpose_of_conv(case):
    how, shape = CASES[case]
    a, w = RNG.standard_normal(shape), RNG.standard_normal((shape[1], 3, *how.kernel))
    size = tuple(
        (n - 1) * stride + dilation * (kernel - 1) + 1 - sum(pad)
        for n, (kernel, stride, pad, dilation) in zip(shape[2:], how.axes(), strict=True)
    )
    x = RNG.standard_normal((shape[0], 3, *size))
    forth = np.vdot(conv(x, w, None, how=how), a)
    np.testing.assert_allclose(np.vdot(x, conv_dx(a, w, size=size, how=how)), forth)


def test_compiled_loops_do_it_their_own_way():
    numba = pytest.importorskip("numba")
    how, shape = CASES["as in upsampling nets"]
    assert numba and strided_scatter.suits(how, np.ones(shape))
    with mg.accelerate(process=False):
        assert not strided_scatter.suits(how, np.ones(shape))
