"""The CTC loss: PyTorch's values and gradients, impossible alignments, vmap, higher orders."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, jvp, vmap
from minigrad.testing import gradcheck, gradgradcheck

rng = np.random.default_rng(0)
T, N, C = 12, 6, 5
X = rng.standard_normal((T, N, C))
FRAMES = np.array([12, 10, 7, 12, 3, 5])
LENGTHS = np.array([4, 3, 0, 5, 2, 3])  # sample 5 needs 5 frames for 1 1 1, sample 4 fits
TARGETS = rng.integers(1, C, (N, 5))
TARGETS[1], TARGETS[4], TARGETS[5] = [2, 2, 2, 1, 1], [3, 1, 1, 1, 1], [1, 1, 1, 2, 2]
FEW = TARGETS[:2], FRAMES[:2], LENGTHS[:2]


def loss_of_logits(x, *args, **params):
    return mg.ctc_loss(mg.log_softmax(x, axis=-1), *args, **params)


@pytest.mark.parametrize("zero_infinity", [True, False])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_pytorch_gives_the_same_values_and_gradients(reduction, zero_infinity):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    frames = FRAMES - (np.arange(N) == 5) * zero_infinity  # 4 frames: no alignment fits
    options = {"reduction": reduction, "zero_infinity": zero_infinity}
    x, z = mg.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    ours = loss_of_logits(x, TARGETS, frames, LENGTHS, **options)
    states = [torch.tensor(a) for a in (TARGETS, frames, LENGTHS)]
    theirs = torch.nn.functional.ctc_loss(z.log_softmax(-1), *states, **options)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12)
    g = np.cos(np.arange(ours.size)).reshape(ours.shape)
    ours.backward(g)
    theirs.backward(torch.tensor(g))
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), rtol=1e-9, atol=1e-13)


def test_targets_one_after_the_other_are_the_padded_ones():
    joined = np.concatenate([row[:n] for row, n in zip(TARGETS, LENGTHS)])
    np.testing.assert_array_equal(
        mg.ctc_loss(X, joined, FRAMES, LENGTHS, reduction="none"),
        mg.ctc_loss(X, TARGETS, FRAMES, LENGTHS, reduction="none"),
    )


def test_what_stands_behind_a_targets_end_has_no_effect():
    longer = np.where(np.arange(5) < LENGTHS[:, None], TARGETS, -7)
    np.testing.assert_array_equal(
        mg.ctc_loss(X, longer, FRAMES, LENGTHS), mg.ctc_loss(X, TARGETS, FRAMES, LENGTHS)
    )


def test_a_target_that_cannot_be_aligned_costs_infinity_and_has_gradient_0():
    x = mg.tensor(X, requires_grad=True)
    frames = np.where(np.arange(N) == 5, 4, FRAMES)
    y = mg.ctc_loss(x, TARGETS, frames, LENGTHS, reduction="none")
    assert np.isinf(y.numpy()).tolist() == [False] * 5 + [True]
    y.backward(np.ones(N))
    assert np.isfinite(x.grad.numpy()).all() and not x.grad.numpy()[:, 5].any()


def test_every_time_step_within_a_sample_is_in_some_state():
    x = mg.tensor(X, requires_grad=True)
    mg.ctc_loss(x, TARGETS, FRAMES, LENGTHS, reduction="sum").backward()
    inside = np.arange(T)[:, None] < FRAMES
    np.testing.assert_allclose(x.grad.numpy().sum(-1), -1.0 * inside, rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_class_of_probability_0_gives_finite_derivatives():
    x = X[:, :2].copy()
    x[2, :, 4] = x[5, 0, 0] = -np.inf
    leaf = mg.tensor(x, requires_grad=True)
    y = mg.ctc_loss(leaf, *FEW, reduction="sum")
    first = mg.grad(y, leaf, create_graph=True)
    second = mg.grad(mg.sum(first * np.cos(np.arange(first.size)).reshape(first.shape)), leaf)
    assert np.isfinite(first.numpy()).all() and np.isfinite(second.numpy()).all()
    assert not first.numpy()[2, :, 4].any()


def test_derivatives_of_first_and_second_order_are_those_of_differences():
    f = lambda x: mg.ctc_loss(x, *FEW, reduction="none")
    assert gradcheck(f, (X[:, :2],)) and gradgradcheck(f, (X[:, :2],))


def test_the_third_derivative_is_that_of_differences():
    u = rng.standard_normal(X[:, :2].shape)

    def second(h):
        x = mg.tensor(X[:, :2] + h * u, requires_grad=True)
        first = mg.grad(mg.ctc_loss(x, *FEW), x, create_graph=True)
        return mg.grad(mg.sum(first * u), x, create_graph=True), x

    curvature, x = second(0.0)
    third = mg.sum(mg.grad(mg.sum(curvature * u), x) * u).item()
    near = [mg.sum(second(h)[0] * u).item() for h in (1e-3, -1e-3)]
    assert third == pytest.approx((near[0] - near[1]) / 2e-3, rel=1e-4)


def test_forward_mode_agrees_with_reverse_mode():
    u = rng.standard_normal(X.shape)
    _, pushed = jvp(lambda x: mg.ctc_loss(x, TARGETS, FRAMES, LENGTHS), (X,), (u,))
    x = mg.tensor(X, requires_grad=True)
    pulled = mg.grad(mg.ctc_loss(x, TARGETS, FRAMES, LENGTHS), x)
    assert pushed.item() == pytest.approx(float((pulled.numpy() * u).sum()), rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("joined", [True, False])
def test_vmap_gives_each_example_its_loss_and_gradient(joined):
    xs = rng.standard_normal((3, T, 2, C))
    targets = np.array([[[1, 2], [3, 3]], [[4, 1], [2, 1]], [[1, 1], [1, 4]]])
    lengths = np.array([[2, 2], [2, 2], [2, 2]])
    targets = targets.reshape(3, 4) if joined else targets
    frames = np.array([12, 9])
    loss = lambda x, t, n: mg.ctc_loss(x, t, frames, n)
    for f in (loss, grad(loss)):
        mapped = vmap(f)(xs, targets, lengths).numpy()
        for i, y in enumerate(mapped):
            alone = f(mg.tensor(xs[i]), targets[i], lengths[i])
            np.testing.assert_allclose(y, alone.numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_added_up_in_float32(dtype):
    if dtype == "bfloat16" and not hasattr(mg, "bfloat16"):
        pytest.skip("ml_dtypes is not installed")
    frames = 200
    x = mg.tensor(np.log(np.full((frames, 1, 4), 0.25)), dtype=dtype, requires_grad=True)
    y = mg.ctc_loss(x, np.array([[1, 2]]), np.array([frames]), np.array([2]))
    y.backward()
    exact = mg.ctc_loss(x.data.astype(float), np.array([[1, 2]]), [frames], [2])
    assert y.dtype == x.grad.dtype == x.dtype
    np.testing.assert_allclose(float(y.item()), exact, rtol=2.0**-8)
    assert np.isfinite(x.grad.data.astype(float)).all()


def test_of_no_frames_and_no_labels_the_second_derivative_is_empty_too():
    x = mg.tensor(np.zeros((0, 2, 4)), requires_grad=True)
    nothing = np.zeros(2, int)
    loss = mg.ctc_loss(x, np.zeros((2, 0), int), nothing, nothing)
    g = mg.grad(loss, x, create_graph=True)
    assert loss.item() == 0 and mg.grad((g * g).sum(), x).shape == (0, 2, 4)
