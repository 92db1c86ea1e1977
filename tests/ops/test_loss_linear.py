"""Cross entropy of a linear map's results: PyTorch's numbers in any blocks, in little memory."""

import importlib
import itertools

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "linear_cross_entropy is PyTorch's in blocks of any size, to second order, and holds no "
    "whole logits"
)

rng = np.random.default_rng(0)
N, FEATURES, CLASSES = 7, 3, 5
X, W, B = (rng.standard_normal(s) for s in ((N, FEATURES), (CLASSES, FEATURES), (CLASSES,)))
TARGET = np.array([0, 4, 2, -100, 1, 2, 4])
WEIGHT = rng.uniform(0.5, 1.5, CLASSES)
OPTIONS = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"weight": WEIGHT},
    {"label_smoothing": 0.1},
    {"label_smoothing": 0.2, "weight": WEIGHT, "reduction": "none"},
]


@pytest.fixture(params=["one block", pytest.param("many", marks=pytest.mark.layer("fast"))])
def blocks(request, monkeypatch):
    if request.param == "many":  # of 3 samples and 2 classes
        linear_classes = importlib.import_module("minigrad.fast.loss.linear_classes")
        monkeypatch.setattr(linear_classes, "BLOCK", 6)
        monkeypatch.setattr(linear_classes, "ROWS", 3)


def composed(x, w, b, target, **options):
    return mg.cross_entropy(mg.linear(x, w, b), target, **options)


def fused(x, w, b, target, **options):
    return mg.linear_cross_entropy(x, w, target, linear_bias=b, **options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_value_and_derivatives_of_two_orders_are_pytorchs(options, blocks):
    torch = pytest.importorskip("torch")
    ours = [mg.tensor(a, requires_grad=True) for a in (X, W, B)]
    theirs = [torch.tensor(a, requires_grad=True) for a in (X, W, B)]
    peers = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    y = fused(*ours, TARGET, **options)
    z = torch.nn.functional.linear_cross_entropy(
        *theirs[:2], torch.tensor(TARGET), linear_bias=theirs[2], **peers
    )
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-12)
    g = rng.standard_normal(y.shape)
    first = mg.grad((y * g).sum(), ours, create_graph=True)
    expected = torch.autograd.grad((z * torch.tensor(g)).sum(), theirs, create_graph=True)
    for a, b in zip(first, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)
    second = mg.grad(sum((a**3).sum() for a in first), ours)
    expected = torch.autograd.grad(sum((a**3).sum() for a in expected), theirs)
    for a, b in zip(second, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("only", [0, 1, 2])
def test_one_gradient_alone_is_that_beside_the_others(only, blocks):
    xs = [mg.tensor(a, requires_grad=True) for a in (X, W, B)]
    together = mg.grad(fused(*xs, TARGET), xs)[only]
    xs = [mg.tensor(a, requires_grad=i == only) for i, a in enumerate((X, W, B))]
    alone = mg.grad(fused(*xs, TARGET), xs[only])
    np.testing.assert_array_equal(alone.numpy(), together.numpy())


@pytest.mark.parametrize("in_dims", [d for d in itertools.product([None, 0], repeat=3) if any(
    x is not None for x in d)], ids=str)  # fmt: skip
def test_vmap_takes_samples_and_maps_of_examples_own(in_dims, blocks):
    xs = [
        mg.tensor(a if d is None else np.stack([a, 2 * a, -a]))
        for a, d in zip((X, W, B), in_dims, strict=True)
    ]
    for f in (lambda g: g, lambda g: mg.func.grad(g, argnums=1)):
        one, other = (
            mg.func.vmap(f(lambda x, w, b, loss=loss: loss(x, w, b, TARGET)), in_dims)(*xs)
            for loss in (fused, composed)
        )
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def test_forward_mode_and_the_hessian_are_those_of_the_composed_form(blocks):
    xs, ts = [[mg.tensor(a) for a in arrays] for arrays in ((X, W, B), (X + 1, W - 1, 2 * B))]
    forms = [lambda x, w, b, loss=loss: loss(x, w, b, TARGET) for loss in (fused, composed)]
    one, other = (mg.func.jvp(f, tuple(xs), tuple(ts))[1].numpy() for f in forms)
    np.testing.assert_allclose(one, other, rtol=1e-10)
    one, other = (mg.func.hessian(f)(*xs).numpy() for f in forms)
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_an_ignored_sample_may_hold_nan(smoothing, blocks):
    x = X.copy()
    x[3] = np.nan
    x = mg.tensor(x, requires_grad=True)
    y = fused(x, W, B, TARGET, label_smoothing=smoothing)
    y.backward()
    np.testing.assert_allclose(y.item(), composed(X, W, B, TARGET, label_smoothing=smoothing))
    np.testing.assert_array_equal(x.grad.numpy()[3], 0)


def test_probabilities_and_several_maps_are_taken_too():
    q = rng.dirichlet(np.ones(CLASSES), N)
    np.testing.assert_allclose(fused(X, W, B, q), composed(X, W, B, q))
    maps, biases = rng.standard_normal((CLASSES, 2, FEATURES)), rng.standard_normal((CLASSES, 2))
    targets = rng.integers(0, CLASSES, (N, 2))
    each = [composed(X, maps[:, i], biases[:, i], targets[:, i]) for i in range(2)]
    np.testing.assert_allclose(fused(X, maps, biases, targets), np.mean(each))
    np.testing.assert_allclose(fused(X[0], W, B, TARGET[0]), composed(X[0], W, B, TARGET[0]))


def test_a_sure_sample_has_no_loss_below_0(blocks):
    x = (rng.standard_normal((64, 8)) * 20).astype(np.float32)
    w = rng.standard_normal((9, 8)).astype(np.float32)
    target = (x @ w.T).argmax(1)
    y = mg.linear_cross_entropy(x, w, target, reduction="none")
    assert y.min() >= 0 and (y == 0).any()


@pytest.mark.parametrize("dtype", [np.float16, mg.bfloat16], ids=str)
def test_16_bit_floats_are_computed_in_float32(dtype):
    x, w, b = (mg.tensor(a.astype(dtype), requires_grad=True) for a in (X, W, B))
    y = fused(x, w, b, TARGET)
    y.backward()
    wide = [mg.tensor(a.numpy().astype(float), requires_grad=True) for a in (x, w, b)]
    exact = composed(*wide, TARGET)
    exact.backward()
    assert y.dtype == dtype and y.numpy() == exact.numpy().astype(dtype)
    for a, e in zip((x, w, b), wide, strict=True):
        step = 2.0**-10 if dtype == np.float16 else 2.0**-7
        np.testing.assert_allclose(a.grad.numpy().astype(float), e.grad.numpy(), step, step / 99)
