"""Random programs against a slow oracle: build, change in place, hook, run backward, free.

The oracle keeps, for every tensor, its values and its whole Jacobian with respect to every leaf, as
plain arrays, element by element: forward mode by hand, with no graph at all.
"""

import gc

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import minigrad as mg
from minigrad.core import hooks, modes
from minigrad.core.errors import InPlaceError

SIZE = 2  # elements of every tensor
picks = st.integers(0, 10**6)
numbers = st.sampled_from([-1.5, -0.5, 0.25, 0.75, 2.0])


class Pair:
    """A tensor of the engine and what it should be: values, {leaf: Jacobian (SIZE, SIZE)}."""

    def __init__(self, tensor, values, jacobians):
        self.tensor, self.values, self.jacobians = tensor, values, jacobians


def scaled(rows, jacobians):
    """diag(rows) J for each leaf's J."""
    return {leaf: rows[:, None] * J for leaf, J in jacobians.items()}


def summed(first, second):
    keys = first.keys() | second.keys()
    zero = np.zeros((SIZE, SIZE))
    return {leaf: first.get(leaf, zero) + second.get(leaf, zero) for leaf in keys}


class Programs(RuleBasedStateMachine):
    @initialize(values=st.lists(numbers, min_size=3 * SIZE, max_size=3 * SIZE))
    def leaves(self, values):
        self.leaf_tensors, self.grads, self.scale, self.handles, self.pairs = [], [], [], [], []
        for i in range(3):
            data = np.array(values[SIZE * i : SIZE * (i + 1)])
            x = mg.tensor(data, requires_grad=True)
            self.leaf_tensors.append(x)
            self.grads.append(None)
            self.scale.append(1.0)  # what the leaf's hooks multiply its gradient by
            self.pairs.append(Pair(x, data.copy(), {i: np.eye(SIZE)}))
        self.before = hooks.registered

    def pick(self, n):
        recent = self.pairs[-6:]  # few, so that what is done meets what was done before
        return recent[n % len(recent)]

    def keep(self, tensor, values, jacobians):
        self.pairs.append(Pair(tensor, values, jacobians))

    @rule(i=picks, j=picks)
    def multiply(self, i, j):
        a, b = self.pick(i), self.pick(j)
        if max(np.abs(a.values).max(), np.abs(b.values).max()) < 1e3:
            J = summed(scaled(b.values, a.jacobians), scaled(a.values, b.jacobians))
            self.keep(a.tensor * b.tensor, a.values * b.values, J)

    @rule(i=picks, j=picks)
    def add(self, i, j):
        a, b = self.pick(i), self.pick(j)
        self.keep(a.tensor + b.tensor, a.values + b.values, summed(a.jacobians, b.jacobians))

    @rule(i=picks, again=st.booleans())
    def tanh(self, i, again):
        a = self.pick(i)
        y = np.tanh(a.values)
        tensor = mg.checkpoint(np.tanh, a.tensor) if again else np.tanh(a.tensor)
        self.keep(tensor, y, scaled(1 - y * y, a.jacobians))

    @rule(i=picks)
    def reverse(self, i):
        self.keep_reversed(self.pick(i))

    def keep_reversed(self, a):
        J = {leaf: J[::-1] for leaf, J in a.jacobians.items()}
        self.keep(a.tensor[::-1], a.values[::-1], J)  # views of one memory, on both sides

    @rule(i=picks, value=numbers)
    def scale_by_a_constant(self, i, value):
        a, c = self.pick(i), np.full(SIZE, value)
        constant = mg.tensor(c)
        self.keep(a.tensor * constant, a.values * c, scaled(c, a.jacobians))
        self.keep(constant, c, {})

    @rule(i=picks)
    def detached(self, i):
        a = self.pick(i)
        self.keep(a.tensor.detach().copy(), a.values.copy(), {})

    @rule(i=picks, j=picks, place=st.integers(0, SIZE - 1), seen=st.booleans())
    def assign(self, i, j, place, seen):
        """x[place] = v[place]: right, or refused."""
        x, v = self.pick(i), self.pick(j)
        if x.tensor.node is None and v.tensor.node is None:
            return
        if seen:
            self.keep_reversed(x)
        try:
            x.tensor[place] = v.tensor[place]
        except InPlaceError:
            return
        x.values[place] = v.values[place]  # seen by views; the engine has refused if there are any
        rows = np.arange(SIZE) == place
        J = summed(scaled(~rows * 1.0, x.jacobians), scaled(rows * 1.0, v.jacobians))
        x.jacobians = J

    @rule(i=picks, value=numbers)
    def write_into_a_constant(self, i, value):
        """Noted: every backward that still needs the old values is refused."""
        a = self.pick(i)
        if a.tensor.node is None:
            a.tensor += value
            a.values += value

    @rule(i=st.integers(0, 2), factor=numbers)
    def hook(self, i, factor):
        self.handles.append((i, factor, self.leaf_tensors[i].register_hook(lambda g: g * factor)))
        self.scale[i] *= factor

    @precondition(lambda self: self.handles)
    @rule(n=picks)
    def unhook(self, n):
        i, factor, handle = self.handles.pop(n % len(self.handles))
        handle.remove()
        self.scale[i] /= factor

    @rule(i=picks, seed=st.lists(numbers, min_size=SIZE, max_size=SIZE))
    def backward(self, i, seed):
        a = self.pick(i)
        if a.tensor.node is None:
            return
        try:
            a.tensor.backward(np.array(seed), retain_graph=True)
        except InPlaceError:
            return
        for leaf, J in a.jacobians.items():
            g = np.array(seed) @ J * self.scale[leaf]
            self.grads[leaf] = g if self.grads[leaf] is None else self.grads[leaf] + g

    @precondition(lambda self: len(self.pairs) > 6)
    @rule(n=picks)
    def free(self, n):
        del self.pairs[3 + n % (len(self.pairs) - 3)]

    @invariant()
    def everything_agrees(self):
        if not hasattr(self, "pairs"):
            return
        for pair in self.pairs:
            np.testing.assert_allclose(pair.tensor.detach().data, pair.values, rtol=1e-9)
        for x, expected in zip(self.leaf_tensors, self.grads, strict=True):
            got = np.zeros(SIZE) if x.grad is None else x.grad.data
            wanted = np.zeros(SIZE) if expected is None else expected
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8)

    def teardown(self):
        for _, _, handle in self.handles:
            handle.remove()
        assert hooks.registered == self.before and modes.active == 0
        self.pairs.clear()
        gc.collect()


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
