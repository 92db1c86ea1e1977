"""What a Function's forward saves while vmap runs it for one example after the other."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.errors import RuleError

pytestmark = [
    pytest.mark.promise(
        "a Function's forward that vmap runs for each example saves for each; an attribute of ctx"
        " that differs is refused"
    ),
    pytest.mark.filterwarnings("ignore::minigrad.func.VmapWarning"),
]
X = np.array([[0.1, 0.5], [0.9, -1.0], [-0.3, 2.0]])


class Swish(mg.Function):
    """x · sigmoid(x), of which the sigmoid is saved: neither an argument nor a result."""

    @staticmethod
    def forward(ctx, x):
        s = mg.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))

    @staticmethod
    def jvp(ctx, t):
        x, s = ctx.saved_tensors
        return t * (s + x * s * (1 - s))


def slope(x):
    s = 1 / (1 + np.exp(-x))
    return s + x * s * (1 - s)


def gradient(x):
    return mg.func.grad(lambda x: mg.sum(Swish.apply(x)))(x)


def test_each_example_has_what_its_own_run_has_saved():
    np.testing.assert_allclose(mg.func.vmap(gradient)(X).numpy(), slope(X), rtol=1e-12)


def test_so_it_is_in_vmap_of_vmap():
    found = mg.func.vmap(mg.func.vmap(gradient))(X).numpy()
    np.testing.assert_allclose(found, slope(X), rtol=1e-12)
    found = mg.func.vmap(mg.func.vmap(gradient), in_dims=1, out_dims=1)(X).numpy()
    np.testing.assert_allclose(found, slope(X), rtol=1e-12)


def test_so_it_is_with_the_gradient_between_two_vmaps():
    between = mg.func.grad(lambda x: mg.sum(mg.func.vmap(Swish.apply)(x)))
    np.testing.assert_allclose(mg.func.vmap(between)(X).numpy(), slope(X), rtol=1e-12)


def test_so_it_is_in_forward_mode():
    push = lambda x: mg.func.jvp(Swish.apply, (x,), (mg.ones(2),))[1]
    np.testing.assert_allclose(mg.func.vmap(push)(X).numpy(), slope(X), rtol=1e-12)


def test_so_it_is_with_a_backward_around_vmap():
    x = mg.tensor(X, requires_grad=True)
    mg.func.vmap(Swish.apply)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), slope(X), rtol=1e-12)


def kept(value):
    """A Function that sets ctx.kept = value(x)."""

    class Kept(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.kept = value(x)
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g * ctx.kept

    return lambda x: mg.func.grad(lambda x: mg.sum(Kept.apply(x)))(x)


def test_an_attribute_of_ctx_that_differs_from_example_to_example_is_refused():
    for value in (lambda x: float(x[0]), lambda x: mg.sin(x), lambda x: [np.sin(x.numpy())]):
        with pytest.raises(RuleError, match=r"ctx\.kept to another value"):
            mg.func.vmap(kept(value))(X)


def test_one_that_is_the_same_for_all_is_a_constant():
    found = mg.func.vmap(kept(lambda x: x.shape[0]))(X).numpy()
    np.testing.assert_array_equal(found, np.full_like(X, 2))


def test_arrays_of_other_shapes_for_other_examples_are_refused():
    class Positive(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, mg.tensor(x.numpy()[x.numpy() > 0]))
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuleError, match="other shapes"):
        mg.func.vmap(mg.func.grad(lambda x: mg.sum(Positive.apply(x))))(X)
