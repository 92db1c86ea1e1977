"""The two ways of the direct form: windows of all axes, or of the inputs and of the results."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.fast.conv import im2col
from minigrad.ops.conv import primitives
from minigrad.ops.windows import windows

pytestmark = pytest.mark.promise(
    "both ways of the direct convolution, and its transpose by phases, are PyTorch's; a "
    "NaN or ∞ stays where it was"
)

torch = pytest.importorskip("torch", reason="PyTorch is the reference")

# shapes of x and w, and the options of both libraries
CASES = {
    "5×5": ((3, 8, 12, 13), (8, 8, 5, 5), {"padding": 2}),
    "7×3, few results": ((2, 9, 13, 11), (2, 9, 7, 3), {"padding": (3, 1)}),
    "no padding": ((2, 6, 12, 12), (2, 6, 5, 5), {}),
    "less than half": ((2, 6, 12, 12), (2, 6, 5, 5), {"padding": (1, 2)}),
    "dilated": ((2, 6, 14, 14), (4, 6, 5, 5), {"padding": 4, "dilation": 2}),
    "groups": ((3, 12, 11, 11), (8, 3, 5, 5), {"padding": 2, "groups": 4}),
    "small images": ((6, 8, 5, 6), (6, 8, 5, 5), {"padding": 2}),
    "1-d": ((3, 16, 40), (2, 16, 9), {"padding": 4}),
    "3-d": ((2, 4, 7, 6, 8), (3, 4, 3, 3, 5), {"padding": (1, 1, 2)}),
    "padded beyond the kernel": ((2, 6, 9, 9), (2, 6, 5, 5), {"padding": 6}),
    "stride": ((2, 6, 13, 13), (2, 6, 5, 5), {"padding": 2, "stride": 2}),
}


def drawn(case):
    x_shape, w_shape, options = CASES[case]
    rng = np.random.default_rng(len(case))
    x, w, b = rng.normal(size=x_shape), rng.normal(size=w_shape), rng.normal(size=w_shape[0])
    return (x, w, b), options, f"conv{len(x_shape) - 2}d"


@pytest.fixture(params=["windows of all axes", "of both", "as it pays"])
def way(request, monkeypatch):
    if request.param != "as it pays":
        second = request.param == "of both"
        monkeypatch.setattr(im2col, "_second_pays", lambda *_: second)


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_pytorchs(case, way):
    arrays, options, name = drawn(case)
    leaves = [mg.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = getattr(mg, name)(*leaves, **options)
    expected = getattr(torch.nn.functional, name)(*theirs, **options)
    np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), rtol=1e-11, atol=1e-11)
    g = np.random.default_rng(1).normal(size=y.shape)
    y.backward(g)
    expected.backward(torch.tensor(g))
    for leaf, other in zip(leaves, theirs, strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy(), rtol=1e-11, atol=1e-11)


def test_complex_images_have_the_gradients_of_their_parts(way):
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((2, 4, 9, 9), (3, 4, 5, 5)))
    how = windows("conv2d", (5, 5), padding=2)
    y = primitives.conv(x, w, None, how=how)
    parts = [
        primitives.conv(a, b, None, how=how) for a in (x.real, x.imag) for b in (w.real, w.imag)
    ]
    np.testing.assert_allclose(y.real, parts[0] - parts[3], atol=1e-12)
    np.testing.assert_allclose(y.imag, parts[1] + parts[2], atol=1e-12)


def test_the_second_way_is_taken_where_it_makes_fewer_columns():
    five = windows("conv2d", (5, 5), padding=2)
    assert im2col._second_pays(five, 64, 64, im2col.WORTH_ADDING)
    assert not im2col._second_pays(five, 8, 32, im2col.WORTH_ADDING)
    assert not im2col._second_pays(windows("conv2d", (1, 1)), 64, 64, im2col.WORTH_COPYING)


def test_every_block_of_images_has_its_part_in_the_weights_gradient(monkeypatch, way):
    arrays, options, _ = drawn("5×5")
    how = windows("conv2d", (5, 5), **options)
    a = np.random.default_rng(2).normal(size=(3, 8, 12, 13))
    whole = primitives.conv_dw(a, arrays[0], how=how)
    monkeypatch.setattr("minigrad.fast.conv.images.BLOCK_BYTES", 1)  # an image at a time
    np.testing.assert_allclose(primitives.conv_dw(a, arrays[0], how=how), whole, rtol=1e-12)


@pytest.mark.parametrize("which", ["x", "w", "a"])
def test_what_is_not_finite_is_multiplied_by_the_zeros_it_always_was(which, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = {"x": (2, 4, 6, 6), "w": (3, 4, 5, 5), "a": (2, 3, 6, 6)}
    arrays = {name: rng.normal(size=shape) for name, shape in arrays.items()}
    arrays[which][0, 0, 0, 0] = np.inf
    how = windows("conv2d", (5, 5), padding=2)

    def three():
        return (
            primitives.conv(arrays["x"], arrays["w"], None, how=how),
            primitives.conv_dx(arrays["a"], arrays["w"], size=(6, 6), how=how),
            primitives.conv_dw(arrays["a"], arrays["x"], how=how),
        )

    with np.errstate(invalid="ignore"):
        monkeypatch.setattr(im2col, "_either_way", lambda *_: None)
        expected = three()
        monkeypatch.undo()
        for second in (False, True):
            monkeypatch.setattr(im2col, "_second_pays", lambda *_, second=second: second)
            for found, other in zip(three(), expected, strict=True):
                np.testing.assert_allclose(found, other, rtol=1e-12, atol=1e-12)
