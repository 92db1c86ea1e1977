"""Convolution: against PyTorch over its parameters, second order, blocks, frozen inputs."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops.conv.primitives import conv_dx
from minigrad.ops.windows import windows
from minigrad.testing import gradcheck, gradgradcheck


def rand(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(x):
    return mg.tensor(x, requires_grad=True)


STRIDES, PADDINGS, DILATIONS, GROUPS = (1, 2, 3), (0, 1, 3, "same"), (1, 2), (1, 2, 4)
SIZES = {1: (9,), 2: (9, 8), 3: (5, 6, 7)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 3, 2)}


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_values_and_gradients_are_pytorchs(dims):
    torch = pytest.importorskip("torch")
    ours = getattr(mg, f"conv{dims}d")
    theirs = getattr(torch.nn.functional, f"conv{dims}d")
    compared = 0
    for s, p, d, groups in itertools.product(STRIDES, PADDINGS, DILATIONS, GROUPS):
        span = d * (max(KERNELS[dims]) - 1) + 1
        if (p == "same" and s != 1) or span > min(SIZES[dims]) + 2 * (0 if p == "same" else p):
            continue
        arrays = rand(3, 4, *SIZES[dims]), rand(4, 4 // groups, *KERNELS[dims], seed=1), rand(4)
        options = {"stride": s, "padding": p, "dilation": d, "groups": groups}
        xs, ts = [leaf(x) for x in arrays], [torch.tensor(x, requires_grad=True) for x in arrays]
        y, yt = ours(*xs, **options), theirs(*ts, **options)
        np.testing.assert_allclose(y.numpy(), yt.detach().numpy(), atol=1e-11, err_msg=f"{options}")
        g = rand(*y.shape, seed=2)
        for a, b in zip(
            mg.grad(y, xs, g), torch.autograd.grad(yt, ts, torch.tensor(g)), strict=True
        ):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10, err_msg=f"{options}")
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions_are_pytorchs(dims):
    torch = pytest.importorskip("torch")
    ours = getattr(mg, f"conv_transpose{dims}d")
    theirs = getattr(torch.nn.functional, f"conv_transpose{dims}d")
    for s, p, d, groups in itertools.product((1, 2), (0, 1), (1, 2), (1, 2)):
        arrays = rand(2, 4, *SIZES[dims]), rand(4, 3, *KERNELS[dims], seed=1), rand(3 * groups)
        options = {"stride": s, "padding": p, "dilation": d, "groups": groups}
        options["output_padding"] = s - 1
        xs, ts = [leaf(x) for x in arrays], [torch.tensor(x, requires_grad=True) for x in arrays]
        y, yt = ours(*xs, **options), theirs(*ts, **options)
        np.testing.assert_allclose(y.numpy(), yt.detach().numpy(), atol=1e-11, err_msg=f"{options}")
        g = rand(*y.shape, seed=2)
        for a, b in zip(
            mg.grad(y, xs, g), torch.autograd.grad(yt, ts, torch.tensor(g)), strict=True
        ):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10, err_msg=f"{options}")


@pytest.mark.parametrize("padding", [0, 1, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_output_padding_of_a_transposed_convolution_may_exceed_the_stride(stride, padding):
    """It goes into the padding first; what is left over no kernel reaches, only the bias does."""
    torch = pytest.importorskip("torch")
    arrays = rand(2, 4, 5, 3), rand(4, 3, 2, 2, seed=1), rand(3)
    options = {"stride": stride, "padding": padding, "dilation": 4, "output_padding": (3, 2)}
    xs, ts = [leaf(x) for x in arrays], [torch.tensor(x, requires_grad=True) for x in arrays]
    y = mg.conv_transpose2d(*xs, **options)
    yt = torch.nn.functional.conv_transpose2d(*ts, **options)
    np.testing.assert_allclose(y.numpy(), yt.detach().numpy(), atol=1e-11)
    g = rand(*y.shape, seed=2)
    for a, b in zip(mg.grad(y, xs, g), torch.autograd.grad(yt, ts, torch.tensor(g)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10)


@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"stride": 2, "padding": (0, 1), "groups": 2}, {"dilation": (2, 1)}]
)
def test_second_order_agrees_with_finite_differences(options):
    groups = options.get("groups", 1)
    arrays = rand(1, 2, 5, 4), rand(2, 2 // groups, 3, 2, seed=1), rand(2, seed=2)
    assert gradcheck(lambda x, w, b: mg.conv2d(x, w, b, **options), arrays)
    assert gradgradcheck(lambda x, w, b: mg.conv2d(x, w, b, **options), arrays)


def test_third_order_of_a_cubic_in_the_weight():
    """y = Σ (x ∗ w)³ has third derivative 6 x³ along a single weight."""
    x, w = np.arange(1.0, 5.0).reshape(1, 1, 2, 2), leaf(np.full((1, 1, 1, 1), 0.5))
    y = (mg.conv2d(x, w) ** 3).sum()
    for _ in range(3):
        y = mg.grad(y, w, create_graph=True).sum()
    np.testing.assert_allclose(y.item(), 6 * (x**3).sum(), rtol=1e-12)


def test_only_wanted_gradients_are_computed_and_saved():
    x, w = mg.tensor(rand(1, 2, 4, 4)), leaf(rand(3, 2, 3, 3))
    y = mg.conv2d(x, w)
    assert len(y.node.parents) == 1
    assert not any(value is w.data for value in y.node.saved)


def test_the_columns_are_not_saved():
    x, w = leaf(rand(2, 3, 8, 8)), leaf(rand(4, 3, 3, 3))
    saved = [v for v in mg.conv2d(x, w).node.saved if isinstance(v, np.ndarray)]
    assert sum(v.nbytes for v in saved) == x.nbytes + w.nbytes


def test_float16_is_multiplied_in_float32():
    x, w = np.ones((1, 600, 2, 2), np.float16), np.ones((1, 600, 2, 2), np.float16)
    y = mg.conv2d(mg.tensor(x), mg.tensor(w))
    assert y.dtype == np.float16
    assert y.item() == 2400.0


def test_same_padding_of_an_even_kernel_has_its_extra_zero_at_the_end():
    y = mg.conv1d(np.array([[[1.0, 2.0, 3.0]]]), np.array([[[1.0, 10.0]]]), padding="same")
    np.testing.assert_array_equal(y, [[[21.0, 32.0, 3.0]]])


def test_an_image_without_batch_axis_stays_without():
    assert mg.conv2d(np.ones((2, 5, 5)), np.ones((3, 2, 3, 3))).shape == (3, 3, 3)


@pytest.mark.parametrize("batched", [(0, None), (None, 0), (0, 0)])
def test_vmap_is_the_loop_over_examples(batched):
    x = rand(3, 2, 4, 5, 5) if batched[0] == 0 else rand(2, 4, 5, 5)
    w = rand(3, 6, 2, 3, 3) if batched[1] == 0 else rand(6, 2, 3, 3)
    ys = mg.func.vmap(lambda x, w: mg.conv2d(x, w, groups=2, padding=1), in_axes=batched)(x, w)
    for k in range(3):
        one = mg.conv2d(
            x[k] if batched[0] == 0 else x, w[k] if batched[1] == 0 else w, groups=2, padding=1
        )
        np.testing.assert_allclose(ys.numpy()[k], one, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("conv", [mg.conv2d, mg.conv_transpose2d])
@pytest.mark.parametrize("batched", [(0, None), (None, 0), (0, 0)])
def test_vmap_over_no_examples_gives_none_and_gradients_of_none(conv, batched):
    x, w = (mg.ones((0,) * (axis == 0) + (3, 3, 3, 3)) for axis in batched)
    assert mg.func.vmap(conv, in_axes=batched)(x, w).shape[:3] == (0, 3, 3)
    gradients = mg.func.grad(lambda x, w: conv(x, w).sum(), argnums=(0, 1))
    for g in mg.func.vmap(gradients, in_axes=batched)(x, w):
        assert g.shape == (0, 3, 3, 3, 3)


@pytest.mark.parametrize("conv", [mg.conv1d, mg.conv2d, mg.conv3d])
def test_images_without_channels_get_a_gradient_without_channels(conv):
    sizes = (5,) * (1 + [mg.conv1d, mg.conv2d, mg.conv3d].index(conv))
    x, w = leaf(np.ones((2, 0, *sizes))), leaf(np.ones((4, 0, *sizes)))
    y = conv(x, w, padding=1)
    y.sum().backward()
    assert not y.detach().numpy().any() and x.grad.shape == x.shape and w.grad.shape == w.shape


def test_forward_mode_moves_with_every_input():
    args = rand(1, 2, 4, 4), rand(3, 2, 3, 3, seed=1), rand(3, seed=2)
    moved = tuple(rand(*x.shape, seed=7) for x in args)
    _, t = mg.func.jvp(lambda x, w, b: mg.conv2d(x, w, b), args, moved)
    h = 1e-6
    far = mg.conv2d(*[x + h * m for x, m in zip(args, moved, strict=True)])
    near = mg.conv2d(*[x - h * m for x, m in zip(args, moved, strict=True)])
    np.testing.assert_allclose(t.numpy(), (far - near) / (2 * h), rtol=1e-7, atol=1e-8)


def test_the_tangent_of_a_convolution_by_its_bias_alone_has_the_shape_of_the_result():
    x, w, b = (mg.tensor(np.ones(shape)) for shape in [(2, 3, 5, 5), (4, 3, 2, 2), 4])
    y, tangent = mg.func.jvp(lambda b: mg.conv2d(x, w, b), (b,), (b,))
    assert tangent.shape == y.shape and (tangent == 1).all()


@pytest.mark.parametrize("kinds", ["ffd", "iid", "ddD", "fdf", "idi"])
def test_the_dtype_of_a_bias_widens_the_result(kinds):
    x, w, b = (
        mg.tensor(np.ones(shape), dtype=kind)
        for shape, kind in zip([(2, 1, 4), (3, 1, 2), 3], kinds, strict=True)
    )
    expected = np.result_type(*kinds)
    for y in (mg.conv1d(x, w, b), mg.conv_transpose1d(x, w.transpose(1, 0, 2), b)):
        assert y.dtype == expected
    assert mg.conv1d(x[0], w, b).tolist() == [[3, 3, 3]] * 3


def test_a_bias_may_be_a_list():
    x, w = mg.ones(1, 1, 3), mg.ones(1, 1, 2)
    assert mg.conv1d(x, w, [1.0]).tolist() == [[[3, 3]]]
    assert mg.conv_transpose1d(x, w, [1.0]).tolist() == [[[2, 3, 3, 2]]]


@pytest.mark.parametrize("padding", [((1, 2), 3), [(1, 2), (1, 2, 3)], ((1, 2), None)])
def test_padding_of_unlike_parts_is_refused_by_name(padding):
    with pytest.raises(ValueError, match="conv2d: padding must be an int ≥ 0"):
        mg.conv2d(np.ones((1, 1, 5, 5)), np.ones((1, 1, 3, 3)), padding=padding)


@pytest.mark.parametrize("padding", [(1, 2), ((1, 0), (2, 1))], ids=str)
def test_padding_may_be_an_array(padding):
    x, w = np.ones((1, 1, 5, 5)), np.ones((1, 1, 3, 3))
    y = mg.conv2d(x, w, padding=np.array(padding))
    np.testing.assert_array_equal(y, mg.conv2d(x, w, padding=padding))


def test_the_plain_transpose_refuses_other_windows_than_the_image_has():
    a, w, how = np.ones((1, 2, 3, 4)), np.ones((2, 3, 3, 2)), windows("conv", (3, 2))
    with pytest.raises(ValueError, match="windows"):
        conv_dx.reference(a, w, size=(5, 4), how=how)
