"""Losses: against PyTorch over their parameters, safe ends, second order, ignored samples."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise("losses are finite at their ends in every dtype")

RNG = np.random.default_rng(0)
WEIGHT = RNG.uniform(0.5, 2, 5)
SHAPES = [(5,), (7, 5), (3, 5, 4), (2, 5, 3, 2)]
REDUCTIONS = ("mean", "sum", "none")


def leaf(x):
    return mg.tensor(x, requires_grad=True)


def agree(ours, theirs, *args, rtol=1e-9, **options):
    """Value and gradients of every floating argument are PyTorch's."""
    torch = pytest.importorskip("torch")

    def theirs_of(x):
        return torch.tensor(x, requires_grad=x.dtype.kind == "f")

    xs = [leaf(x) if x.dtype.kind == "f" else x for x in args]
    ts = [theirs_of(x) for x in args]
    plain = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    y, yt = ours(*xs, **options), theirs(*ts, **plain)
    assert y.shape == tuple(yt.shape)
    np.testing.assert_allclose(y.numpy(), yt.detach().numpy(), rtol=1e-10, atol=1e-12)
    g = np.cos(np.arange(y.size)).reshape(y.shape)
    ours_in = [x for x in xs if isinstance(x, mg.Tensor)]
    theirs_in = [t for t in ts if t.requires_grad]
    expected = torch.autograd.grad(yt, theirs_in, torch.tensor(g), allow_unused=True)
    for a, b in zip(mg.grad(y, ours_in, g, allow_unused=True), expected, strict=True):
        if b is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=1e-11)


def functional():
    return pytest.importorskip("torch").nn.functional


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_on_indices_is_pytorchs(shape):
    x = RNG.standard_normal(shape)
    t = np.asarray(RNG.integers(0, 5, () if len(shape) == 1 else (shape[0], *shape[2:])))
    if t.ndim:
        t.flat[1] = -100
    for reduction, weight, smoothing in itertools.product(REDUCTIONS, (None, WEIGHT), (0.0, 0.1)):
        options = {"reduction": reduction, "weight": weight, "label_smoothing": smoothing}
        agree(mg.cross_entropy, functional().cross_entropy, x, t, **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_on_probabilities_is_pytorchs(shape):
    x = RNG.standard_normal(shape)
    q = np.exp(RNG.standard_normal(shape))
    q /= q.sum(0 if x.ndim == 1 else 1, keepdims=True)
    for reduction, weight, smoothing in itertools.product(REDUCTIONS, (None, WEIGHT), (0.0, 0.1)):
        options = {"reduction": reduction, "weight": weight, "label_smoothing": smoothing}
        agree(mg.cross_entropy, functional().cross_entropy, x, q, **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_nll_is_pytorchs(shape):
    x = RNG.standard_normal(shape)
    t = np.asarray(RNG.integers(0, 5, () if len(shape) == 1 else (shape[0], *shape[2:])))
    for reduction, weight in itertools.product(REDUCTIONS, (None, WEIGHT)):
        agree(mg.nll, functional().nll_loss, x, t, reduction=reduction, weight=weight)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_elements_are_pytorchs(reduction):
    f = functional()
    x, b = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
    p, q = RNG.uniform(0.1, 0.9, (3, 4)), RNG.uniform(0.1, 0.9, (3, 4))
    agree(mg.mse, f.mse_loss, x, b, reduction=reduction)
    agree(mg.l1, f.l1_loss, x, b, reduction=reduction)
    agree(mg.huber, f.huber_loss, x, b, reduction=reduction, delta=0.7)
    agree(mg.kl_div, f.kl_div, np.log(p), q, reduction=reduction)
    agree(mg.kl_div, f.kl_div, np.log(p), np.log(q), reduction=reduction, log_target=True)
    agree(
        mg.bce_with_logits, f.binary_cross_entropy_with_logits, x, q,
        reduction=reduction, weight=p, pos_weight=q[0],
    )  # fmt: skip
    # PyTorch guards its division by p (1 − p) with a float32 constant
    agree(mg.bce, f.binary_cross_entropy, p, q, reduction=reduction, rtol=1e-7)
    sign = np.array([1, -1, 1])
    agree(mg.cosine_embedding, f.cosine_embedding_loss, x, b, sign, reduction=reduction, margin=0.1)
    agree(mg.triplet, f.triplet_margin_loss, x, b, p, reduction=reduction)
    agree(mg.triplet, f.triplet_margin_loss, x, b, p, reduction=reduction, p=3)
    agree(mg.triplet, f.triplet_margin_loss, x, b, p, reduction=reduction, p=float("inf"))


@pytest.mark.parametrize(
    "options", [{}, {"weight": WEIGHT, "reduction": "none"}, {"label_smoothing": 0.1}]
)
def test_cross_entropy_second_order(options):
    x, t = RNG.standard_normal((3, 5, 2)), RNG.integers(0, 5, (3, 2))
    assert gradcheck(lambda x: mg.cross_entropy(x, t, **options), (x,))
    assert gradgradcheck(lambda x: mg.cross_entropy(x, t, **options), (x,))


def test_cross_entropy_third_order_is_that_of_logsumexp():
    x, t = leaf(RNG.standard_normal((1, 4))), np.array([2])
    u = RNG.standard_normal((1, 4))

    def third(y):
        for _ in range(3):
            y = (mg.grad(y, x, create_graph=True) * u).sum()
        return y.item()

    fused = third(mg.cross_entropy(x, t))
    np.testing.assert_allclose(fused, third(mg.logsumexp(x)), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_classes_are_many_of_which_most_have_probability_zero(dtype):
    """The two ways of cross_entropy_index, by columns and by rows, on the same numbers."""
    x = RNG.standard_normal((40, 5)).astype(dtype)
    wide = np.full((40, 50), -np.inf, dtype)
    wide[:, :5] = x
    target = RNG.integers(0, 5, 40)
    few, many = leaf(x), leaf(wide)
    losses = [mg.cross_entropy(logits, target, reduction="none") for logits in (few, many)]
    for y in losses:
        assert y.dtype == dtype
        y.backward(mg.tensor(np.cos(np.arange(40)).astype(dtype)))
    for a, b in ((losses[0], losses[1]), (few.grad, many.grad[:, :5])):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=8 * np.finfo(dtype).eps)
    assert not many.grad[:, 5:].numpy().any()


def test_large_logits_do_not_overflow():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        y = mg.cross_entropy(leaf(np.array([[1e4, 0.0], [0.0, 1e4]])), np.array([0, 0]))
        y.backward()
    assert y.item() == 5e3


def test_an_ignored_sample_has_gradient_zero_whatever_it_holds():
    x = leaf(np.array([[np.nan, np.inf], [0.0, 0.0]]))
    with np.errstate(invalid="ignore"):
        mg.cross_entropy(x, np.array([-100, 0])).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0.0, 0.0], [-0.5, 0.5]])


@pytest.mark.parametrize("loss", [mg.cross_entropy, mg.nll])
@pytest.mark.parametrize("ignored", [0, 2, -1, 7])
def test_an_ignore_index_may_be_any_number_a_class_too(loss, ignored):
    x, target = RNG.standard_normal((4, 3)), np.array([0, ignored, 1, 2])
    counts = target != ignored
    y = loss(mg.tensor(x), target, ignore_index=ignored)
    np.testing.assert_allclose(y.item(), loss(mg.tensor(x[counts]), target[counts]).item())


NO_MEAN = {
    "indices": mg.cross_entropy,
    "smoothed": lambda x, t, *w: mg.cross_entropy(x, t, *w, label_smoothing=0.1),
    "nll": mg.nll,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("name", NO_MEAN)
def test_ignored_samples_alone_have_no_mean_and_gradient_zero(name, weight):
    x = leaf(RNG.standard_normal((2, 5)))
    y = NO_MEAN[name](x, np.array([-100, -100]), weight)
    assert np.isnan(y.item()) and not mg.grad(y, x).numpy().any()


@pytest.mark.parametrize("name", ["indices", "smoothed"])
def test_ignored_samples_alone_have_second_derivatives_zero(name):
    x = leaf(RNG.standard_normal((2, 5)))
    g = mg.grad(NO_MEAN[name](x, np.array([-100, -100])), x, create_graph=True)
    assert not mg.grad((g * x.detach()).sum(), x).numpy().any()


@pytest.mark.parametrize("name", NO_MEAN)
def test_of_samples_whose_classes_weigh_nothing_the_mean_has_no_gradient(name):
    x = leaf(RNG.standard_normal((2, 5)))
    y = NO_MEAN[name](x, np.array([1, -100]), np.array([1.0, 0, 1, 1, 1]))
    g = mg.grad(y, x).numpy()
    assert np.isnan(y.item()) and np.isnan(g[0, 1]) and not g[1].any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NO_MEAN)
def test_an_example_without_a_target_leaves_the_others_alone(name):
    x, t = RNG.standard_normal((2, 3, 5)), np.array([[-100] * 3, [0, -100, 4]])
    loss = NO_MEAN[name]
    values = mg.func.vmap(loss)(x, t).numpy()
    gs = mg.func.vmap(mg.func.grad(loss))(x, t).numpy()
    assert np.isnan(values[0]) and not gs[0].any()
    np.testing.assert_allclose(values[1], loss(x[1], t[1]), rtol=1e-12)
    np.testing.assert_allclose(gs[1], mg.func.grad(loss)(mg.tensor(x[1]), t[1]), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("name", NO_MEAN)
def test_a_batch_without_samples_has_no_mean(name):
    assert np.isnan(NO_MEAN[name](np.zeros((0, 3)), np.zeros(0, int)))


def test_a_float16_mean_over_many_samples_is_exact():
    n = 70_000  # more than float16 can count, and 1/n is below its smallest normal number
    x = leaf(np.zeros((n, 2), np.float16))
    y = mg.cross_entropy(x, np.zeros(n, int))
    y.backward(np.array(1024, np.float16))
    assert y.dtype == x.grad.dtype == np.float16
    np.testing.assert_allclose(float(y.item()), np.log(2), rtol=1e-3)
    np.testing.assert_allclose(x.grad.numpy()[0].astype(float), [-512 / n, 512 / n], rtol=1e-3)


def test_per_sample_gradients_by_vmap():
    x, t = RNG.standard_normal((4, 5)), np.array([0, 1, 4, 2])
    per_sample = mg.func.vmap(mg.func.grad(mg.cross_entropy))(x, t)
    leaves = leaf(x)
    mg.cross_entropy(leaves, t, reduction="sum").backward()
    np.testing.assert_allclose(per_sample.numpy(), leaves.grad.numpy(), rtol=1e-12)


def test_a_target_out_of_range_is_named():
    with pytest.raises(ValueError, match=r"indices from 0 to 5, but x \(2, 5\) has 5 classes"):
        mg.cross_entropy(leaf(np.zeros((2, 5))), np.array([0, 5]))


def test_regression_refuses_shapes_that_would_broadcast():
    with pytest.raises(ValueError, match=r"mse: x \(3, 1\) and target \(3,\) must have the same"):
        mg.mse(leaf(np.zeros((3, 1))), np.zeros(3))


def test_bce_with_logits_keeps_digits_that_a_sigmoid_loses():
    y = mg.bce_with_logits(np.array([40.0, -40.0]), np.array([1.0, 0.0]), reduction="none")
    np.testing.assert_allclose(y, np.exp(-40.0), rtol=1e-15)


def test_kl_div_of_a_zero_probability_is_zero():
    y = mg.kl_div(np.log([0.5, 0.5]), np.array([0.0, 1.0]), reduction="sum")
    np.testing.assert_allclose(y, np.log(2), rtol=1e-15)


def test_kl_div_takes_a_number_for_a_batch_of_one():
    x, target = np.array(-0.7), np.array(0.4)
    assert mg.kl_div(x, target, reduction="batchmean") == mg.kl_div(x, target, reduction="sum")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["indices", "smoothed", "nll", "probabilities"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_vmap_takes_weights_and_targets_of_each_example_or_of_all(reduction, kind):
    x, weight = RNG.standard_normal((3, 4, 5, 2)), RNG.uniform(0.5, 1.5, (3, 5))
    target = RNG.integers(0, 5, (3, 4, 2))
    target[:, 0, 0] = -100
    if kind == "probabilities":
        target = np.exp(RNG.standard_normal(x.shape))
    loss, options = mg.cross_entropy, {"reduction": reduction}
    options |= {"label_smoothing": 0.1} if kind == "smoothed" else {}
    loss = mg.nll if kind == "nll" else loss

    def total(x, t, w):
        y = loss(x, t, w, **options)
        return (y * np.cos(np.arange(y.size)).reshape(y.shape)).sum()

    for own in itertools.product((True, False), repeat=3):
        if any(own):
            args = [a if mine else a[0] for a, mine in zip((x, target, weight), own)]
            mapped = mg.func.vmap(total, tuple(0 if mine else None for mine in own))(*args)
            for i in range(3):
                alone = [a[i] if mine else a for a, mine in zip(args, own)]
                expected = total(mg.tensor(alone[0]), *alone[1:])
                np.testing.assert_allclose(mapped.numpy()[i], expected.numpy(), rtol=1e-10)
    per_sample = mg.func.vmap(mg.func.grad(total))(x, target, weight)
    alone = mg.func.grad(total)(mg.tensor(x[1]), target[1], weight[1])
    np.testing.assert_allclose(per_sample.numpy()[1], alone.numpy(), rtol=1e-10, atol=1e-14)


def test_vmap_refuses_weights_of_another_length():
    loss = mg.func.vmap(lambda x, w: mg.cross_entropy(x, np.array([0, 1]), w))
    with pytest.raises(
        ValueError, match=r"weight must have shape \(5,\), one entry for each class, got \(4,\)"
    ):
        loss(np.zeros((3, 2, 5)), np.ones((3, 4)))


ENDS = {
    "bce": (mg.bce, [0.0, 1.0, 0.5], [0.0, 1.0, 0.5]),
    "bce_with_logits": (mg.bce_with_logits, [1000.0, -1000.0, 1000.0], [1.0, 0.0, 0.0]),
    "kl_div": (mg.kl_div, [-np.inf, -1.0, -2.0], [0.0, 0.5, 0.5]),
    "kl_div of logarithms": (
        lambda x, t, **o: mg.kl_div(x, t, log_target=True, **o),
        [-np.inf, -1.0, -2.0], [-np.inf, -np.inf, -1.0],
    ),
    "huber": (mg.huber, [60000.0, -60000.0, 1e-3], [0.0, 0.0, 0.0]),
    "cross_entropy": (mg.cross_entropy, [[3e4, 0.0, -3e4], [-np.inf, 0.0, 0.0]],
                      [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]),
    "cosine": (lambda a, b, **o: mg.cosine_embedding(a, b, np.array([1, -1]), **o),
               [[300.0, 300.0], [1e-4, 1e-4]], [[300.0, 0.0], [1.0, 1.0]]),
    "triplet": (lambda a, b, **o: mg.triplet(a, b, a * 0.5, **o),
                [[300.0, 300.0], [1.0, 1.0]], [[300.0, 0.0], [1.0, 1.0]]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ENDS)
def test_losses_and_their_gradients_are_finite_at_their_ends(name, dtype):
    if dtype == "bfloat16" and not hasattr(mg, "bfloat16"):
        pytest.skip("ml_dtypes is not installed")
    loss, x, target = ENDS[name]
    x = mg.tensor(np.array(x), dtype=dtype, requires_grad=True)
    target = mg.tensor(np.array(target), dtype=dtype)
    y = loss(x, target, reduction="none")
    (gx,) = mg.grad(y, [x], np.ones(y.shape, y.dtype))
    exact = loss(*[mg.tensor(a.data.astype(float)) for a in (x, target)], reduction="none")
    eps = {"float16": 2.0**-9, "bfloat16": 2.0**-6}.get(dtype, 1e-5)
    assert y.dtype == gx.dtype == x.dtype
    np.testing.assert_allclose(y.data.astype(float), exact.numpy(), rtol=eps, atol=eps)
    assert np.isfinite(gx.data.astype(float)).all()
    for reduction in ("mean", "sum"):
        assert not np.isnan(float(loss(x, target, reduction=reduction).item()))


def test_hubers_second_derivative_is_1_inside_and_0_outside():
    x = leaf(np.array([0.0, 0.3, -0.4, 2.0, -3.0]))
    first = mg.grad(mg.huber(x, np.zeros(5), "sum"), x, create_graph=True)
    np.testing.assert_array_equal(mg.grad(first.sum(), x).numpy(), [1, 1, 1, 0, 0])


def test_logits_that_are_whole_numbers_keep_the_fractions_of_their_losses():
    x, t = np.array([1, 0, -2]), np.array([1, 0, 0])
    y = mg.bce_with_logits(mg.tensor(x), t, reduction="none")
    np.testing.assert_allclose(y.numpy(), mg.bce_with_logits(x * 1.0, t * 1.0, reduction="none"))


@pytest.mark.parametrize("loss", [mg.cross_entropy, mg.nll])
def test_targets_may_be_written_over_between_forward_and_backward(loss):
    x, target = leaf(RNG.standard_normal((4, 3))), np.array([0, 1, 2, 0])
    before = mg.grad(loss(x, target), x).numpy()
    y = loss(x, target)
    target[:] = 1
    np.testing.assert_array_equal(mg.grad(y, x).numpy(), before)


def test_the_triplet_loss_of_complex_vectors_is_that_of_their_distances():
    a, near, far = np.array([[1 + 2j, 0]]), np.array([[0j, 1j]]), np.array([[2 + 1j, 3]])
    y = mg.triplet(mg.tensor(a), near, far, margin=5.0, eps=0.0)
    assert y.dtype == np.float64
    expected = np.linalg.norm(a - near) - np.linalg.norm(a - far) + 5
    np.testing.assert_allclose(y.item(), expected)


def test_an_index_to_ignore_needs_indices():
    with pytest.raises(ValueError, match="ignore_index=1 is for class indices"):
        mg.cross_entropy(mg.ones(2, 3), mg.full((2, 3), 1 / 3), ignore_index=1)


def test_the_loss_of_one_sample_by_margins_has_the_shape_of_its_target():
    x = np.array([0.1, 0.7, -0.3])
    assert mg.multi_margin(x, np.array([1]), reduction="none").shape == (1,)
    assert mg.multi_margin(x, 1, reduction="none").shape == ()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_differences_weighted_by_element_are_pytorchs(reduction):
    f = functional()
    x, target, weight = (*RNG.standard_normal((2, 3, 4)), RNG.uniform(0.1, 2, (3, 4)))
    for ours, theirs, options in (
        (mg.mse, f.mse_loss, {}),
        (mg.l1, f.l1_loss, {}),
        (mg.huber, f.huber_loss, {"delta": 0.7}),
    ):
        agree(ours, theirs, x, target, reduction=reduction, weight=weight, **options)
        with pytest.raises(ValueError, match=r"weight must have x's shape \(3, 4\), got \(4,\)"):
            ours(x, target, reduction, weight=weight[0])


def test_gaussian_nll_of_float16_divides_before_it_rounds():
    x, var = mg.tensor([300.0], dtype="float16"), mg.tensor([9000.0], dtype="float16")
    loss = mg.nn.functional.gaussian_nll_loss(x, x * 0, var)
    assert loss.dtype == np.float16
    assert loss.item() == pytest.approx(0.5 * (np.log(9000) + 10), rel=1e-3)
