"""Loss modules: PyTorch's values and gradients in every reduction."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

pytestmark = pytest.mark.promise(
    "layers, losses, optimizers and schedules compute as PyTorch's on its weights"
)

rng = np.random.default_rng(0)
X, T, P = rng.standard_normal((4, 5)), rng.standard_normal((4, 5)), rng.random((4, 5))
CLASSES, SIGNS = np.array([0, 4, 2, 2]), np.array([1, -1, 1, -1])
NO_SIGNS = np.resize([0, 1, 2, -1, -2, 0.5, 1], (4, 5))  # labels that say neither near nor far
WEIGHTS = rng.random(5)
LABELS = np.array([[1, 3, -1, 0, 0], [4, -1, -1, -1, -1], [0, 1, 2, 3, 4], [-1, 2, 2, 2, 2]])
LOG_P = np.log(P / P.sum(1, keepdims=True))
CASES = [
    ("MSELoss", {}, [X], T),
    ("L1Loss", {}, [X], T),
    ("HuberLoss", {"delta": 0.5}, [X], T),
    ("SmoothL1Loss", {"beta": 0.5}, [X], T),
    ("SmoothL1Loss", {"beta": 0.0}, [X], T),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "ignore_index": 4}, [X], CLASSES),
    ("CrossEntropyLoss", {"weight": WEIGHTS}, [X], CLASSES),
    ("NLLLoss", {"weight": WEIGHTS, "ignore_index": 0}, [LOG_P], CLASSES),
    ("BCELoss", {"weight": WEIGHTS}, [P], (T > 0) * 1.0),
    ("BCEWithLogitsLoss", {"pos_weight": WEIGHTS}, [X], P),
    ("KLDivLoss", {}, [LOG_P], P),
    ("KLDivLoss", {"log_target": True}, [LOG_P], LOG_P[::-1].copy()),
    ("HingeEmbeddingLoss", {"margin": 0.5}, [X[:, 0]], SIGNS),
    ("HingeEmbeddingLoss", {}, [X], NO_SIGNS),
    ("CosineEmbeddingLoss", {"margin": 0.1}, [X, T], SIGNS),
    ("CosineEmbeddingLoss", {"margin": -1.0}, [X, T], NO_SIGNS[:, 0]),
    ("TripletMarginLoss", {"margin": 2.0, "p": 3.0}, [X, T], P),
    ("TripletMarginLoss", {"margin": 2.0, "swap": True}, [X, T], P),
    ("TripletMarginWithDistanceLoss", {"margin": 2.0, "swap": True}, [X, T], P),
    ("MarginRankingLoss", {"margin": 0.3}, [X, T], np.sign(P - 0.5)),
    ("SoftMarginLoss", {}, [X], np.sign(T)),
    ("MultiMarginLoss", {"p": 2, "margin": 1.5}, [X], CLASSES),
    ("MultiMarginLoss", {"weight": WEIGHTS}, [X], CLASSES),
    ("MultiMarginLoss", {"weight": WEIGHTS, "p": 2}, [X[0]], np.array(3)),
    ("MultiLabelMarginLoss", {}, [X], LABELS),
    ("MultiLabelMarginLoss", {}, [X[0]], LABELS[0]),
    ("MultiLabelSoftMarginLoss", {"weight": WEIGHTS}, [X], (T > 0) * 1.0),
    ("GaussianNLLLoss", {"full": True}, [X, T], P),
    ("GaussianNLLLoss", {"eps": 0.5}, [X, T], P[:, 0]),
    ("PoissonNLLLoss", {"full": True}, [X], np.floor(5 * P)),
    ("PoissonNLLLoss", {"log_input": False}, [P], np.floor(5 * P)),
]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("name", "options", "inputs", "target"), CASES)
def test_values_and_gradients_equal_pytorchs(name, options, inputs, target, reduction):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensors = {k: mg.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    peers = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    a = [mg.tensor(x, requires_grad=True) for x in inputs]
    b = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = getattr(nn, name)(**tensors, reduction=reduction)(*a, mg.tensor(target))
    z = getattr(torch.nn, name)(**peers, reduction=reduction)(*b, torch.tensor(target))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-9, atol=1e-12)
    y.sum().backward(), z.sum().backward()
    for p, q in zip(a, b, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_alignments_equal_pytorchs(reduction):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    logits = rng.standard_normal((6, 2, 4))
    labels = [np.array([[1, 2, 2], [3, 1, 0]]), np.array([6, 5]), np.array([3, 2])]
    a, b = mg.tensor(logits, requires_grad=True), torch.tensor(logits, requires_grad=True)
    y = nn.CTCLoss(reduction=reduction)(nn.LogSoftmax()(a), *map(mg.tensor, labels))
    z = torch.nn.CTCLoss(reduction=reduction)(b.log_softmax(-1), *map(torch.tensor, labels))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-9)
    y.sum().backward(), z.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-7, atol=1e-10)


def test_the_divergence_may_be_averaged_over_the_batch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    y = nn.KLDivLoss("batchmean")(mg.tensor(LOG_P), mg.tensor(P))
    z = torch.nn.KLDivLoss(reduction="batchmean")(torch.tensor(LOG_P), torch.tensor(P))
    assert np.isclose(y.item(), z.item())


def test_weights_are_buffers_that_are_saved():
    loss = nn.CrossEntropyLoss(mg.tensor(WEIGHTS))
    assert list(loss.state_dict()) == ["weight"] and not list(loss.parameters())


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match="'mean', 'sum' or 'none', got 'max'"):
        nn.MSELoss("max")


@pytest.mark.parametrize("x", [[0.5, 1.5], [-0.1, 0.5]])
def test_bce_refuses_what_is_no_probability(x):
    with pytest.raises(ValueError, match="probabilities, from 0 to 1; got .*bce_with_logits"):
        nn.BCELoss()(mg.tensor(x), mg.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.TripletMarginLoss(margin=-1),
        lambda: nn.TripletMarginWithDistanceLoss(margin=-1),
        lambda: mg.triplet(*[mg.ones(1, 2)] * 3, margin=-1),
    ],
)
def test_a_triplets_margin_is_not_negative(call):
    with pytest.raises(ValueError, match="margin must be 0 or more, got -1"):
        call()


@pytest.mark.parametrize("dtype", [mg.float32, mg.bfloat16])
def test_flags_that_are_whole_numbers_do_not_promote_scores(dtype):
    x = mg.tensor([[0.5, -1.0, 2.0]], dtype=dtype, requires_grad=True)
    loss = nn.MultiLabelSoftMarginLoss()
    y = loss(x, mg.tensor([[1, 0, 1]]))
    assert y.dtype == dtype and y.item() == loss(x, mg.tensor([[1, 0, 1]], dtype=dtype)).item()


def test_the_targets_of_a_hinge_may_be_a_list():
    x, target = mg.tensor([0.5, 3.0]), [1, -1]
    loss = nn.HingeEmbeddingLoss(reduction="none")
    assert loss(x, target).tolist() == loss(x, np.array(target)).tolist() == [0.5, 0]


def test_a_wrong_reduction_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match="MSELoss: reduction must be 'mean', 'sum' or 'none', got"):
        nn.MSELoss("batchmean")
    with pytest.raises(
        ValueError, match="KLDivLoss: reduction must be .*'none' or 'batchmean', got"
    ):
        nn.KLDivLoss("total")


def test_a_beta_below_zero_is_named_by_its_own_loss():
    with pytest.raises(ValueError, match="SmoothL1Loss: beta must be 0 or more, got -1"):
        nn.SmoothL1Loss(beta=-1.0)


@pytest.mark.parametrize("beta", [1e-3, 1e-6, 1e-8])
def test_a_beta_that_16_bits_do_not_hold_leaves_the_smooth_loss_its_digits(beta):
    x = mg.tensor([1.0, 1.5, 1.5], dtype=np.float16, requires_grad=True)
    y = nn.SmoothL1Loss("none", beta)(x, mg.tensor([1.5, 1.5, 1.25], dtype=np.float16))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.detach().numpy(), [0.5, 0, 0.25], rtol=3e-3)
    np.testing.assert_array_equal(mg.grad(y.sum(), x).numpy(), [-1, 0, 1])


@pytest.mark.parametrize("out_features", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_linear_cross_entropy_computes_as_pytorchs_on_its_weights(out_features, bias):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    options = {"out_features": out_features, "bias": bias, "label_smoothing": 0.1}
    theirs = torch.nn.LinearCrossEntropyLoss(
        5, 4, weight=torch.tensor(WEIGHTS[:4]), dtype=torch.float64, **options
    )
    ours = nn.LinearCrossEntropyLoss(5, 4, weight=mg.tensor(WEIGHTS[:4]), dtype=float, **options)
    ours.load_state_dict({name: a.numpy() for name, a in theirs.state_dict().items()})
    target = rng.integers(0, 4, (4, *out_features))
    x, z = mg.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    y, expected = ours(x, target), theirs(z, torch.tensor(target))
    np.testing.assert_allclose(y.item(), expected.item(), rtol=1e-12)
    y.backward()
    expected.backward()
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), atol=1e-12)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-12)


def test_linear_cross_entropy_refuses_weights_of_other_classes():
    with pytest.raises(ValueError, match=r"LinearCrossEntropyLoss: weight must have shape \(4,\)"):
        nn.LinearCrossEntropyLoss(5, 4, weight=mg.ones(5))
