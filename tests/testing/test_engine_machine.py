"""A machine that grows random graphs and runs backwards over them in any order.

The oracle is beside it: every value carries its Jacobian by all leaf entries, in plain NumPy.
"""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import minigrad as mg

pytestmark = pytest.mark.promise("random programs agree with a slow oracle")

ENTRIES = 40  # leaf entries that a run may use
UNARY = {
    "sin": (mg.sin, np.sin, np.cos),
    "tanh": (mg.tanh, np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "square": (mg.square, np.square, lambda x: 2 * x),
    "neg": (lambda x: -x, np.negative, lambda x: -np.ones_like(x)),
}
SHAPES = [(), (1,), (3,), (2, 1), (2, 3)]


class Engine(RuleBasedStateMachine):
    """Values are (tensor, array, jacobian); jacobian has shape (*array.shape, ENTRIES)."""

    values = Bundle("values")

    @initialize()
    def start(self):
        self.leaves = []  # (tensor, first entry, expected gradient or None)
        self.used = 0
        self.retained = []

    @rule(target=values, shape=st.sampled_from(SHAPES), seed=st.integers(0, 99))
    def leaf(self, shape, seed):
        x = np.random.default_rng(seed).uniform(-1, 1, shape)
        jacobian = np.zeros((*shape, ENTRIES))
        tracked = self.used + x.size <= ENTRIES
        tensor = mg.tensor(x, requires_grad=tracked)
        if tracked:
            flat = jacobian.reshape(x.size, ENTRIES)
            flat[np.arange(x.size), self.used + np.arange(x.size)] = 1
            self.leaves.append([tensor, self.used, None])
            self.used += x.size
        return tensor, x, jacobian

    @rule(target=values, value=values, name=st.sampled_from(sorted(UNARY)))
    def unary(self, value, name):
        tensor, x, jacobian = value
        op, forward, derivative = UNARY[name]
        return op(tensor), forward(x), derivative(x)[..., None] * jacobian

    @rule(target=values, first=values, second=values, kind=st.sampled_from("+-*"))
    def binary(self, first, second, kind):
        (s, a, ja), (t, b, jb) = first, second
        if not _fit(a.shape, b.shape):
            return first
        if kind == "+":
            return s + t, a + b, _lift(ja, a, b) + _lift(jb, b, a)
        if kind == "-":
            return s - t, a - b, _lift(ja, a, b) - _lift(jb, b, a)
        slopes = (b + 0 * a)[..., None] * _lift(ja, a, b) + (a + 0 * b)[..., None] * _lift(jb, b, a)
        return s * t, a * b, slopes

    @rule(target=values, value=values)
    def total(self, value):
        tensor, x, jacobian = value
        axes = tuple(range(x.ndim))
        return tensor.sum(), x.sum(), jacobian.sum(axis=axes)

    @rule(target=values, value=values)
    def detached(self, value):
        tensor, x, jacobian = value
        return tensor.detach(), x, np.zeros_like(jacobian)

    @rule(target=values, value=values)
    def unrecorded(self, value):
        tensor, x, jacobian = value
        with mg.no_grad():
            return mg.sin(tensor), np.sin(x), np.zeros_like(jacobian)

    @rule(value=values, seed=st.integers(0, 99), retain=st.booleans())
    def backward(self, value, seed, retain):
        tensor, x, jacobian = value
        if not tensor.requires_grad:
            return
        v = np.random.default_rng(seed).standard_normal(x.shape)
        before = [t.grad for t, _, _ in self.leaves]
        try:
            tensor.backward(v, retain_graph=retain)
        except mg.errors.GraphReleasedError:
            assert all(t.grad is g for (t, _, _), g in zip(self.leaves, before, strict=True))
            return
        pulled = np.tensordot(v, jacobian, axes=x.ndim)
        for entry in self.leaves:
            leaf, start, expected = entry
            part = pulled[start : start + leaf.size].reshape(leaf.shape)
            if leaf.grad is not None:
                entry[2] = part if expected is None else expected + part

    @rule()
    def clear(self):
        for entry in self.leaves:
            entry[0].grad = None
            entry[2] = None

    @rule(value=values)
    def gradient_of_the_gradient_leaves_grad_alone(self, value):
        tensor, x, jacobian = value
        leaves = [t for t, _, _ in self.leaves]
        if not tensor.requires_grad or not leaves:
            return
        before = [None if t.grad is None else t.grad.numpy().copy() for t in leaves]
        try:
            found = mg.grad(tensor.sum(), leaves, create_graph=True, allow_unused=True)
        except mg.errors.GraphReleasedError:
            return
        pulled = jacobian.sum(axis=tuple(range(x.ndim)))
        for (leaf, start, _), g in zip(self.leaves, found, strict=True):
            part = pulled[start : start + leaf.size].reshape(leaf.shape)
            np.testing.assert_allclose(0 if g is None else g.detach().numpy(), part, atol=1e-9)
        for leaf, old in zip(leaves, before, strict=True):
            assert (leaf.grad is None) == (old is None)

    @invariant()
    def every_gradient_is_the_sum_of_its_backwards(self):
        for leaf, _, expected in getattr(self, "leaves", []):
            if leaf.grad is None:
                assert expected is None
            else:
                np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-9, atol=1e-9)


def _fit(a, b):
    try:
        return len(np.broadcast_shapes(a, b)) <= 2
    except ValueError:
        return False


def _lift(jacobian, a, b):
    """The Jacobian of a, broadcast as a is against b."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    extra = (1,) * (len(shape) - a.ndim)
    return np.broadcast_to(jacobian.reshape(extra + jacobian.shape), (*shape, ENTRIES))


TestEngine = Engine.TestCase
TestEngine.settings = settings(max_examples=60, stateful_step_count=25)
