"""gradcheck, gradgradcheck and jvpcheck on functions of a user's own."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive
from minigrad.testing import GradcheckError, Inconclusive, gradcheck, gradgradcheck, jvpcheck
from minigrad.testing.plant import make

X = np.array([0.3, -1.2, 0.7, 2.1])
A = np.arange(12.0).reshape(3, 4) / 5 + 0.1


def wrong_cube() -> Primitive:
    """x³ whose second partial is 10 % off in the last place."""
    factor = np.array([1.0, 1.0, 1.0, 1.1])
    return make("cube", lambda x: x**3, {"x": lambda g, x: g * (3 * x * x * factor)}, {})


def test_a_right_gradient_gives_true():
    assert gradcheck(lambda a, x: (mg.exp(a) * x).sum(), (A, X)) is True


def test_a_function_may_differentiate_inside():
    def penalty(x):
        g = mg.grad((x**4).sum(), x, create_graph=True)
        return (g * g).sum()

    assert gradcheck(penalty, X)
    assert gradgradcheck(penalty, X)


def test_a_function_may_put_hooks_on_what_it_computes():
    def hooked(x):
        y = x * x
        y.register_hook(lambda g: g + 0.01)
        return y

    assert not gradcheck(hooked, X, raise_exception=False)


def test_a_result_whose_shape_depends_on_values_is_said_to_be_one():
    def doubled(x):
        return mg.concatenate([x, x]) if (x >= 1).all() else x

    with pytest.raises(GradcheckError, match="shapes depend on values"):
        gradcheck(doubled, np.ones(1))
    assert not gradcheck(doubled, np.ones(1), raise_exception=False)


def test_tensors_that_require_a_gradient_are_the_ones_checked():
    a = mg.tensor(A, requires_grad=True)
    x = mg.tensor(X)  # its gradient would be missing: fn detaches it
    assert gradcheck(lambda a, x: a * x.detach(), (a, x))


def test_float32_inputs_are_checked_in_double_precision():
    assert gradcheck(mg.exp, X.astype(np.float32))


def test_complex_inputs_are_checked_in_both_parts():
    assert gradcheck(lambda z: z * z * 2j, X + 1j)


def test_a_function_with_several_results_is_checked_in_each():
    assert gradcheck(lambda x: (mg.exp(x), [x * x]), X)


def test_large_inputs_are_checked_along_directions():
    assert gradcheck(lambda x: mg.exp(x), np.linspace(-1, 1, 5000))


def test_the_error_names_input_index_and_both_values():
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda a, x: wrong_cube()(x) + a * 0, (X, X))
    entry = caught.value.entry
    assert (entry.position, entry.index) == (1, (3,))
    assert entry.numeric == pytest.approx(3 * 2.1**2)
    assert entry.analytic == pytest.approx(3.3 * 2.1**2)
    assert "argument 1 (x1) at index [3]" in str(caught.value)


def test_the_wrong_entry_of_a_large_input_is_found_by_halving():
    factor = np.ones(5000)
    factor[4321] = 1.5
    cube = make("cube", lambda x: x**3, {"x": lambda g, x: g * (3 * x * x * factor)}, {})
    with pytest.raises(GradcheckError) as caught:
        gradcheck(cube, np.linspace(1, 2, 5000))
    assert caught.value.entry.index == (4321,)


def test_raise_exception_false_gives_false():
    assert gradcheck(wrong_cube(), X, raise_exception=False) is False


def test_a_rule_that_uses_the_last_call_s_argument_is_caught():
    last = []

    def forward(x):
        last[:] = [x]
        return np.sin(x)

    sine = make("sine", forward, {"x": lambda g, x: g * np.cos(last[0])}, {})
    with pytest.raises(GradcheckError, match="called again between its forward and its backward"):
        gradcheck(sine, X)


def test_a_rule_that_keeps_the_first_call_s_partial_is_caught():
    first = {}
    partial = lambda g, x: g * first.setdefault(x.shape, np.cos(x))
    with pytest.raises(GradcheckError, match="at a second point, after the first"):
        gradcheck(make("sine", np.sin, {"x": partial}, {}), X)


def test_a_function_with_a_memory_that_no_gradient_depends_on_is_right():
    calls = []
    assert gradcheck(lambda x: (calls.append(1), mg.exp(x))[1], X)


def test_the_second_point_keeps_the_sign_of_every_entry():
    signs = []

    def log_of_positive(x):
        signs.append((x.numpy() > 0).all())
        return mg.log(x)

    assert gradcheck(log_of_positive, np.array([0.1, 0.5, 30.0])) and all(signs)


def test_a_function_that_has_no_second_point_is_checked_at_the_first_alone():
    def at_whole_sizes(x):
        if not np.allclose(x.numpy(), X, atol=0.003):
            raise ValueError("elsewhere it is not defined")
        return mg.exp(x)

    assert gradcheck(at_whole_sizes, X)


def test_a_kink_at_the_sample_is_inconclusive():
    with pytest.raises(Inconclusive, match="kink"):
        gradcheck(mg.abs, np.array([1.0, 1e-5]))


def test_inputs_without_a_floating_dtype_are_an_error():
    with pytest.raises(ValueError, match="floating or complex"):
        gradcheck(lambda i: i, np.arange(3))


def test_a_detached_saved_value_passes_gradcheck_and_fails_gradgradcheck():
    cube = make(
        "cube",
        lambda x: x**3,
        {"x": lambda g, x: g * (3 * np.square(getattr(x, "data", x) if hasattr(x, "node") else x))},
        {},
    )
    assert gradcheck(cube, X)
    with pytest.raises(GradcheckError, match="gradgradcheck"):
        gradgradcheck(cube, X)


def test_right_second_derivatives_give_true():
    assert gradgradcheck(lambda a, x: mg.exp(a * x), (A, X))


def test_right_tangents_give_true():
    assert jvpcheck(lambda a, x: mg.exp(a * x), (A, X))


def test_a_wrong_jvp_rule_is_caught_by_jvpcheck_alone():
    sine = make("sine", np.sin, {"x": lambda g, x: g * np.cos(x)}, {})
    sine.jvp(lambda x_t, x: x_t * np.sin(x))
    assert gradcheck(sine, X)
    with pytest.raises(GradcheckError, match="forward mode"):
        jvpcheck(sine, X)


class Rule(mg.Function):
    """x², which knows how often it was pulled back."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.backwards = []
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        ctx.backwards.append(g)
        return 2 * x * g


def spoiled(change):
    """Rule with its gradient c changed to change(ctx, g, x, c)."""

    def backward(ctx, g):
        return change(ctx, g, ctx.saved_tensors[0], Rule.backward(ctx, g))

    return type("Spoiled", (Rule,), {"backward": staticmethod(backward)}).apply


def contiguous(x):
    return x.numpy().flags.c_contiguous


def written(g, c):
    c = c + 0
    g.numpy()[...] = 0
    return c


@pytest.mark.parametrize(
    "fault, change, words",
    [
        ("scattered cotangent", lambda ctx, g, x, c: c * (1 if contiguous(g) else 1.001),
         "for a cotangent in memory"),
        ("scattered input", lambda ctx, g, x, c: c * (1 if contiguous(x) else 1.001),
         "in memory Fortran order"),
        ("zero cotangent", lambda ctx, g, x, c: c if g.numpy().any() else c + np.nan,
         "a zero cotangent gives nan"),
        ("second backward", lambda ctx, g, x, c: c * (1 if len(ctx.backwards) == 1 else 1.001),
         "in a second backward"),
        ("writes", lambda ctx, g, x, c: written(g, c), "cotangent 0 in place"),
        ("single precision", lambda ctx, g, x, c: c.astype("float32"), "random direction"),
    ],
)  # fmt: skip
def test_a_rule_with_a_fault_that_finite_differences_do_not_see_is_caught(fault, change, words):
    with pytest.raises(GradcheckError, match=words):
        gradcheck(spoiled(change), np.linspace(0.1, 2, 500).reshape(10, 50))


class Product(mg.Function):
    """a·b, wrong where `wrong(ctx, a, b)` says so."""

    wrong = None

    @classmethod
    def where(cls, wrong):
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b * (1.001 if wrong(ctx, a, b) else 1), g * a

        return type("Product", (cls,), {"backward": staticmethod(backward)}).apply

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b


def test_a_rule_that_is_wrong_when_one_argument_alone_needs_a_gradient_is_caught():
    wrong = Product.where(lambda ctx, a, b: not all(ctx.needs_input_grad))
    with pytest.raises(GradcheckError, match="no other argument needs a gradient"):
        gradcheck(wrong, (A, A + 1))


def test_a_rule_that_is_wrong_when_its_arguments_are_one_tensor_is_caught():
    wrong = Product.where(lambda ctx, a, b: np.shares_memory(a.numpy(), b.numpy()))
    with pytest.raises(GradcheckError, match="are the same tensor"):
        gradcheck(wrong, (A, A + 1))


class Both(mg.Function):
    """2x and 3x; results that are not used have no cotangent."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, g, h):
        return 2 * g if h is None else 2 * g + 3 * h if g is not None else 2.9 * h


def test_a_rule_that_is_wrong_when_one_of_its_results_is_not_used_is_caught():
    with pytest.raises(GradcheckError, match=r"when no result but \[1\] is used"):
        gradcheck(Both.apply, X)


def test_a_function_that_sorts_its_argument_in_place_is_caught():
    def sorting(x):
        x.numpy().sort()
        return x * x

    with pytest.raises(GradcheckError, match="fn changes argument 0"):
        gradcheck(sorting, X)


def test_a_gradient_of_another_shape_is_a_gradcheck_error():
    flat = spoiled(lambda ctx, g, x, c: c.reshape(-1))
    with pytest.raises(GradcheckError, match="whose shape is"):
        gradcheck(flat, A)
    assert gradcheck(flat, A, raise_exception=False) is False


@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
def test_a_function_of_any_scale_is_held_to_the_same_digits(scale):
    def scaled(factor):
        rules = {"x": lambda g, x: g * (np.cos(x) * (scale * factor))}
        return make("scaled", lambda x: np.sin(x) * scale, rules, {})

    assert gradcheck(scaled(1), np.linspace(0.1, 1, 500))
    with pytest.raises(GradcheckError, match="finite differences give"):
        gradcheck(scaled(1.0001), np.linspace(0.1, 1, 500))


def test_arrays_without_elements_are_checked():
    assert gradcheck(mg.exp, np.zeros((0, 3)))
    assert gradcheck(lambda a, b: mg.concatenate([a, b]), (np.zeros((0, 4)), A))
    assert gradcheck(lambda x: x[:0], A)


def test_results_in_a_dict_are_checked():
    assert gradcheck(lambda x: {"a": x * 2, "b": mg.exp(x)}, X)
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: {"a": x * 2, "b": wrong_cube()(x)}, X)


def test_noise_is_inconclusive_in_forward_mode_too():
    rng = np.random.default_rng(0)
    with pytest.raises(Inconclusive, match="deterministic"):
        jvpcheck(lambda x: x * rng.random(4), X)


def test_no_direction_at_all_is_an_error():
    with pytest.raises(ValueError, match="directions=0"):
        gradcheck(mg.exp, X, directions=0)


def test_the_error_without_floating_inputs_says_what_was_given():
    with pytest.raises(ValueError, match=r"the inputs are int64 \(3,\), str"):
        gradcheck(lambda i, s: i, (np.arange(3), "x"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "fn, xs",
    [
        (lambda a, b: a / (a - b), (X, X + 0.5)),  # no value where a is b
        (lambda a, b: mg.maximum(a, b), (X, X + 0.5)),
        (lambda x, i: mg.sort(x)[i], (X, np.array([0, 0, 2]))),
        (lambda x: mg.linalg.inv(x), (np.vander([0.5, 1.0, 2.0]),)),
        (lambda x: mg.floor(x) * x, (X,)),
        (lambda x: mg.exp(x) * 1e200, (X,)),
        (lambda x, y: (x * 2, 3, None, mg.fft.fft(y)), (X, X)),
        (lambda z: abs(z), (X + 1j,)),
    ],
)
def test_right_functions_that_are_awkward_pass(fn, xs):
    assert gradcheck(fn, xs)


@pytest.mark.parametrize("inputs", [X, X.astype(np.float32)])
def test_a_rule_that_is_wrong_in_single_precision_alone_is_caught(inputs):
    def rule(g, x):
        return g * (2 * x) * (1.1 if x.dtype == np.float32 else 1.0)

    with pytest.raises(GradcheckError, match="in single precision the gradient of argument 0"):
        gradcheck(make("square", np.square, {"x": rule}, {}), inputs)


@pytest.mark.parametrize(
    "fn, inputs",
    [
        (lambda x: mg.sin(x) ** 2 + mg.cos(x) ** 2, X),
        (lambda a, b: (a + b - (a + b).mean(0)) / mg.std(a + b, axis=0) * A, (A * A, A[0] + 1000)),
        (lambda x: ((x + 1e5) - 1e5) ** 2, X),
        (lambda x: 1e-40 * mg.sin(x), X),
        (lambda x: mg.tensor(x.data.astype(np.float64)).sum() * 0 + x.sum(), X),
    ],
    ids=["gradient of zero", "cancelled offset", "lost value", "underflow", "mixed precision"],
)
def test_what_single_precision_rounds_away_is_no_wrong_rule(fn, inputs):
    assert gradcheck(fn, inputs)


@pytest.mark.parametrize(
    "where", [lambda g: (g == 1).all(), lambda g: g.max() > 1000, lambda g: g.max() < 1e-3]
)
def test_a_rule_that_is_wrong_for_cotangents_of_one_size_alone_is_caught(where):
    def rule(g, x):
        return g * np.cos(x) * (1.001 if g.any() and where(np.abs(g)) else 1.0)

    with pytest.raises(GradcheckError, match=r"for a cotangent (4096|2|0\.000244141) times as"):
        gradcheck(make("sine", np.sin, {"x": rule}, {}), X)


def test_a_rule_that_writes_again_what_it_has_returned_is_caught():
    kept = np.empty_like(X)

    def rule(g, x):
        return np.multiply(g, np.cos(x), out=kept) if isinstance(x, np.ndarray) else g * np.cos(x)

    with pytest.raises(GradcheckError, match=r"argument 0 \(x0\) is another where two calls lie"):
        gradcheck(make("sine", np.sin, {"x": rule}, {}), X)
