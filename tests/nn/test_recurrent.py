"""Recurrent layers beside PyTorch on the same weights; lengths; second derivatives."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

rng = np.random.default_rng(0)
KINDS = ["RNN", "LSTM", "GRU"]
FORMS = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"batch_first": True, "bias": False},
    {"num_layers": 3, "batch_first": True, "bidirectional": True},
]


def pair(name, *args, **options):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = getattr(torch.nn, name)(*args, **options, dtype=torch.float64)
    ours = getattr(nn, name)(*args, **options, dtype=np.float64)
    ours.load_state_dict({path: p.numpy() for path, p in theirs.state_dict().items()})
    return ours, theirs, torch


def flat(result):
    if isinstance(result, tuple):
        return [x for part in result for x in flat(part)]
    return [result]


def compare(ours, theirs, torch, inputs, rtol=1e-9):
    mine = [mg.tensor(x, requires_grad=True) for x in inputs]
    peer = [torch.tensor(x, requires_grad=True) for x in inputs]
    packed = len(inputs) > 2
    ys = flat(ours(mine[0], tuple(mine[1:]) if packed else mine[1]) if mine[1:] else ours(mine[0]))
    zs = flat(
        theirs(peer[0], tuple(peer[1:]) if packed else peer[1]) if peer[1:] else theirs(peer[0])
    )
    mine_loss, peer_loss = 0, 0
    for y, z in zip(ys, zs, strict=True):
        np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol, 1e-12)
        g = rng.standard_normal(y.shape)
        mine_loss, peer_loss = (y * g).sum() + mine_loss, (z * torch.tensor(g)).sum() + peer_loss
    mine_loss.backward()
    peer_loss.backward()
    pairs = zip([*mine, *ours.parameters()], [*peer, *theirs.parameters()], strict=True)
    for p, q in pairs:
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol, 1e-11)


@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize("name", KINDS)
def test_outputs_states_and_gradients_equal_pytorchs(name, options):
    ours, theirs, torch = pair(name, 3, 4, **options)
    compare(ours, theirs, torch, [rng.standard_normal((2, 5, 3))])


@pytest.mark.parametrize("name", KINDS)
def test_a_given_state_and_a_single_sequence_equal_pytorchs(name):
    ours, theirs, torch = pair(name, 3, 4, num_layers=2)
    states = [rng.standard_normal((2, 4)) for _ in range(2 if name == "LSTM" else 1)]
    compare(ours, theirs, torch, [rng.standard_normal((5, 3)), *states])


@pytest.mark.parametrize("options", FORMS)
def test_an_lstm_with_projected_outputs_equals_pytorchs(options):
    ours, theirs, torch = pair("LSTM", 3, 4, proj_size=2, **options)
    layers = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    n = 2 if options.get("batch_first") else 5
    states = [rng.standard_normal((layers, n, width)) for width in (2, 4)]
    x = rng.standard_normal((2, 5, 3))
    compare(ours, theirs, torch, [x])
    ours.zero_grad(), theirs.zero_grad()
    compare(ours, theirs, torch, [x, *states])


def test_the_relu_form_equals_pytorchs():
    ours, theirs, torch = pair("RNN", 3, 4, nonlinearity="relu")
    compare(ours, theirs, torch, [rng.standard_normal((5, 2, 3))])


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("state", [False, True])
def test_cells_equal_pytorchs(name, state):
    ours, theirs, torch = pair(name, 3, 4)
    count = (2 if name == "LSTMCell" else 1) * state
    states = [rng.standard_normal((2, 4)) for _ in range(count)]
    compare(ours, theirs, torch, [rng.standard_normal((2, 3)), *states])


@pytest.mark.parametrize("name", KINDS)
def test_sequences_of_other_lengths_equal_pytorchs_packed_ones(name):
    ours, theirs, torch = pair(name, 3, 4, num_layers=2, bidirectional=True)
    x, lengths = rng.standard_normal((6, 3, 3)), [2, 6, 4]
    packing = torch.nn.utils.rnn
    packed = packing.pack_padded_sequence(torch.tensor(x), lengths, enforce_sorted=False)
    z, last = theirs(packed)
    z, _ = packing.pad_packed_sequence(z)
    y, mine = ours(mg.tensor(x), lengths=lengths)
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), 1e-10, 1e-12)
    for a, b in zip(flat(mine), flat(last), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-12)


def test_dropout_is_between_layers_and_in_training_only():
    mg.manual_seed(0)
    layer, x = nn.LSTM(3, 4, num_layers=2, dropout=0.5), mg.tensor(rng.random((5, 2, 3), "f4"))
    assert not np.array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    layer.eval()
    assert np.array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())


def test_second_derivatives_and_forward_mode_agree_with_differences():
    layer = nn.GRU(2, 3, dtype=np.float64)
    x, v = rng.standard_normal((3, 1, 2)), rng.standard_normal((3, 1, 2))

    def loss(x):
        return (layer(x)[0] ** 2).sum()

    _, t = mg.func.jvp(loss, (mg.tensor(x),), (mg.tensor(v),))
    h = 1e-6
    difference = (loss(mg.tensor(x + h * v)) - loss(mg.tensor(x - h * v))).item() / (2 * h)
    assert abs(t.item() - difference) < 1e-7
    gradient = mg.func.grad(loss)
    second = mg.func.grad(lambda x: (gradient(x) * v).sum())(mg.tensor(x))
    difference = (gradient(mg.tensor(x + h * v)) - gradient(mg.tensor(x - h * v))).numpy() / (2 * h)
    np.testing.assert_allclose(second.numpy(), difference, atol=1e-7)


@pytest.mark.parametrize("name", KINDS)
def test_a_longer_sequence_is_no_more_ops(name):
    layer, counts = getattr(nn, name)(3, 4, num_layers=2, bidirectional=True), []
    for length in (2, 9):
        with mg.Tape() as tape:
            layer(mg.ones(length, 2, 3), lengths=[length, 1])
        counts.append(len(tape))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_packed_sequences_equal_pytorchs(name):
    ours, theirs, torch = pair(name, 3, 4, num_layers=2, bidirectional=True)
    x, lengths = rng.standard_normal((6, 3, 3)), [2, 6, 4]
    packing = torch.nn.utils.rnn
    peer, mine = torch.tensor(x, requires_grad=True), mg.tensor(x, requires_grad=True)
    z, last = theirs(packing.pack_padded_sequence(peer, lengths, enforce_sorted=False))
    y, state = ours(mine, lengths=lengths)
    z, _ = packing.pad_packed_sequence(z)
    (sum((s**2).sum() for s in flat(last)) + (z**3).sum()).backward()
    (sum((s**2).sum() for s in flat(state)) + (y**3).sum()).backward()
    for p, q in zip([mine, *ours.parameters()], [peer, *theirs.parameters()], strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-9, 1e-11)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("options", [{}, {"bias": False, "batch_first": True}])
def test_second_derivatives_equal_pytorchs(name, options):
    ours, theirs, torch = pair(name, 3, 4, **options)
    x, v = rng.standard_normal((2, 4, 2, 3))
    peer, mine = torch.tensor(x, requires_grad=True), mg.tensor(x, requires_grad=True)
    (first,) = torch.autograd.grad((theirs(peer)[0] ** 2).sum(), peer, create_graph=True)
    (first * torch.tensor(v)).sum().backward()
    (gradient,) = mg.grad((ours(mine)[0] ** 2).sum(), [mine], create_graph=True)
    (gradient * v).sum().backward()
    for p, q in zip([mine, *ours.parameters()], [peer, *theirs.parameters()], strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-8, 1e-11)


@pytest.mark.parametrize("name", KINDS)
def test_models_of_several_weights_run_at_once_under_vmap(name):
    layers = [getattr(nn, name)(3, 4) for _ in range(3)]
    paths = [path for path, _ in layers[0].named_parameters()]
    stacked = {
        path: mg.stack([dict(layer.named_parameters())[path] for layer in layers]).detach()
        for path in paths
    }
    x = mg.tensor(rng.standard_normal((5, 2, 3)).astype("f4"))

    def outputs(parameters):
        return mg.func.functional_call(layers[0], parameters, (x,))[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error", mg.func.VmapWarning)
        together = mg.func.vmap(outputs)(stacked)
    for y, layer in zip(together, layers, strict=True):
        np.testing.assert_allclose(y.numpy(), layer(x)[0].detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.GRU(3, 4)(mg.ones(2, 5)), r"input_size=3; got float64 \(2, 5\)"),
        (
            lambda: nn.GRU(3, 4)(mg.ones(2, 1, 3), mg.ones(1, 1, 5)),
            r"a tensor of shape \(1, 1, 4\)",
        ),
        (lambda: nn.GRU(3, 4)(mg.ones(2, 1, 3), lengths=[3]), "1 integers from 1 to 2"),
        (lambda: nn.RNN(3, 4, nonlinearity="sin"), "'tanh' or 'relu', got 'sin'"),
        (lambda: nn.GRU(3, 4, proj_size=2), "GRU: proj_size is for LSTM"),
        (lambda: nn.LSTM(3, 4, proj_size=4), "smaller than hidden_size=4; got 4"),
    ],
)
def test_wrong_calls_say_what_is_needed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_vmap_runs_all_examples_at_once(kind):
    layer = kind(3, 4, bidirectional=True)
    x = mg.tensor(np.random.default_rng(0).standard_normal((5, 6, 2, 3)).astype("f4"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", mg.func.VmapWarning)
        mapped = mg.func.vmap(lambda x: layer(x)[0])(x)
        slopes = mg.func.vmap(mg.func.grad(lambda x: layer(x)[0].sum()))(x)
    for i, example in enumerate(x):
        example = example.copy().requires_grad_()
        y = layer(example)[0]
        y.sum().backward()
        np.testing.assert_allclose(mapped[i].detach().numpy(), y.detach().numpy(), atol=1e-6)
        np.testing.assert_allclose(slopes[i].detach(), example.grad, atol=1e-5)


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
@pytest.mark.parametrize("shape", [(1, 5), (3, 1, 3, 5), (2, 5), (3, 4)])
def test_a_cells_state_has_the_shape_of_its_result(name, shape):
    h = mg.ones(*shape, dtype="float32")
    state = (h, h) if name == "LSTMCell" else h
    with pytest.raises(ValueError, match=rf"{name}: the state of x float32 \(3, 4\) must be"):
        getattr(nn, name)(4, 5)(mg.ones(3, 4, dtype="float32"), state)


def test_a_text_for_batch_first_is_refused():
    with pytest.raises(TypeError, match="LSTM: batch_first must be True or False, got 'False'"):
        nn.LSTM(2, 3, batch_first="False")


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("kind", [nn.RNN, nn.RNNCell])
def test_an_argument_that_is_not_there_is_answered_with_those_that_are(kind):
    with pytest.raises(TypeError, match=f"{kind.__name__}: got an unexpected .*nonlinearity, "):
        kind(3, 4, layers=2)


def test_a_state_of_two_for_a_layer_of_one_is_answered_with_the_shape():
    with pytest.raises(ValueError, match=r"RNN: the state must be a tensor of shape \(1, 2, 4\)"):
        nn.RNN(3, 4)(mg.ones(5, 2, 3), (mg.ones(1, 2, 4), mg.ones(1, 2, 4)))
    with pytest.raises(ValueError, match=r"LSTM: the state must be tensors \(h, c\) of shape"):
        nn.LSTM(3, 4)(mg.ones(5, 2, 3), mg.ones(1, 2, 4))
