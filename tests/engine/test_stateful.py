"""Random programs against a slow oracle: build, change in place, hook, run backward, free.

The oracle keeps, for every tensor, its values and all its first and second derivatives by every
number in every leaf, as plain arrays: forward mode by hand, with no graph at all.
"""

import gc
import itertools

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import minigrad as mg
from minigrad.engine import graph, modes
from minigrad.engine.errors import GraphReleasedError, InPlaceError
from minigrad.engine.primitive import Primitive
from minigrad.modes import hooks

pytestmark = pytest.mark.promise("random programs agree with a slow oracle")

SIZE, LEAVES = 2, 3  # elements of every tensor, leaves of every program
ALL = SIZE * LEAVES
picks = st.integers(0, 10**6)
numbers = st.sampled_from([-1.5, -0.5, 0.25, 0.75, 2.0])
seeds = st.lists(numbers, min_size=SIZE, max_size=SIZE).map(np.array)
new_call = itertools.count().__next__

twice_and_turned = Primitive(lambda x: (2 * x, 3 * x[::-1]), "twice_and_turned", ["x"], outputs=2)


@twice_and_turned.vjp("x")
def twice_and_turned_dx(g):
    parts = [None if g[0] is None else 2 * g[0], None if g[1] is None else 3 * g[1][::-1]]
    first, *rest = [part for part in parts if part is not None]
    return first + rest[0] if rest else first


class Pair:
    """A tensor of the engine and what it should be.

    values  (SIZE,);  J  (SIZE, ALL) first derivatives;  H  (SIZE, ALL, ALL) second ones, or None
    where they are third derivatives of something
    calls   the numbers of the calls behind it: what a backward from it may free
    seen    gradients that a hook on it has been shown
    """

    def __init__(self, tensor, values, J, H, calls):
        self.tensor, self.values, self.J, self.H, self.calls = tensor, values, J, H, calls
        self.seen, self.hooked = [], False


def outer(Ja, Jb):
    """Ja ⊗ Jb + Jb ⊗ Ja, for each element."""
    product = Ja[:, :, None] * Jb[:, None, :]
    return product + product.swapaxes(1, 2)


def combined(*terms):
    """Σ factor · array; None if one of the arrays is."""
    if any(array is None for _, array in terms):
        return None
    return sum(np.reshape(f, (-1,) + (1,) * (array.ndim - 1)) * array for f, array in terms)


NOTHING = np.zeros((SIZE, ALL)), np.zeros((SIZE, ALL, ALL))


class Programs(RuleBasedStateMachine):
    @initialize(values=st.lists(numbers, min_size=ALL, max_size=ALL))
    def leaves(self, values):
        self.handles, self.pairs, self.released = [], [], set()
        self.perhaps_released = set()  # by the backward of a gradient, which may need less than all
        self.grads = [np.zeros(SIZE) for _ in range(LEAVES)]
        self.scale = [1.0] * LEAVES  # what a leaf's hooks multiply its gradient by
        for i in range(LEAVES):
            data = np.array(values[SIZE * i : SIZE * (i + 1)])
            J = np.eye(ALL)[SIZE * i : SIZE * (i + 1)]
            x = mg.tensor(data, requires_grad=True)
            self.pairs.append(Pair(x, data.copy(), J, NOTHING[1], frozenset()))
        self.leaf_tensors = [pair.tensor for pair in self.pairs]
        self.before = graph.hook_count

    def pick(self, n):
        recent = self.pairs[-6:]  # few, so that what is done meets what was done before
        return recent[n % len(recent)]

    def keep(self, tensor, values, J, H, *parents):
        tracked = any(parent.tensor.node is not None for parent in parents)
        calls = frozenset().union(*[p.calls for p in parents], {new_call()} if tracked else ())
        self.pairs.append(Pair(tensor, values, J, H, calls))

    # -- building ----------------------------------------------------------------------------

    @rule(i=picks, j=picks, recorded=st.booleans())
    def multiply(self, i, j, recorded):
        a, b = self.pick(i), self.pick(j)
        if max(np.abs(a.values).max(), np.abs(b.values).max()) > 1e3:
            return
        y = a.values * b.values
        if not recorded:
            with mg.no_grad():
                self.keep(a.tensor * b.tensor, y, *NOTHING)
            return
        J = combined((b.values, a.J), (a.values, b.J))
        H = combined((b.values, a.H), (a.values, b.H), (1.0, outer(a.J, b.J)))
        self.keep(a.tensor * b.tensor, y, J, H, a, b)

    @rule(i=picks, j=picks)
    def add(self, i, j):
        a, b = self.pick(i), self.pick(j)
        H = combined((1.0, a.H), (1.0, b.H))
        self.keep(a.tensor + b.tensor, a.values + b.values, a.J + b.J, H, a, b)

    @rule(i=picks, again=st.booleans())
    def tanh(self, i, again):
        a = self.pick(i)
        y = np.tanh(a.values)
        d = 1 - y * y
        J, H = combined((d, a.J)), combined((d, a.H), (-y * d, outer(a.J, a.J)))
        tensor = mg.checkpoint(np.tanh, a.tensor) if again else np.tanh(a.tensor)
        self.keep(tensor, y, J, H, a)

    @rule(i=picks)
    def two_outputs(self, i):
        a = self.pick(i)
        if np.abs(a.values).max() > 1e3:
            return
        y, z = twice_and_turned(a.tensor)
        self.keep(y, 2 * a.values, 2 * a.J, combined((2.0, a.H)), a)
        H = None if a.H is None else 3 * a.H[::-1]
        self.keep(z, 3 * a.values[::-1], 3 * a.J[::-1], H, a)
        self.pairs[-1].calls |= self.pairs[-2].calls  # one call made both
        self.pairs[-2].calls |= self.pairs[-1].calls

    @rule(i=picks)
    def reverse(self, i):
        self.keep_reversed(self.pick(i))

    def keep_reversed(self, a):
        """A view of one memory, on both sides."""
        H = None if a.H is None else a.H[::-1]
        self.keep(a.tensor[::-1], a.values[::-1], a.J[::-1], H, a)

    @rule(i=picks, value=numbers)
    def scale_by_a_constant(self, i, value):
        a, c = self.pick(i), np.full(SIZE, value)
        constant = mg.tensor(c)
        self.keep(a.tensor * constant, a.values * c, a.J * value, combined((c, a.H)), a)
        self.keep(constant, c, *NOTHING)

    @rule(i=picks)
    def detached(self, i):
        a = self.pick(i)
        self.keep(a.tensor.detach().copy(), a.values.copy(), *NOTHING)

    # -- changing ----------------------------------------------------------------------------

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
        row = np.arange(SIZE) == place
        x.J = combined((~row, x.J), (row, v.J))
        x.H = combined((~row, x.H), (row, v.H))
        x.calls = x.calls | v.calls | {new_call()}
        x.hooked, x.seen = False, []  # the hook stays with the old value

    @rule(i=picks, value=numbers)
    def write_without_recording(self, i, value):
        """Noted: every backward that still needs the old values is refused. Views see it."""
        a = self.pick(i)
        with mg.no_grad():
            a.tensor += value
        a.values += value

    @rule(i=picks, j=picks, value=numbers, seed=seeds)
    def write_between_forward_and_backward(self, i, j, value, seed):
        self.multiply(i, j, True)
        product = self.pairs[-1]
        self.write_without_recording(i, value)
        self.backward_from(product, seed, True)

    # -- hooks -------------------------------------------------------------------------------

    @rule(i=st.integers(0, LEAVES - 1), factor=numbers)
    def hook_a_leaf(self, i, factor):
        self.handles.append((i, factor, self.leaf_tensors[i].register_hook(lambda g: g * factor)))
        self.scale[i] *= factor

    @rule(i=picks)
    def watch_an_inner_tensor(self, i):
        a = self.pick(i)
        if not a.tensor.is_leaf and not a.hooked:
            seen, a.hooked = a.seen, True
            handle = a.tensor.register_hook(lambda g: seen.append(g.detach().data.copy()))
            self.handles.append((0, 1.0, handle))

    @precondition(lambda self: self.handles)
    @rule(n=picks)
    def unhook(self, n):
        i, factor, handle = self.handles.pop(n % len(self.handles))
        handle.remove()
        self.scale[i] /= factor
        for pair in self.pairs:
            pair.hooked = pair.hooked and bool(hooks.of(pair.tensor.node, "total"))

    # -- backward ----------------------------------------------------------------------------

    def run(self, a, backward):
        """Whether `backward` ran; if it was refused, there was a reason."""
        before = len(a.seen)
        try:
            backward()
        except GraphReleasedError:
            assert a.calls & (self.released | self.perhaps_released)
            return False
        except InPlaceError:
            assert not (a.calls & self.released) or a.H is None
            return False
        assert not (a.calls & self.released) or a.H is None  # a gradient may need less than all
        assert len(a.seen) == before + a.hooked  # a hook sees the total, once
        return True

    @rule(i=picks, seed=seeds, retain=st.sampled_from([True, True, False]))
    def backward(self, i, seed, retain):
        self.backward_from(self.pick(i), seed, retain)

    def backward_from(self, a, seed, retain):
        if a.tensor.node is None:
            return
        if self.run(a, lambda: a.tensor.backward(seed, retain_graph=retain)):
            if a.hooked:
                np.testing.assert_array_equal(a.seen[-1], seed)
            for leaf in range(LEAVES):
                part = slice(SIZE * leaf, SIZE * (leaf + 1))
                self.grads[leaf] = self.grads[leaf] + seed @ a.J[:, part] * self.scale[leaf]
            if not retain:
                exact = a.H is not None
                (self.released if exact else self.perhaps_released).update(a.calls)

    @rule(i=picks, seed=seeds)
    def differentiate_to_differentiate_again(self, i, seed):
        """Gradients with create_graph become tensors of the program, with first derivatives."""
        a = self.pick(i)
        if a.tensor.node is None or a.H is None:
            return
        found = []
        ask = {"create_graph": True, "allow_unused": True}
        if not self.run(a, lambda: found.extend(mg.grad(a.tensor, self.leaf_tensors, seed, **ask))):
            return
        for leaf, g in enumerate(found):
            part = slice(SIZE * leaf, SIZE * (leaf + 1))
            J = np.einsum("i,ijk->jk", seed, a.H)[part] * self.scale[leaf]
            if g is None:
                assert not a.J[:, part].any()
            else:
                self.keep(g, seed @ a.J[:, part] * self.scale[leaf], J, None, a)

    # -- freeing -----------------------------------------------------------------------------

    @precondition(lambda self: len(self.pairs) > 2 * LEAVES)
    @rule(n=picks)
    def free(self, n):
        del self.pairs[LEAVES + n % (len(self.pairs) - LEAVES)]

    @invariant()
    def everything_agrees(self):
        if not hasattr(self, "pairs"):
            return
        for pair in self.pairs:
            np.testing.assert_allclose(pair.tensor.detach().data, pair.values, rtol=1e-9, atol=1e-9)
        for x, expected in zip(self.leaf_tensors, self.grads, strict=True):
            got = np.zeros(SIZE) if x.grad is None else x.grad.data
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8)

    def teardown(self):
        for _, _, handle in self.handles:
            handle.remove()
        assert graph.hook_count == self.before and modes.active == 0
        self.pairs.clear()
        gc.collect()


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(max_examples=60, stateful_step_count=30)
