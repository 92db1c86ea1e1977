"""The small program behind the step-through of each session, recorded as a student would."""

from collections.abc import Callable

import numpy as np

import minigrad as mg


def scalars() -> mg.record_backward:
    """Session 1: three ops on numbers, the formula of the first slide."""
    a, b, c = (mg.tensor(v, requires_grad=True) for v in (0.5, -1.5, 1.0))
    with mg.record_backward({"a": a, "b": b, "c": c}) as record:
        L = mg.tanh(a * b + c)
        L.backward()
    return record


def broadcast() -> mg.record_backward:
    """Session 2: a bias is copied over the rows of a product; its gradient sums them."""
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    w = mg.tensor([[1.0, 0.0], [1.0, 1.0]], requires_grad=True)
    b = mg.tensor([10.0, 20.0], requires_grad=True)
    with mg.record_backward({"w": w, "b": b, "x": x}) as record:
        L = (x @ w + b).sum()
        L.backward()
    return record


def shared() -> mg.record_backward:
    """Session 3: three contributions meet at one leaf."""
    x = mg.tensor(0.5, requires_grad=True)
    with mg.record_backward({"x": x}) as record:
        y = x * x + mg.exp(x)
        y.backward()
    return record


class Swish(mg.Function):
    """y = x sigmoid(x), and a rule that forgets a factor: x s (1 − s) would be right."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * mg.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = mg.sigmoid(x)
        return g * (s + x * s)


def wrong_rule() -> mg.record_backward:
    """Session 4: finite differences mark the node whose rule is wrong."""
    chance = np.random.default_rng(0)
    x, w = mg.tensor(chance.normal(size=(4, 3))), mg.tensor(chance.normal(size=(3, 2)))
    w.requires_grad_()
    with mg.record_backward({"w": w, "x": x}, check=True) as record:
        L = (Swish.apply(x @ w) ** 2).mean()
        L.backward()
    return record


def second_order() -> mg.record_backward:
    """Session 5: the backward over the graph of a first derivative."""
    x = mg.tensor(0.5, requires_grad=True)
    with mg.record_backward({"x": x}) as record:
        slope = mg.grad(mg.sin(x * x), x, create_graph=True)
        slope.backward()
    return record


def one_row() -> mg.record_backward:
    """Session 6: a unit vector as the cotangent gives one row of the Jacobian."""
    x = mg.tensor([0.1, 0.4, -0.2, 0.3], requires_grad=True)
    with mg.record_backward({"x": x}) as record:
        pull = mg.tanh(x[1:] - x[:-1])
        pull.backward(np.array([0.0, 1.0, 0.0]))
    return record


def checkpointed() -> mg.record_backward:
    """Session 7: eight layers, four of them behind a checkpoint."""
    chance = np.random.default_rng(0)
    weights = [mg.tensor(chance.normal(size=(8, 8)) / 3, requires_grad=True) for _ in range(8)]

    def layers(x, some):
        for w in some:
            x = mg.tanh(x @ w)
        return x

    with mg.record_backward({f"w{i}": w for i, w in enumerate(weights)}) as record:
        x = layers(mg.tensor(chance.normal(size=(64, 8))), weights[:4])
        x = mg.checkpoint(lambda x: layers(x, weights[4:]), x)
        x.sum().backward()
    return record


def own_op() -> mg.record_backward:
    """Session 8: a loop over time, as one node."""

    @mg.primitive(name="gated_sum_of_course")
    def gated_sum(a, x):
        """y_t = a_t y_{t−1} + x_t, y_{−1} = 0"""
        y, state = np.empty_like(x), 0.0
        for t in range(len(x)):
            y[t] = state = a[t] * state + x[t]
        return y

    @gated_sum.vjp
    def gated_sum_vjp(g, a, y, needs):
        """λ_t = g_t + a_{t+1} λ_{t+1};  gx = λ, ga_t = λ_t y_{t−1}"""
        later = lambda v: np.concatenate([np.zeros_like(v[:1]), v[:-1]])
        total = np.flip(gated_sum(later(np.flip(a)), np.flip(g)))
        return total * later(y), total

    a = mg.tensor([0.5, 0.5, 0.5], requires_grad=True)
    x = mg.tensor([1.0, 1.0, 1.0], requires_grad=True)
    with mg.record_backward({"a": a, "x": x}) as record:
        gated_sum(a, x).sum().backward()
    return record


RECORDINGS: dict[int, Callable[[], mg.record_backward]] = dict(
    enumerate(
        [scalars, broadcast, shared, wrong_rule, second_order, one_row, checkpointed, own_op], 1
    )
)
