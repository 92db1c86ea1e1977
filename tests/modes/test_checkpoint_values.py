"""A second run that computes with other values is an error that names the op; what it may ask."""

import contextlib
import gc
import itertools
import os
import time

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.backends import blas
from minigrad.errors import CheckpointError

pytestmark = pytest.mark.promise(
    "a checkpoint sets every generator back that its function can reach. A second run "
    "with other values is an error that names the op; running statistics move once"
)

checkpoint = mg.checkpoint


def leaf(n=3):
    return mg.tensor(np.linspace(0.5, 1.5, n), requires_grad=True)


class HiddenNoise(mg.Function):
    """Its generator is made as it runs."""

    @staticmethod
    def forward(ctx, x):
        ctx.noise = np.random.default_rng().normal(size=x.shape)
        return x * ctx.noise

    @staticmethod
    def backward(ctx, g):
        return g * ctx.noise


def fresh(n):
    return np.random.default_rng().normal(size=n)


def counter():
    count = itertools.count(1)
    return lambda x: np.sin(x * next(count))


def popped():
    numbers = [1.0, 2.0, 3.0]
    return lambda x: np.sin(x * numbers.pop())


def growing():
    seen = []

    def fn(x):
        seen.append(1)
        return np.sin(np.roll(x, len(seen)))

    return fn


def one_element(n):
    """The same large constant, but for one element that changes."""
    count = itertools.count()

    def fn(x):
        c = np.ones(x.shape)
        c[next(count)] = 2.0
        return x * c

    return fn


OTHERS = {
    "a generator made inside": (lambda: lambda x: x * fresh(x.shape), "mul"),
    "added before": (lambda: lambda x: np.exp(x + fresh(x.shape)), "add"),
    "the system's": (lambda: lambda x: np.sin(x * int.from_bytes(os.urandom(4))), "mul"),
    "the time": (lambda: lambda x: np.sin(x * time.perf_counter_ns()), "mul"),
    "a counter": (counter, "mul"),
    "a list that is used up": (popped, "mul"),
    "an iterator": (lambda: lambda x, it=iter([1.0, 2.0]): np.sin(x * next(it)), "mul"),
    "a static argument": (growing, "roll"),
    "an index": (
        lambda: lambda x: x[np.random.default_rng().permutation(len(x))] * x,
        "take|getitem",
    ),
    "one element": (lambda: one_element(3), "mul"),
    "a mask": (lambda: lambda x: mg.where(fresh(x.shape) > 0, x, 0.0) * x, "where"),
    "a Function": (lambda: lambda x: HiddenNoise.apply(x) * x, "HiddenNoise|mul"),
}


@pytest.mark.parametrize("n", [40, 5000])
@pytest.mark.parametrize("how", OTHERS)
def test_other_values_are_an_error_that_names_the_op(how, n):
    make, op = OTHERS[how]
    x = leaf(n)
    y = checkpoint(make(), x).sum()
    with pytest.raises(CheckpointError, match=rf"op \d, ({op}) .*has other values") as caught:
        y.backward()
    assert x.grad is None and "generator" in str(caught.value)


def test_a_value_that_needs_no_second_run_is_that_of_the_first():
    """Nodes that save no arrays keep what they saved."""
    x = leaf()
    checkpoint(lambda x, it=iter([2.0, 3.0]): x * next(it), x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_determinism_check_none_takes_them():
    x = leaf()
    checkpoint(counter(), x, determinism_check="none").sum().backward()
    np.testing.assert_allclose(x.grad, np.cos(2 * x.detach()))  # the factor of the forward was 1
    with pytest.raises(ValueError, match="determinism_check is 'default' or 'none', got 'maybe'"):
        checkpoint(np.exp, x, determinism_check="maybe")


def test_debug_lists_the_ops_of_both_runs_with_their_lines():
    x, noise = leaf(), itertools.count(1)

    def fn(x):
        y = np.exp(x)
        return y * next(noise) * y

    with pytest.raises(CheckpointError) as caught:
        checkpoint(fn, x, debug=True).sum().backward()
    first, second = str(caught.value).partition("The second run:")[::2]
    for text, ops in ((first.partition("The first run:")[2], 3), (second, 2)):
        lines = text.strip().splitlines()
        assert len(lines) == ops and all("test_checkpoint_values.py:" in line for line in lines)
        assert lines[0].split()[:2] == ["0:", "exp"] and lines[1].split()[:2] == ["1:", "mul"]


def test_context_fn_gives_a_context_for_each_run():
    entered, x = [], leaf()

    @contextlib.contextmanager
    def noted(name):
        entered.append(name)
        yield
        entered.append(f"{name} ends")

    y = checkpoint(
        lambda x: (entered.append("runs"), np.exp(x) * x)[1], x,
        context_fn=lambda: (noted("first"), noted("second")),
    )  # fmt: skip
    y.sum().backward()
    assert entered[:3] == ["first", "runs", "first ends"] and entered[3:5] == ["second", "runs"]
    with pytest.raises(TypeError, match=r"context_fn\(\) returns two context managers"):
        checkpoint(np.exp, x, context_fn=lambda: None)


def test_a_context_of_the_first_run_counts_for_what_is_saved_there():
    packed, x = [], leaf()
    hooks = mg.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t)
    y = checkpoint(lambda x: np.exp(x) * x, x, context_fn=lambda: (hooks, contextlib.nullcontext()))
    y.sum().backward()
    assert packed
    np.testing.assert_allclose(x.grad, (np.exp(x) * (1 + x)).detach())


def test_early_stop_can_be_switched_off_for_one_call():
    calls, x = [], leaf()

    def fn(x):
        y = np.exp(x)
        z = y * y
        calls.append(1)
        return z

    checkpoint(fn, x, early_stop=False).sum().backward()
    assert len(calls) == 2
    checkpoint(fn, x).sum().backward()
    assert len(calls) == 3


def test_a_function_knows_which_run_it_is_in():
    x, seen = leaf(), []

    def inner(x):
        seen.append(("inner", mg.is_recomputing()))
        return np.exp(x)

    def outer(x):
        seen.append(("outer", mg.is_recomputing()))
        return checkpoint(inner, x * 2) * x

    outer(x)
    checkpoint(outer, x).sum().backward()
    assert seen[:2] == seen[2:4] == [("outer", False), ("inner", False)]
    assert all(second for _, second in seen[4:]) and len(seen) > 5
    assert not mg.is_recomputing()


NORMS = {
    "batch norm": lambda: nn.BatchNorm1d(4),
    "averages": lambda: nn.BatchNorm1d(4, momentum=None),
    "lazy": lambda: nn.LazyBatchNorm1d(),
    "without weights": lambda: nn.BatchNorm1d(4, affine=False),
    "spectral norm": lambda: nn.utils.spectral_norm(nn.Linear(4, 4)),
    "spectral norm, parametrized": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "images": lambda: nn.Sequential(nn.Unflatten(1, (4, 1, 1)), nn.BatchNorm2d(4), nn.Flatten()),
}


@pytest.mark.parametrize("name", NORMS)
def test_what_a_layer_writes_as_it_runs_is_written_once(name):
    def trained(call):
        mg.manual_seed(0)
        layer = NORMS[name]().to(mg.float64)
        x = mg.randn(6, 4, dtype=mg.float64, requires_grad=True)
        first = call(layer, x)
        second = call(layer, x * 2)  # moves its state on before the first backward
        np.tanh(first * second).sum().backward()
        state = {key: value.tolist() for key, value in layer.state_dict().items()}
        return state, [p.grad.tolist() for p in (x, *layer.parameters())]

    plain = trained(lambda layer, x: layer(x))
    kept = trained(lambda layer, x: checkpoint(lambda x: np.tanh(layer(x)) + layer(x) * 0, x))
    twice = trained(lambda layer, x: np.tanh(layer(x)) + layer(x) * 0)
    assert kept[0] == twice[0] != plain[0]
    for a, b in zip(kept[1], twice[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_what_a_lazy_layer_draws_for_its_weights_is_not_drawn_again():
    def fn(x, layer):
        return mg.dropout(np.tanh(layer(x)), 0.5)

    mg.manual_seed(2)
    x, layer = mg.ones(4, 3, requires_grad=True), nn.LazyLinear(50)
    got = mg.grad(checkpoint(fn, x, layer).sum(), x)
    mg.manual_seed(2)
    other = nn.LazyLinear(50)
    assert got.tolist() == mg.grad(fn(x, other).sum(), x).tolist()


def test_rounding_that_differs_between_the_runs_is_no_error():
    x = mg.randn(40, 300, dtype=mg.float32)
    w = mg.randn(300, 300, dtype=mg.float32, requires_grad=True)
    rounds = itertools.cycle([1.0, 1.0 + 1e-7])

    class Product(mg.Function):
        """A product whose last bits depend on the run, as with another number of threads."""

        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return ((x.data @ w.data) * np.float32(next(rounds))).astype(np.float32)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w.T, x.T @ g

    y = checkpoint(lambda w: mg.max_pool1d(mg.relu(np.tanh(Product.apply(x, w))), 2), w)
    assert np.isfinite(mg.grad(y.sum(), w).numpy()).all()


def test_a_backward_that_holds_blas_to_one_thread_takes_the_products_as_equal():
    if (blas.threads() or 1) < 2:
        pytest.skip("BLAS has one thread here")
    x, w = mg.randn(300, 300), mg.randn(300, 300, requires_grad=True)
    y = checkpoint(lambda w: np.tanh(np.tanh(x @ w) @ w), w)
    y.sum().backward(engine="parallel", workers=2, min_work=0)
    assert w.grad is not None


@pytest.mark.parametrize("create_graph", [False, True])
def test_nested_checkpoints_leave_no_reference_cycle(create_graph):
    def both(x):
        return np.exp(x), np.sin(x)

    def run():
        x = leaf()
        unused, y = checkpoint(lambda x: checkpoint(both, np.cos(x) * 2), x)
        g = mg.grad(y.sum(), x, create_graph=create_graph)
        if create_graph:
            mg.grad(g.sum(), x)

    run()
    gc.collect()
    gc.disable()
    try:
        run()
        assert gc.collect() == 0
    finally:
        gc.enable()
