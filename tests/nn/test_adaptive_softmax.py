"""AdaptiveLogSoftmaxWithLoss computes as PyTorch's on its weights, and its p adds up to 1."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.testing import gradcheck

rng = np.random.default_rng(0)
X = rng.standard_normal((7, 16))
TARGET = np.array([0, 4, 5, 19, 11, 3, 12])


def made(**options):
    mg.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 11], div_value=2.0, **options)


@pytest.fixture(params=[False, True], ids=["no bias", "bias"])
def both(request):
    """The layer in float64, and PyTorch's with its weights."""
    torch = pytest.importorskip("torch")
    ours = made(head_bias=request.param, dtype=np.float64)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(
        16, 20, [4, 11], div_value=2.0, head_bias=request.param, dtype=torch.float64
    )
    state = {name: torch.tensor(value.numpy()) for name, value in ours.state_dict().items()}
    theirs.load_state_dict(state)
    return ours, theirs, torch.tensor(X), torch.tensor(TARGET)


def test_value_loss_and_gradients_are_pytorchs(both):
    ours, theirs, x, target = both
    found, expected = ours(mg.tensor(X), TARGET), theirs(x, target)
    np.testing.assert_allclose(found.output.numpy(), expected.output.detach(), rtol=1e-12)
    np.testing.assert_allclose(found.loss.item(), expected.loss.item(), rtol=1e-12)
    found.loss.backward()
    expected.loss.backward()
    others = dict(theirs.named_parameters())
    for name, p in ours.named_parameters():
        np.testing.assert_allclose(p.grad.numpy(), others[name].grad, rtol=1e-10, atol=1e-14)


def test_log_prob_and_predict_are_pytorchs(both):
    ours, theirs, x, _ = both
    np.testing.assert_allclose(ours.log_prob(mg.tensor(X)).numpy(), theirs.log_prob(x).detach())
    np.testing.assert_array_equal(ours.predict(mg.tensor(X)).numpy(), theirs.predict(x))


def test_the_probabilities_add_up_to_one_and_forward_picks_the_targets():
    layer, x = made(dtype=np.float64), mg.tensor(X)
    p = layer.log_prob(x)
    np.testing.assert_allclose(np.exp(p.numpy()).sum(axis=1), np.ones(7))
    picked = p.numpy()[np.arange(7), TARGET]
    np.testing.assert_allclose(layer(x, TARGET).output.numpy(), picked, rtol=1e-12)


def test_one_example_needs_no_batch_axis():
    layer = made()
    x = X[0].astype("f")
    output, loss = layer(mg.tensor(x), 12)
    assert output.shape == loss.shape == () and loss == -output
    assert layer.log_prob(mg.tensor(x)).shape == (20,)
    np.testing.assert_allclose(output.item(), layer.log_prob(mg.tensor(x))[12].item(), rtol=1e-5)


def test_the_gradient_by_x_is_right_also_without_rare_targets():
    layer = made(dtype=np.float64)
    assert gradcheck(lambda x: layer(x, TARGET).loss, X)
    assert gradcheck(lambda x: layer(x, TARGET % 4).loss, X)


@pytest.mark.parametrize("cutoffs", [[], [4, 4], [11, 4], [4, 20], [0, 4]])
def test_cutoffs_must_rise_inside_the_classes(cutoffs):
    with pytest.raises(ValueError, match="cutoffs must be increasing integers"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs)


def test_features_must_be_left_for_each_cluster():
    with pytest.raises(ValueError, match="choose a smaller div_value"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 11, 15], div_value=4.0)


@pytest.mark.parametrize(
    ("x", "target", "message"),
    [
        (X, TARGET + 2, "class indices from 0 to 19"),
        (X, TARGET - 1, "class indices from 0 to 19"),
        (X, TARGET * 1.0, "class indices"),
        (X, TARGET[:3], "does not fit x"),
        (X[:, :3], TARGET, r"x must be \(n, 16\)"),
    ],
)
def test_what_does_not_fit_is_refused(x, target, message):
    with pytest.raises(ValueError, match=message):
        made()(mg.tensor(x), target)
