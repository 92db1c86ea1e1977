"""mg.Function: a fast call, whose code is generated, gives what the doorway gives."""

import itertools
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.modes.saving import Saver


class Doorway(Saver):
    """Something that is on, so that calls are not plain; it changes nothing."""

    def take(self, node, y, args):
        """Nothing."""


class Affine(mg.Function):
    """a·x + b, of which nothing need be a tensor."""

    @staticmethod
    def forward(ctx, a, x, b, label="affine"):
        ctx.save_for_backward(*[t if isinstance(t, mg.Tensor) else None for t in (a, x)])
        ctx.a, ctx.x, ctx.label = a, x, label
        return mg.as_tensor(a * x + b)

    @staticmethod
    def backward(ctx, g):
        needs = ctx.needs_input_grad
        return (
            g * ctx.x if needs[0] else None,
            g * ctx.a if needs[1] else None,
            g if needs[2] else None,
            None,
        )


class OfTwo(mg.Function):
    """Saves arguments and its result, each once."""

    @staticmethod
    def forward(ctx, x, w):
        y = x * np.exp(w)
        ctx.save_for_backward(w, y)
        return y

    @staticmethod
    def backward(ctx, g):
        w, y = ctx.saved_tensors
        return g * np.exp(w), g * y


class Twice(OfTwo):
    """Saves an argument twice."""

    @staticmethod
    def forward(ctx, x, w):
        y = x * np.exp(w)
        ctx.save_for_backward(w, y, w, x)
        return y

    @staticmethod
    def backward(ctx, g):
        w, y, again, x = ctx.saved_tensors
        assert again is w and x.shape == y.shape
        return g * np.exp(w), g * y


class Identity(OfTwo):
    """Returns its argument, and saves nothing."""

    @staticmethod
    def forward(ctx, x, w):
        return x

    @staticmethod
    def backward(ctx, g):
        return g, 0.0 * g


class Whole(OfTwo):
    """A result without a gradient."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x)
        return mg.round(x * w).astype(mg.int64)


def described(function, args):
    """All that a caller can see of a call and its backward."""
    y = function.apply(*args)
    seen = [type(y), y.dtype, y.tolist(), y.requires_grad]
    if y.requires_grad:
        node = y.grad_fn
        seen += [node.op.name, node.shape, node.dtype, node.plan.names, len(node.parents)]
        seen += [[np.asarray(v).tolist() for v in node.saved], str(node.plan.needs)]
        given = [x for x in args if isinstance(x, mg.Tensor) and x.requires_grad]
        grads = mg.grad(y, given, mg.ones_like(y), create_graph=True, allow_unused=True)
        seen += [g if g is None else g.tolist() for g in grads]
    return seen


def same_both_ways(function, args):
    plain = described(function, args)
    with Doorway():
        assert described(function, args) == plain


def forms(values):
    """A value as a tensor that needs a gradient, one that does not, and as an array."""
    return [
        lambda: mg.tensor(values, requires_grad=True),
        lambda: mg.tensor(values),
        lambda: np.array(values),
    ]


@pytest.mark.parametrize("label", [(), ("text",)])
def test_with_tensors_in_any_places(label):
    for a, x, b in itertools.product(forms([2.0, 3.0]), forms([0.5, -1.0]), forms([1.0, 1.0])):
        same_both_ways(Affine, (a(), x(), b(), *label))


@pytest.mark.parametrize("function", [OfTwo, Twice, Identity, Whole])
@pytest.mark.parametrize("needs", [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_whatever_is_saved_and_needed(function, needs, dtype):
    if function is Whole and dtype == "complex128":
        return
    args = [mg.tensor([0.5, 2.0], dtype=dtype, requires_grad=need) for need in needs]
    same_both_ways(function, args)


def test_an_error_of_forward_is_told_in_the_same_words():
    def told():
        with pytest.raises(ValueError) as caught:
            OfTwo.apply(mg.ones(2), mg.ones(3))
        return str(caught.value)

    plain = told()
    with Doorway():
        assert told() == plain


def test_no_call_keeps_its_arguments_alive():
    x, w = mg.tensor([1.0], requires_grad=True), mg.tensor([2.0])
    y = OfTwo.apply(x * 1.0, w)
    array = weakref.ref(y.grad_fn.parents[0])
    dropped = weakref.ref(w.data)
    saved = y.grad_fn.saved
    assert any(value is w.data for value in saved)
    y.backward()
    del saved, w
    assert dropped() is None and array() is not None
