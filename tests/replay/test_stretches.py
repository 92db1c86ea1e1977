"""The calls of a library layer are taken as a whole, where they would be the same again."""

import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


def encoder(**options):
    mg.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)


def called_in(file: str, fn, *args) -> tuple:
    """(fn(*args), the names of this file's functions that it called)."""
    names = []

    def note(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.endswith(file):
            names.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return fn(*args), names
    finally:
        sys.setprofile(before)


def inputs(shape=(2, 3, 8)):
    return mg.tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def trained(layer, decorate, change=lambda call: None, calls=6, x=None):
    """The bytes of results and gradients of each call."""
    x, found = inputs() if x is None else x, []

    @decorate
    def step(x):
        for p in layer.parameters():
            p.grad = None
        y = layer(x)
        y.sum().backward()
        return y

    for i in range(calls):
        change(i)
        found.append(step(x).numpy().tobytes())
        found += [None if p.grad is None else p.grad.numpy().tobytes() for p in layer.parameters()]
    return found, step


def replays(step) -> int:
    return sum(store.replays for store in step.stores.values())


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_python_of_a_library_layer_does_not_run_in_a_replay(norm_first):
    layer, x = encoder(norm_first=norm_first), inputs()
    compiled = mg.compile(lambda x: layer(x).sum().backward())
    for _ in range(3):
        for p in layer.parameters():
            p.grad = None
        _, names = called_in("nn/transformer.py", compiled, x)
    assert not names


def test_the_python_of_a_users_layer_runs_at_each_call():
    class Mine(nn.Module):
        def __init__(self):
            self.inner, self.calls = nn.Linear(8, 8), 0

        def forward(self, x):
            self.calls += 1
            return mg.tanh(self.inner(x))

    layer = nn.Sequential(nn.LayerNorm(8), Mine())
    trained(layer, mg.compile)
    assert layer[1].calls == 6


CHANGES = {
    "an attribute": lambda layer: setattr(layer.norm1, "eps", 0.1),
    "a mode": lambda layer: layer.eval(),
    "an activation": lambda layer: setattr(layer, "activation", mg.tanh),
    "an activation of the user's": lambda layer: setattr(layer, "activation", lambda x: x * 2),
    "a layer": lambda layer: setattr(layer, "linear1", nn.Linear(8, 16)),
    "a parameter": lambda layer: setattr(layer.linear2, "bias", nn.Parameter(mg.ones(8))),
    "no parameter": lambda layer: setattr(layer.linear2, "bias", None),
    "an array": lambda layer: setattr(layer.linear1.weight, "data", np.ones((16, 8), "f4")),
    "numbers": lambda layer: layer.linear1.weight.data.fill(0.5),
    "a gradient less": lambda layer: layer.linear1.weight.requires_grad_(False),
    "a hook": lambda layer: layer.norm2.register_forward_hook(lambda m, args, y: y + 1),
    "a hook of the whole": lambda layer: layer.register_forward_hook(lambda m, args, y: y + 1),
    "a forward": lambda layer: setattr(layer.norm1, "forward", lambda x: x * 3),
    "a dictionary": lambda layer: vars(layer.norm1).update(eps=0.1),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("at", [2, 4])
def test_a_change_of_a_layer_is_seen(name, at):
    def found(decorate):
        layer = encoder()
        mg.manual_seed(1)
        return trained(layer, decorate, lambda i: CHANGES[name](layer) if i == at else None)[0]

    assert found(mg.compile) == found(lambda fn: fn)


def test_a_mode_that_changes_at_each_call_is_seen():
    def found(decorate):
        layer = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8))
        x = inputs((5, 8))
        mg.manual_seed(1)
        got, step = trained(layer, decorate, lambda i: layer.train(i % 3 != 2), calls=12, x=x)
        return got + [b.numpy().tobytes() for b in layer.buffers()], step

    mg.manual_seed(0)
    expected, _ = found(lambda fn: fn)
    mg.manual_seed(0)
    got, step = found(mg.compile)
    assert got == expected
    assert replays(step) >= 9


def test_another_tensor_in_an_earlier_place_is_not_taken_for_the_layers_own():
    layer = nn.Sequential(nn.LayerNorm(8), nn.LayerNorm(8))
    for p in layer.parameters():
        p.requires_grad_(False)
    compiled = mg.compile(lambda scale, x: (layer(x * scale) * scale).sum())

    def plain(scale, x):
        return (layer(x * scale) * scale).sum()

    x, own = inputs((4, 8)), layer[0].weight
    other = mg.tensor(np.arange(8, dtype="f4"))
    for scale in (own, own, own, other, own, other):
        assert compiled(scale, x).item() == plain(scale, x).item()


def test_a_layer_gets_the_value_that_it_is_given():
    layer = nn.Sequential(nn.LayerNorm(8), nn.Tanh())

    def fn(x, flag):
        a, b = mg.exp(x), mg.tanh(x)
        return (layer(a if flag[0] else b) + a * b).sum().detach() * 2

    compiled, x = mg.compile(fn), inputs()
    for flag in (1, 1, 1, 0, 1, 0):
        assert compiled(x, [flag]).item() == fn(x, [flag]).item()


def test_running_statistics_in_a_new_array_are_updated():
    def found(decorate):
        mg.manual_seed(0)
        layer = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh())

        def change(call):
            if call == 3:
                layer[1].running_mean.data = np.full(8, 5, "f4")

        got, _ = trained(layer, decorate, change, x=inputs((5, 8)))
        return got + [b.numpy().tobytes() for b in layer.buffers()]

    assert found(mg.compile) == found(lambda fn: fn)


@pytest.mark.parametrize("is_one_at_first", [False, True])
@pytest.mark.parametrize("is_used_before", [False, True])
def test_arguments_that_are_one_tensor_in_some_calls_are_told_apart(
    is_one_at_first, is_used_before
):
    layer = nn.MultiheadAttention(8, 2, batch_first=True)

    @mg.compile
    def compiled(q, k):
        before = q.sum() if is_used_before else 1
        return layer(q, k, k, need_weights=False)[0].sum() + before

    a, b = inputs(), inputs() * 2
    first, other = ((a, a), (a, b)) if is_one_at_first else ((a, b), (a, a))
    with mg.no_grad():
        for _ in range(3):
            compiled(*first)
        _, names = called_in("nn/attention.py", compiled, *other)
    assert "forward" in names


def test_a_layer_that_draws_in_python_runs_at_each_call():
    class Noisy(nn.Module):
        def forward(self, x):
            return mg.exp(x) * mg.rand(1).item()

    Noisy.__module__ = nn.__name__ + ".noisy"  # as if it were the library's
    layer = nn.Sequential(Noisy(), nn.LayerNorm(8))

    def found(decorate):
        mg.manual_seed(3)
        return trained(layer, decorate)[0]

    assert found(mg.compile) == found(lambda fn: fn)


def test_a_function_that_looks_at_its_argument_looks_at_each_call():
    compiled = mg.compile(lambda x, t: mg.nn.functional.multi_margin_loss(x * 2, t))
    x, t = inputs((4, 8)), np.array([0, 1, 2, 3])
    for _ in range(3):
        compiled(x, mg.tensor(t))
    with pytest.raises(ValueError):
        compiled(x, mg.tensor(-1 - t))


def test_a_constant_argument_is_compared():
    x = inputs((4, 8))

    def fn(eps):
        return mg.layer_norm(x * 2, (8,), eps=eps[0]) + 1

    compiled = mg.compile(fn)
    for eps in (1e-5, 1e-5, 1e-5, 0.5, 1e-5, 0.5):
        assert compiled([eps]).tolist() == fn([eps]).tolist()


def test_draws_in_a_layer_are_those_of_the_plain_one():
    def found(decorate):
        mg.manual_seed(0)
        layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.LayerNorm(8), nn.Dropout(0.5))
        mg.manual_seed(3)
        return trained(layer, decorate)[0] + [mg.rand(2).tolist()]

    assert found(mg.compile) == found(lambda fn: fn)


def test_a_layer_inside_no_grad_is_another():
    layer, x = encoder(), inputs()

    def fn(x, flag):
        with mg.set_grad_enabled(flag[0] == 1):
            y = layer(x)
        if flag[0]:
            y.sum().backward()
        return y

    compiled = mg.compile(fn)
    for flag in (1, 1, 0, 1, 0, 0):
        for p in layer.parameters():
            p.grad = None
        assert compiled(x, [flag]).requires_grad is (flag == 1)
        assert all((p.grad is not None) is (flag == 1) for p in layer.parameters())


def test_a_profile_sees_the_scopes_of_a_replayed_layer():
    layer, x = encoder(), inputs()
    compiled = mg.compile(lambda x: layer(x).sum().backward())
    for _ in range(3):
        for p in layer.parameters():
            p.grad = None
        compiled(x)
    for p in layer.parameters():
        p.grad = None
    with mg.profile() as prof:
        compiled(x)
    assert any("self_attn" in name for name in prof.scopes())


def test_tensors_keep_their_classes():
    layer, x = encoder(), inputs()
    kinds = [type(p) for p in layer.parameters()], type(x)
    trained(layer, mg.compile, x=x)
    assert ([type(p) for p in layer.parameters()], type(x)) == kinds


def test_tensors_keep_their_classes_if_a_layer_fails():
    layer, x = nn.Sequential(nn.LayerNorm(8), nn.Linear(7, 3)), inputs()
    with pytest.raises(ValueError):
        mg.compile(layer)(x)
    assert {type(p) for p in layer.parameters()} == {nn.Parameter} and type(x) is mg.Tensor
