"""mg.Function: what its forward returns beside tensors is passed through."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.errors import RuleError


class Parts(mg.Function):
    """Products and squares, with things among them that are not tensors."""

    @staticmethod
    def forward(ctx, x, label):
        ctx.save_for_backward(x)
        return None, 3 * x, label, 0.5, x * x, {"count": 2}

    @staticmethod
    def backward(ctx, *gs):
        assert [g is None for g in gs] == [True, False, True, True, False, True]
        (x,) = ctx.saved_tensors
        return 3 * gs[1] + 2 * x * gs[4], None


class PartsBySetup(Parts):
    @staticmethod
    def forward(x, label):
        return None, 3 * x, label, 0.5, x * x, {"count": 2}

    @staticmethod
    def setup_context(ctx, inputs, output):
        assert len(output) == 6 and output[2] is inputs[1]
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def jvp(ctx, t, label):
        (x,) = ctx.saved_tensors
        return None, 3 * t, None, None, 2 * x * t, None


X = np.array([1.0, 2.0])


@pytest.mark.parametrize("function", [Parts, PartsBySetup])
def test_what_is_no_tensor_is_passed_through_in_its_place(function):
    label = object()
    nothing, triple, same, half, square, info = function.apply(mg.tensor(X), label)
    assert nothing is None and same is label and half == 0.5 and info == {"count": 2}
    np.testing.assert_array_equal(triple.numpy(), 3 * X)
    np.testing.assert_array_equal(square.numpy(), X * X)


@pytest.mark.parametrize("function", [Parts, PartsBySetup])
def test_backward_gets_none_for_it_and_zeros_for_a_tensor_not_used(function):
    x = mg.tensor(X, requires_grad=True)
    _, triple, *_, square, _ = function.apply(x, "label")
    np.testing.assert_array_equal(mg.grad(triple.sum(), x, retain_graph=True), [3.0, 3.0])
    np.testing.assert_array_equal(mg.grad(triple.sum() + square.sum(), x), 3 + 2 * X)


@pytest.mark.parametrize("function", [Parts, PartsBySetup])
def test_transforms_compose_with_it(function):
    f = lambda x: (function.apply(x, "label")[4] ** 2).sum()
    np.testing.assert_allclose(func.jvp(f, (X,), (np.ones(2),))[1], (4 * X**3).sum())
    np.testing.assert_allclose(func.hessian(f)(X), np.diag(12 * X**2))


def test_under_vmap_it_must_be_the_same_for_every_example():
    labels = iter("aab")

    class Labelled(Parts):
        @staticmethod
        def forward(ctx, x):
            return x * 2, next(labels)

    def f(x):
        y, label = Labelled.apply(x)
        assert label == "a"
        return y

    with pytest.warns(UserWarning, match="Labelled has no batch rule.* a static method vmap"):
        np.testing.assert_array_equal(func.vmap(f)(np.ones((2, 2))), np.full((2, 2), 2.0))
        labels = iter("ab")
        with pytest.raises(RuleError, match="{1: 'b'} for one example of vmap and {1: 'a'}"):
            func.vmap(f)(np.ones((2, 2)))


def test_a_vmap_of_the_class_passes_it_through_too():
    class Doubled(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "doubled"

        @staticmethod
        def vmap(info, in_dims, x):
            return (x * 2, "doubled"), (0, None)

    def f(x):
        y, label = Doubled.apply(x)
        assert label == "doubled"
        return y

    np.testing.assert_array_equal(func.vmap(f)(np.ones((3, 2))), np.full((3, 2), 2.0))


@pytest.mark.parametrize("randomness", ["error", "different", "same"])
def test_a_vmap_of_the_class_is_told_what_its_own_vmap_says_of_draws(randomness):
    told = []

    class Told(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def vmap(info, in_dims, x):
            told.append((info.batch_size, info.randomness))
            return x * 1, 0

    func.vmap(Told.apply, randomness=randomness)(np.ones((3, 2)))
    inside = lambda x: func.vmap(lambda y: y + Told.apply(x), randomness="same")(np.ones(2))
    func.vmap(inside, randomness=randomness)(np.ones((3, 2)))
    assert told == [(3, randomness)] * 2


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda x: x, r"must return \(results, out_dims\), it returned float64 \(3, 2\)"),
        (lambda x: (x, 1), r"float64 \(3, 2\) with out_dims 1; .* that counts the 3 examples"),
        (lambda x: (x, 2), "out_dims 2; it must be the axis"),
        (lambda x: (x, "a"), "out_dims 'a'; it must be the axis"),
        (lambda x: (x, (0,)), r"out_dims \(0,\); it must be the axis"),
        (lambda x: ((x, x), (0,)), r"2 results and out_dims=\(0,\), .* one for each"),
        (lambda x: (2.0, 0), "must return tensors, it returned 2.0"),
    ],
)
def test_a_vmap_of_the_class_that_returns_a_batch_in_no_known_place_is_an_error(returned, message):
    class Wrong(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def vmap(info, in_dims, x):
            return returned(x)

    with pytest.raises(RuleError, match=message):
        func.vmap(Wrong.apply)(np.ones((3, 2)))


def returning(result):
    class Returning(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return result(x)

    return Returning


@pytest.mark.parametrize("result", [lambda x: 3.0, lambda x: None, lambda x: ("a", 1)])
def test_a_forward_without_a_tensor_among_its_results_is_refused(result):
    with pytest.raises(TypeError, match="no result is a tensor: nothing could be differentiated"):
        returning(result).apply(mg.tensor(X))


def test_tensors_inside_a_list_would_get_no_gradient_and_are_refused():
    with pytest.raises(TypeError, match="a list that holds tensors as result 1; .* one by one"):
        returning(lambda x: (x * 2, [x * 3])).apply(mg.tensor(X))


class Power(mg.Function):
    @staticmethod
    def forward(x, n=3):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.n * x ** (ctx.n - 1), None


class PowerByClass(Power):
    @classmethod
    def forward(cls, x, n=3):
        return x**n

    @classmethod
    def setup_context(cls, ctx, inputs, output):
        Power.setup_context(ctx, inputs, output)

    @classmethod
    def backward(cls, ctx, g):
        return Power.backward(ctx, g)


@pytest.mark.parametrize("function", [Power, PowerByClass])
def test_setup_context_sees_the_defaults_of_what_was_left_out(function):
    x = mg.tensor(X, requires_grad=True)
    np.testing.assert_array_equal(mg.grad(function.apply(x).sum(), x), 3 * X**2)
    np.testing.assert_array_equal(mg.grad(function.apply(x, 2).sum(), x), 2 * X)


class Weighted(mg.Function):
    """x times w, and w again as a constant."""

    @staticmethod
    def forward(ctx, count, x, w):
        ctx.save_for_backward(x, w)
        again = w.copy()
        ctx.mark_non_differentiable(again)
        return count * x * w, again

    @staticmethod
    def jvp(ctx, count, t, w_t):
        x, w = ctx.saved_tensors
        assert count is None
        return 2 * (t * w + x * w_t), None


def test_the_tangent_of_a_tensor_that_has_none_is_zeros_in_jvp():
    y, t = func.jvp(lambda x: Weighted.apply(2, x, mg.tensor(X))[0], (X,), (np.ones(2),))
    np.testing.assert_array_equal(t.numpy(), 2 * X)
    y, t = func.jvp(lambda w: Weighted.apply(2, mg.tensor(X), w)[0], (X,), (np.ones(2),))
    np.testing.assert_array_equal(t.numpy(), 2 * X)


def test_without_materialized_gradients_it_is_none():
    class Bare(Weighted):
        @staticmethod
        def forward(ctx, count, x, w):
            ctx.set_materialize_grads(False)
            return Weighted.forward(ctx, count, x, w)

        @staticmethod
        def jvp(ctx, count, t, w_t):
            assert w_t is None
            return t, None

    func.jvp(lambda x: Bare.apply(2, x, mg.tensor(X))[0], (X,), (np.ones(2),))


def test_a_result_that_is_a_constant_has_no_tangent():
    class Moving(Weighted):
        @staticmethod
        def jvp(ctx, count, t, w_t):
            return t, w_t

    assert func.jvp(lambda w: Weighted.apply(2, w, w)[1], (X,), (X,))[1].tolist() == [0, 0]
    with pytest.raises(RuleError, match="a tangent for a result that is a constant"):
        func.jvp(lambda w: Moving.apply(2, w, w)[1], (X,), (X,))


def test_a_tangent_for_every_result_is_asked_of_jvp():
    class TooFew(PartsBySetup):
        @staticmethod
        def jvp(ctx, t, label):
            return 3 * t, 2 * t

    f = lambda x: TooFew.apply(x, "label")[1]
    with pytest.raises(
        RuleError, match="2 tangents for 6 results; .* None for a result that is no tensor"
    ):
        func.jvp(f, (X,), (np.ones(2),))
