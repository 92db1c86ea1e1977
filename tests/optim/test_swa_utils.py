"""Averaged models under PyTorch's names, beside PyTorch's."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.optim import swa_utils


def model(seed=0):
    mg.manual_seed(seed)
    return layers(nn).double()


def layers(of):
    return of.Sequential(of.Linear(3, 4), of.BatchNorm1d(4), of.ReLU(), of.Linear(4, 1))


def rows(seed=0, n=8):
    return np.random.default_rng(seed).standard_normal((n, 3))


def theirs(like):
    """PyTorch, its swa_utils, and the same model there."""
    torch = pytest.importorskip("torch")
    from torch.optim import swa_utils as peer

    net = layers(torch.nn).double()
    net.load_state_dict({k: torch.tensor(v.numpy()) for k, v in like.state_dict().items()})
    return torch, peer, net


def train(lib, net, averaged, steps=5):
    """Steps of SGD, an update of the averages after each."""
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for i in range(steps):
        optimizer.zero_grad()
        (net(lib.tensor(rows(i))) ** 2).mean().backward()
        optimizer.step()
        averaged.update_parameters(net)


def assert_same_states(ours, others):
    """Within float32's precision, in which PyTorch has 1/(n + 1) of an integer tensor n."""
    mine, peers = ours.state_dict(), others.state_dict()
    assert set(mine) == set(peers)
    for name, value in mine.items():
        np.testing.assert_allclose(
            value.numpy(), peers[name].numpy(), rtol=1e-7, atol=1e-8, err_msg=name
        )


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize(
    "average",
    [
        lambda of: {},
        lambda of: {"avg_fn": of.get_ema_avg_fn(0.7)},
        lambda of: {"avg_fn": of.get_swa_avg_fn()},
        lambda of: {"multi_avg_fn": of.get_ema_multi_avg_fn(0.7)},
        lambda of: {"multi_avg_fn": of.get_swa_multi_avg_fn()},
        lambda of: {"avg_fn": lambda a, x, n: 0.5 * a + 0.5 * x + n * 0.01},
    ],
    ids=["default", "ema", "swa", "ema of all", "swa of all", "own"],
)
def test_averages_equal_pytorchs(average, use_buffers):
    net = model()
    torch, peer, other = theirs(net)
    if use_buffers and average(peer).get("multi_avg_fn") is not None:
        use_buffers = "ema" in average(peer)["multi_avg_fn"].__name__  # its swa refuses integers
    averaged = swa_utils.AveragedModel(net, **average(swa_utils), use_buffers=use_buffers)
    expected = peer.AveragedModel(other, **average(peer), use_buffers=use_buffers)
    train(mg, net, averaged)
    train(torch, other, expected)
    assert_same_states(averaged, expected)


def test_statistics_of_the_averaged_weights_equal_pytorchs():
    net = model()
    torch, peer, other = theirs(net)
    averaged, expected = swa_utils.AveragedModel(net), peer.AveragedModel(other)
    train(mg, net, averaged)
    train(torch, other, expected)
    averaged.eval()
    swa_utils.update_bn([(mg.tensor(rows(i)), 1) for i in range(3)], averaged)
    peer.update_bn([(torch.tensor(rows(i)), 1) for i in range(3)], expected)
    assert_same_states(averaged, expected)
    layer = averaged.module[1]
    assert not layer.training and layer.momentum == 0.1


def test_statistics_are_restored_to_how_they_move_after_an_error():
    net = model().eval()
    with pytest.raises(ValueError):
        swa_utils.update_bn([mg.tensor(rows())[0]], net)
    assert not net.training and net[1].momentum == 0.1


def test_a_saved_average_goes_on():
    net = model()
    averaged, other = swa_utils.AveragedModel(net), swa_utils.AveragedModel(model(1))
    train(mg, net, averaged, 3)
    other.load_state_dict(averaged.state_dict())
    for each in (averaged, other):
        each.update_parameters(model(2))
    assert int(other.n_averaged) == 4
    assert np.array_equal(other.module[0].weight, averaged.module[0].weight)


def test_averages_stay_parameters_that_a_backward_reaches():
    averaged = swa_utils.AveragedModel(model())
    averaged.update_parameters(model(1))
    averaged(mg.tensor(rows())).sum().backward()
    assert all(p.grad is not None for p in averaged.parameters())


def test_what_does_not_fit_is_refused():
    net = model()
    with pytest.raises(ValueError, match="give avg_fn or multi_avg_fn, not both"):
        swa_utils.AveragedModel(net, avg_fn=max, multi_avg_fn=max)
    with pytest.raises(
        ValueError, match="the Linear has other parameters or buffers than the Sequential"
    ):
        swa_utils.AveragedModel(net).update_parameters(nn.Linear(3, 4))
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\], got 2"):
        swa_utils.get_ema_multi_avg_fn(2)


def test_the_schedule_is_here_too():
    assert optim.swa_utils.SWALR is optim.lr_scheduler.SWALR
