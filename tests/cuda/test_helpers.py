"""Optimizers, and what mg.nn has besides layers, on a device as on the host.

Each runs on the stand-in of CuPy, which refuses NumPy's arrays, and where there is a GPU on that.
"""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

both = pytest.mark.parametrize("where", ["fake", "gpu"])


def small_model(device):
    mg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2))
    return model.to(device=device)


def loss_of(model):
    x = mg.linspace(-1, 1, 15, device=model[0].weight.device).reshape(5, 3)
    return mg.sum(model(x) ** 2)


def on_host(values):
    return [mg.as_tensor(x).to("cpu").numpy() for x in values]


def same(found, expected, rtol=1e-4, atol=1e-5):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol, atol)


OPTIMIZERS = {name: getattr(optim, name) for name in dir(optim) if name[0].isupper()}
OPTIMIZERS = {
    name: made
    for name, made in OPTIMIZERS.items()
    if inspect.isclass(made) and issubclass(made, optim.Optimizer) and made is not optim.Optimizer
}


def trained(name, device):
    """The parameters after some steps, of which the last ones go on from a saved state."""
    model = small_model(device)

    def optimizer():
        matrices = [p for p in model.parameters() if name != "Muon" or p.ndim == 2]
        return OPTIMIZERS[name](matrices, lr=0.05)

    first, second = optimizer(), optimizer()
    for step, used in enumerate([first, first, second, second]):
        if step == 2:
            second.load_state_dict(first.state_dict())

        def closure(used=used):
            used.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        used.step(closure)
    return on_host(model.parameters())


@both
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_steps_on_a_device_as_on_the_host(name, where, request):
    expected = trained(name, "cpu")
    request.getfixturevalue(where)
    same(trained(name, "cuda"), expected, 1e-3, 1e-4)


def clipped_by_norm(model):
    loss_of(model).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return [norm, *[p.grad for p in model.parameters()]]


def clipped_by_value(model):
    loss_of(model).backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    return [p.grad for p in model.parameters()]


def as_a_vector(model):
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector * 2, model.parameters())
    return [vector, *model.parameters()]


def averaged(model):
    average = optim.EMA(model.parameters(), decay=0.5)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loss_of(model).backward()
    optimizer.step()
    average.update()
    with average.applied():
        return [p.detach().copy() for p in model.parameters()]


def with_weight_norm(model):
    nn.utils.parametrizations.weight_norm(model[0])
    loss_of(model).backward()
    return [model[0].weight, *[p.grad for p in model.parameters()]]


def with_spectral_norm(model):
    model[3] = nn.utils.parametrizations.spectral_norm(model[3]).eval()
    loss_of(model).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def pruned(model):
    nn.utils.prune.l1_unstructured(model[0], "weight", amount=0.5)
    loss_of(model).backward()
    return [model[0].weight, *[p.grad for p in model.parameters()]]


def fused(model):
    loss_of(model).backward()
    both = nn.Sequential(model[0], nn.BatchNorm1d(4).to(device=model[0].weight.device)).eval()
    one = nn.utils.fuse_linear_bn_eval(both[0], both[1])
    return [one.weight, one.bias]


def scaled(model):
    scaler, optimizer = mg.amp.GradScaler(), optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)
    scaler.update()
    return [*model.parameters()]


def per_example(model):
    model.eval()
    values = {name: p.detach() for name, p in model.named_parameters()}
    x = mg.linspace(-1, 1, 15, device=model[0].weight.device).reshape(5, 3)

    def loss(values, row):
        return mg.sum(mg.func.functional_call(model, values, row.reshape(1, 3)) ** 2)

    return [*mg.func.vmap(mg.func.grad(loss), in_dims=(None, 0))(values, x).values()]


def packed(model):
    rnn = nn.utils.rnn
    device = model[0].weight.device
    parts = [mg.linspace(0, 1, 3 * n, device=device).reshape(n, 3) for n in (4, 2, 1)]
    layer = nn.GRU(3, 4).to(device=device)
    y, h = layer(rnn.pack_sequence(parts))
    padded, lengths = rnn.pad_packed_sequence(y)
    (padded.sum() + (h * h).sum()).backward()
    return [padded, lengths, h, *[p.grad for p in layer.parameters()]]


HELPERS = [
    clipped_by_norm, clipped_by_value, as_a_vector, averaged, with_weight_norm, with_spectral_norm,
    pruned, fused, scaled, per_example, packed,
]  # fmt: skip


@both
@pytest.mark.parametrize("helper", HELPERS)
def test_a_helper_does_on_a_device_what_it_does_on_the_host(helper, where, request):
    expected = on_host(helper(small_model("cpu")))
    request.getfixturevalue(where)
    same(on_host(helper(small_model("cuda"))), expected)


@both
@pytest.mark.parametrize("name", [n for n in dir(nn.init) if n.endswith("_") and n[0] != "_"])
def test_an_initialiser_fills_a_tensor_where_it_lies(name, where, request):
    request.getfixturevalue(where)
    x = (
        mg.full((4, 3, 2), 7.0, device="cuda")
        if name == "dirac_"
        else mg.full((4, 3), 7.0, device="cuda")
    )
    more = {"constant_": (2.0,), "sparse_": (0.5,)}.get(name, ())
    assert getattr(nn.init, name)(x, *more) is x
    assert x.device == "cuda:0"
    assert not (x == 7).any().item()
