"""mg.Function: ops as classes go through the same doorway and keep every promise of an op."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.errors import RuleError
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise(
    "a Function is an op like any other, and a fast call gives the doorway's results. A "
    "second derivative that it lacks raises, also where no graph shows it"
)


class Square(mg.Function):
    """y = x²"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Exp(mg.Function):
    @staticmethod
    def forward(x):
        return np.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return t * y

    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == x.shape[0] and in_dims == (0,)
        return Exp.apply(x), 0


class SumAndProduct(mg.Function):
    @staticmethod
    def forward(ctx, a, b, scale, label="sum"):
        ctx.save_for_backward(a, None, b)
        ctx.scale = scale
        return (a + b) * scale, a * b

    @staticmethod
    def backward(ctx, g_sum, g_product):
        a, nothing, b = ctx.saved_tensors
        assert nothing is None
        return g_sum * ctx.scale + g_product * b, g_sum * ctx.scale + g_product * a, None, None


def leaf(*values):
    return mg.tensor(list(values), dtype=mg.float64, requires_grad=True)


def test_the_gradient_is_the_one_that_backward_returns():
    x = leaf(1, 2, 3)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


@pytest.mark.parametrize("fn", [Square.apply, Exp.apply])
def test_gradcheck_works_to_second_order(fn):
    x = leaf(0.3, -1.2, 2.0)
    gradcheck(fn, (x,))
    gradgradcheck(fn, (x,))


def test_several_results_and_arguments_that_are_no_tensors():
    a, b = leaf(1, 2), leaf(3, 4)
    total, product = SumAndProduct.apply(a, b, 10.0, "name")
    assert total.tolist() == [40, 60] and product.tolist() == [3, 8]
    (total + product).sum().backward()
    assert a.grad.tolist() == [13, 14] and b.grad.tolist() == [11, 12]


def test_a_result_that_is_not_used_has_cotangent_zero():
    a, b = leaf(1, 2), leaf(3, 4)
    SumAndProduct.apply(a, b, 10.0)[1].sum().backward()
    assert a.grad.tolist() == [3, 4]


def test_without_materialized_gradients_it_is_none():
    seen = []

    class Both(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x + 1, x + 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append(a)
            return b

    Both.apply(leaf(1))[1].sum().backward()
    assert seen == [None]


def test_second_and_third_derivatives_come_from_the_same_backward():
    x = leaf(0.5)
    (g1,) = mg.grad(Square.apply(x) * x, [x], create_graph=True)
    (g2,) = mg.grad(g1, [x], create_graph=True)
    (g3,) = mg.grad(g2, [x])
    assert [g1.item(), g2.item(), g3.item()] == [3 * 0.25, 6 * 0.5, 6]
    (h1,) = mg.grad(Exp.apply(x), [x], create_graph=True)  # through its saved result
    (h2,) = mg.grad(h1, [x])
    assert h1.item() == h2.item() == np.exp(0.5)


def test_an_attribute_that_is_an_argument_is_linked_to_the_graph_too():
    class Cube(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.x**2 * g

    x = leaf(2)
    (g,) = mg.grad(Cube.apply(x), [x], create_graph=True)
    assert mg.grad(g, [x])[0].item() == 12


@pytest.mark.parametrize(
    ("keep", "take"),
    [
        (lambda x, y: [x, y], lambda kept: kept),
        (lambda x, y: (3, (x, [y])), lambda kept: (kept[1][0], kept[1][1][0])),
        (lambda x, y: {"x": x, "y": y}, lambda kept: (kept["x"], kept["y"])),
    ],
)
def test_arguments_and_results_in_a_container_on_ctx_are_linked_too(keep, take):
    class XExp(mg.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * np.exp(x)
            ctx.kept = keep(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = take(ctx.kept)
            return g * (y / x + y)

    x = leaf(0.5)
    assert gradcheck(XExp.apply, (x,)) and gradgradcheck(XExp.apply, (x,))


def test_a_graph_recorded_inside_the_forward_stays_on_ctx():
    class Cube(mg.Function):
        @staticmethod
        def forward(ctx, x):
            with mg.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x**3
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            with mg.enable_grad():
                return mg.grad(ctx.y, ctx.x, g)

    x = leaf(2)
    Cube.apply(x).backward()
    assert x.grad.item() == 12


def test_only_gradients_that_are_needed_are_asked_for():
    class Product(mg.Function):
        @staticmethod
        def forward(ctx, a, b):
            forward_needs.append(ctx.needs_input_grad)
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            backward_needs.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return g * b, None

    forward_needs, backward_needs = [], []
    a, b = leaf(2), mg.tensor([3.0])
    Product.apply(a, b).backward()
    with mg.no_grad():
        assert not Product.apply(a, b).requires_grad
    assert a.grad.item() == 3
    assert backward_needs == [(True, False)]
    assert forward_needs == [(True, False), (False, False)]


def test_transforms_compose_with_a_function():
    def plain(x):
        return (x * x * np.exp(x)).sum()

    def ours(x):
        return (Square.apply(x) * Exp.apply(x)).sum()

    x, t = mg.tensor([0.3, -0.7]), mg.tensor([1.0, 2.0])
    for transform in (
        lambda f: func.grad(f)(x),
        lambda f: func.hessian(f)(x),
        lambda f: func.jvp(f, (x,), (t,))[1],
        lambda f: func.vjp(f, x)[1](mg.tensor(2.0))[0],
        lambda f: func.jvp(func.grad(f), (x,), (t,))[1],
        lambda f: func.grad(lambda x: func.jvp(f, (x,), (t,))[1])(x),
        lambda f: func.grad(lambda x: func.grad(f)(x).sum())(x),
    ):
        np.testing.assert_allclose(transform(ours).numpy(), transform(plain).numpy(), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::minigrad.func.VmapWarning")
def test_vmap_runs_a_function_by_its_own_rule_or_one_by_one():
    x = mg.tensor(np.arange(6.0).reshape(3, 2))
    assert func.vmap(Exp.apply)(x).tolist() == np.exp(x).tolist()
    per_example = func.vmap(func.grad(lambda x: (Square.apply(x) * Exp.apply(x)).sum()))(x)
    expected = (2 * x + x * x) * np.exp(x)
    np.testing.assert_allclose(per_example.numpy(), expected.numpy())
    both = func.vmap(lambda a, b: SumAndProduct.apply(a, b, 2.0)[1], in_axes=(0, None))
    assert both(x, mg.tensor([1.0, 2.0])).tolist() == [[0, 2], [2, 6], [4, 10]]


def test_a_backward_marked_once_differentiable_raises_in_the_second():
    class Foreign(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @mg.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return mg.tensor(3 * x.numpy() ** 2) * g

    x = leaf(2)
    (g,) = mg.grad(Foreign.apply(x), [x], create_graph=True)
    assert g.item() == 12 and g.requires_grad
    with pytest.raises(RuleError, match="Foreign.backward cannot be differentiated"):
        g.backward()
    for second in (
        lambda f: func.grad(lambda x: func.grad(f)(x).sum())(x),
        lambda f: func.jvp(func.grad(f), (x,), (x,)),
        lambda f: func.jvp(f, (x,), (x,)),
        lambda f: func.linearize(f, x)[1](x),
    ):
        with pytest.raises(RuleError, match="cannot be differentiated"):
            second(lambda x: Foreign.apply(x).sum())


class HiddenExp(mg.Function):
    """Saves what is neither an argument nor a result."""

    @staticmethod
    def forward(ctx, x):
        e = np.exp(x)
        ctx.save_for_backward(e)
        return e + 1

    @staticmethod
    def backward(ctx, g):
        (e,) = ctx.saved_tensors
        return g * e


def test_a_saved_intermediate_is_never_taken_for_a_constant():
    x = leaf(1)
    HiddenExp.apply(x).backward()
    assert x.grad.item() == np.e
    (g,) = mg.grad(HiddenExp.apply(x), [x], create_graph=True)
    assert g.item() == np.e
    with pytest.raises(RuleError, match="neither an argument nor a result"):
        g.backward()
    with pytest.raises(RuleError, match="neither an argument nor a result"):
        func.hessian(lambda x: HiddenExp.apply(x).sum())(x)


def test_what_no_graph_shows_does_not_hide_the_cotangent():
    x, t = mg.tensor([1.0, 2.0]), mg.tensor([3.0, -1.0])
    expected = np.exp(x.numpy()) * t.numpy()
    np.testing.assert_allclose(func.jvp(HiddenExp.apply, (x,), (t,))[1].numpy(), expected)
    np.testing.assert_allclose(func.linearize(HiddenExp.apply, x)[1](t).numpy(), expected)
    w, x = leaf(3, -1), leaf(1, 2)
    (g,) = mg.grad((HiddenExp.apply(x) * w).sum(), [x], create_graph=True)
    np.testing.assert_allclose(mg.grad(g.sum(), w).numpy(), np.exp(x.detach().numpy()))


def test_a_saved_mask_may_be_differentiated_past():
    class Relu(mg.Function):
        @staticmethod
        def forward(ctx, x):
            mask = x > 0
            ctx.save_for_backward(mask, x)
            return mg.where(mask, x * x, 0.0)

        @staticmethod
        def backward(ctx, g):
            mask, x = ctx.saved_tensors
            return mg.where(mask, 2 * x * g, 0.0)

    gradgradcheck(Relu.apply, (leaf(-1, 2, 3),))


def test_a_class_without_backward_is_an_error_not_a_zero():
    class Mute(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

    x = leaf(1)
    y = Mute.apply(x)
    with pytest.raises(RuleError, match="Mute has no backward: give it a static method"):
        y.backward()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda g: (g, g, g, g, g),
            r"returned 5 gradients; it must return 4.*\(a, b, scale, label\)",
        ),
        (lambda g: g, "returned 1 gradients"),
        (lambda g: (g, g, g, None), "for 'scale', which is not a tensor; return None"),
        (lambda g: (g.sum(), g, None, None), r"as the gradient of 'a', whose shape is \(2,\)"),
        (lambda g: (mg.ones(3), g, None, None), r"\(3,\) as the gradient of 'a', whose .* \(2,\)"),
        (lambda g: ("no", g, None, None), "a gradient has its argument's shape, or one that"),
    ],
)
def test_wrong_gradients_are_refused_by_name(returned, message):
    class Wrong(SumAndProduct):
        @staticmethod
        def backward(ctx, g, _):
            return returned(g)

    a, b = leaf(1, 2), leaf(3, 4)
    total, _ = Wrong.apply(a, b, 1.0, "name")
    with pytest.raises(RuleError, match=message):
        total.sum().backward()
    assert a.grad is None and b.grad is None


def test_none_is_no_gradient():
    class Stop(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(1)
    assert mg.grad(Stop.apply(x), [x], allow_unused=True) == (None,)


def test_results_that_are_marked_or_integers_are_constants():
    class MaxWithIndex(mg.Function):
        @staticmethod
        def forward(ctx, x):
            rounded = mg.round(x)
            ctx.mark_non_differentiable(rounded)
            return x.max(), x.argmax(), rounded

        @staticmethod
        def backward(ctx, g, _, __):
            return mg.tensor([0.0, 1.0]) * g

    x = leaf(1, 2)
    top, index, rounded = MaxWithIndex.apply(x)
    assert (top.requires_grad, index.requires_grad, rounded.requires_grad) == (True, False, False)
    top.backward()
    assert x.grad.tolist() == [0, 1]
    inside = func.grad(lambda x: MaxWithIndex.apply(x)[0])(x)
    assert inside.tolist() == [0, 1]


def test_a_function_called_like_a_layer_is_told_to_apply():
    class Twice(mg.Function):
        forward = staticmethod(lambda ctx, x: 2 * x)

    with pytest.raises(TypeError, match=r"Twice is not instantiated; call it with \.apply\("):
        Twice(mg.ones(3))
