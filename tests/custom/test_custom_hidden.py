"""mg.Function: a second derivative is never 0 for what the graph does not show; true constants are.

Every class below computes eˣ + 1 and has the right first derivative.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.errors import RuleError
from minigrad.testing import gradgradcheck

pytestmark = pytest.mark.promise(
    "a Function is an op like any other, and a fast call gives the doorway's results. A "
    "second derivative that it lacks raises, also where no graph shows it"
)

LEFT = {}


class Base(mg.Function):
    @staticmethod
    def forward(ctx, x):
        return np.exp(x) + 1.0


class AsATensor(Base):
    @staticmethod
    def forward(ctx, x):
        ctx.e = mg.exp(x)
        return ctx.e + 1.0

    @staticmethod
    def backward(ctx, g):
        return g * ctx.e


class AsAnArray(AsATensor):
    @staticmethod
    def forward(ctx, x):
        ctx.e = np.exp(x.numpy())
        return mg.tensor(ctx.e + 1.0)


class AsTheResultsArray(Base):
    @staticmethod
    def forward(ctx, x):
        y = np.exp(x) + 1.0
        ctx.y = y.numpy()
        return y

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.y - 1.0)


class AsACopyOfTheArgument(Base):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach().copy()
        return np.exp(x) + 1.0

    @staticmethod
    def backward(ctx, g):
        return g * np.exp(ctx.x)


class AsANumber(Base):
    @staticmethod
    def forward(ctx, x):
        ctx.e = np.exp(x).item()
        return np.exp(x) + 1.0

    @staticmethod
    def backward(ctx, g):
        return g * ctx.e


class InContainers(Base):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = [3, {"e": [(np.exp(x.numpy()),)]}]
        return np.exp(x) + 1.0

    @staticmethod
    def backward(ctx, g):
        return g * mg.tensor(ctx.kept[1]["e"][0][0])


class Kept:
    def __init__(self, e):
        self.e = e


class InAnObject(Base):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = Kept(mg.exp(x))
        return ctx.kept.e + 1.0

    @staticmethod
    def backward(ctx, g):
        return g * ctx.kept.e


class BySetup(Base):
    @staticmethod
    def forward(x):
        return np.exp(x) + 1.0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.e = (output - 1.0).numpy()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.e


class InAGlobal(Base):
    @staticmethod
    def forward(ctx, x):
        LEFT["e"] = np.exp(x.numpy())
        return np.exp(x) + 1.0

    @staticmethod
    def backward(ctx, g):
        return g * LEFT["e"]


class InTheClass(Base):
    @staticmethod
    def forward(ctx, x):
        InTheClass.e = mg.exp(x)
        return InTheClass.e + 1.0

    @staticmethod
    def backward(ctx, g):
        return g * InTheClass.e


class InTheClassByAMethod(Base):
    @classmethod
    def forward(cls, ctx, x):
        cls.e = np.exp(x.numpy())
        return np.exp(x) + 1.0

    @classmethod
    def backward(cls, ctx, g):
        return g * cls.e


class InADefault(Base):
    kept: dict = {}

    @staticmethod
    def forward(ctx, x, kept=kept):
        kept["e"] = np.exp(x.numpy())
        return np.exp(x) + 1.0

    @staticmethod
    def backward(ctx, g, kept=kept):
        return g * kept["e"]


class AsAConstantResult(Base):
    """Also a result, marked as one without a gradient."""

    @staticmethod
    def forward(ctx, x):
        e = np.exp(x)
        ctx.mark_non_differentiable(e)
        ctx.save_for_backward(e)
        return e + 1.0, e

    @staticmethod
    def backward(ctx, g, _):
        (e,) = ctx.saved_tensors
        return g * e


class PartlyShown(Base):
    """eˣ = eˣᐟ² eˣᐟ², one factor from the saved argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.half = np.exp(x.numpy() / 2.0)
        return np.exp(x) + 1.0

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * np.exp(x / 2.0) * ctx.half


def in_a_closure():
    e = None

    class InAClosure(Base):
        @staticmethod
        def forward(ctx, x):
            nonlocal e
            e = np.exp(x.numpy())
            return np.exp(x) + 1.0

        @staticmethod
        def backward(ctx, g):
            return g * e

    return InAClosure


def in_an_object_of_a_closure():
    kept = Kept(None)

    class InAnObjectOfAClosure(Base):
        @staticmethod
        def forward(ctx, x):
            kept.e = mg.exp(x)
            return kept.e + 1.0

        @staticmethod
        def backward(ctx, g):
            return g * kept.e

    return InAnObjectOfAClosure


def of_a_value_from_before(x):
    """What backward reads was made of x before the call, so that forward leaves nothing."""
    e = np.exp(x)

    class FromBefore(Base):
        @staticmethod
        def backward(ctx, g):
            return g * e

    return FromBefore


CLASSES = [
    AsATensor, AsAnArray, AsTheResultsArray, AsACopyOfTheArgument, AsANumber, InContainers,
    InAnObject, BySetup, InAGlobal, InTheClass, InTheClassByAMethod, InADefault,
    AsAConstantResult, PartlyShown, in_a_closure(), in_an_object_of_a_closure(),
    of_a_value_from_before(0.5),
]  # fmt: skip
every_class = pytest.mark.parametrize("function", CLASSES, ids=lambda f: f.__name__)


def applied(function, x):
    y = function.apply(x)
    return y[0] if isinstance(y, tuple) else y


@every_class
def test_the_first_derivative_is_what_backward_returns(function):
    x = mg.tensor([0.5], requires_grad=True)
    applied(function, x).backward()
    np.testing.assert_allclose(x.grad, np.exp([0.5]), rtol=1e-12)


@every_class
@pytest.mark.parametrize("alive", [True, False])
def test_the_second_is_an_error_in_place_of_a_silent_zero(function, alive):
    x = mg.tensor([0.5], requires_grad=True)
    y = applied(function, x if alive else x * 1.0)  # an argument that nobody else refers to
    (g,) = mg.grad(y, [x], create_graph=True)
    np.testing.assert_allclose(g.detach(), np.exp([0.5]), rtol=1e-12)
    with pytest.raises(RuleError, match=f"{function.__name__}.backward cannot be differentiated"):
        mg.grad(g, [x])


@every_class
@pytest.mark.parametrize(
    "second",
    [
        lambda f: func.grad(func.grad(f)),
        lambda f: func.jacfwd(func.grad(f)),
        lambda f: func.grad(lambda x: mg.tensor(1.0) * func.jvp(f, (x,), (mg.tensor(1.0),))[1]),
    ],
    ids=["grad of grad", "jacfwd of grad", "grad of jvp"],
)
def test_so_it_is_in_transforms(function, second):
    with pytest.raises(RuleError, match="cannot be differentiated"):
        second(lambda x: applied(function, x))(mg.tensor(0.5))


@every_class
def test_the_dependence_on_the_cotangent_stays(function):
    x = mg.tensor([0.5], requires_grad=True)
    w = mg.ones(*x.shape).requires_grad_()
    (g,) = mg.grad((applied(function, x) * w).sum(), [x], create_graph=True)
    np.testing.assert_allclose(mg.grad(g.sum(), w), np.exp(x.detach().numpy()), rtol=1e-12)


def test_a_jvp_that_reads_what_no_graph_shows_is_not_differentiated_in_silence():
    class Pushed(AsAnArray):
        @staticmethod
        def jvp(ctx, t):
            return t * ctx.e

    x, t = mg.tensor(0.5), mg.tensor(1.0)
    assert func.jvp(Pushed.apply, (x,), (t,))[1].item() == np.exp(0.5)
    with pytest.raises(RuleError, match="Pushed.jvp cannot be differentiated"):
        func.grad(lambda x: func.jvp(Pushed.apply, (x,), (t,))[1])(x)


def test_arguments_that_choose_what_the_class_does_are_tried_apart():
    class Chosen(mg.Function):
        @staticmethod
        def forward(ctx, x, kind):
            ctx.e = np.exp(x.numpy()) if kind == "exp" else np.ones(x.shape)
            return np.exp(x) if kind == "exp" else x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g * ctx.e, None

    def second(kind):
        x = mg.tensor([0.5], requires_grad=True)
        (g,) = mg.grad((Chosen.apply(x, kind) ** 2).sum(), [x], create_graph=True)
        return mg.grad(g, [x])[0].tolist()

    assert second("linear") == [2.0]
    with pytest.raises(RuleError, match="cannot be differentiated"):
        second("exp")
    assert second("linear") == [2.0]


# -- constants are constants -----------------------------------------------------------------------

WINDOW = np.array([0.25, 0.5, 0.25])


class Mask(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = (x.numpy() > 0).astype(x.dtype)
        return x * ctx.mask

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask


class Dropout(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = (mg.rand(*x.shape) > 0.5).astype(x.dtype) * 2.0
        return x * ctx.mask

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask


class DropoutOfNumPys(Dropout):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = np.random.random(x.shape) * 2.0
        return x * ctx.mask


GENERATOR = np.random.default_rng(0)


class DropoutOfAGenerator(Dropout):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = GENERATOR.random(x.shape) * 2.0
        return x * ctx.mask


class Window(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.window = np.ones(3) / 3
        return x * ctx.window * WINDOW

    @staticmethod
    def backward(ctx, g):
        return g * ctx.window * WINDOW


class Rounded(mg.Function):
    """Straight through."""

    @staticmethod
    def forward(ctx, x):
        ctx.step = 0.25
        return np.round(x / ctx.step) * ctx.step

    @staticmethod
    def backward(ctx, g):
        ctx.seen = WINDOW
        return g


class Scaled(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = x.shape[-1] ** -0.5
        return x * ctx.scale

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale


class Reversed(mg.Function):
    @staticmethod
    def forward(ctx, x):
        return x.copy()

    @staticmethod
    def backward(ctx, g):
        return -g


@pytest.mark.parametrize(
    "function",
    [Mask, Dropout, DropoutOfNumPys, DropoutOfAGenerator, Window, Rounded, Scaled, Reversed],
)
@pytest.mark.parametrize("values", [[0.5, -1.0, 2.0], [0.0, 0.0, 0.0], [1e-9, -1e-9, 3e8]])
def test_a_constant_on_ctx_or_outside_is_one_to_the_second_derivative(function, values):
    x = mg.tensor(values, requires_grad=True)
    w = mg.ones(3).requires_grad_()
    state, numpys = mg.get_rng_state(), np.random.get_state()[1].copy()
    (g,) = mg.grad((function.apply(x * 1.0) ** 2 * w).sum(), [x], create_graph=True)
    mg.grad(g.sum(), [x, w])
    if function is not Dropout:
        assert mg.get_rng_state() == state
    if function is not DropoutOfNumPys:
        assert np.array_equal(np.random.get_state()[1], numpys)


def test_a_class_with_the_right_second_derivative_has_it_beside_constants():
    class Power(mg.Function):
        @staticmethod
        def forward(ctx, x, n, scale):
            ctx.save_for_backward(x)
            ctx.n, ctx.scale, ctx.window = n, scale, WINDOW
            return x**n * scale * mg.tensor(WINDOW)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.n * x ** (ctx.n - 1) * ctx.scale * ctx.window, None, None

    assert gradgradcheck(lambda x: Power.apply(x, 3, np.array([1.0, 2.0, 3.0])), (WINDOW,))


def test_the_trial_is_made_once_for_a_class_and_leaves_the_arguments_alone():
    runs = []

    class Counted(Mask):
        @staticmethod
        def forward(ctx, x):
            runs.append(x.numpy().copy())
            return Mask.forward(ctx, x)

    def second(x):
        (g,) = mg.grad((Counted.apply(x) ** 2).sum(), [x], create_graph=True)
        return mg.grad(g.sum(), [x])[0].tolist()

    x = mg.tensor([1.0, -2.0], requires_grad=True)
    assert second(x) == [2.0, 0.0] and x.tolist() == [1.0, -2.0]
    tried = len(runs)
    assert tried > 1 and second(x) == [2.0, 0.0] and len(runs) == tried + 1
    runs.clear()
    Counted.apply(x).sum().backward()
    assert len(runs) == 1  # a first derivative needs no trial


def test_a_stack_that_forward_pushes_and_backward_pops_is_left_as_it_was():
    stack = []

    class Pushed(Base):
        @staticmethod
        def forward(ctx, x):
            stack.append(np.exp(x.numpy()))
            return np.exp(x) + 1.0

        @staticmethod
        def backward(ctx, g):
            return g * stack.pop()

    a, b = (mg.tensor([value], requires_grad=True) for value in (0.5, 1.0))
    y = Pushed.apply(a), Pushed.apply(b)
    gb = mg.grad(y[1], b, create_graph=True)
    ga = mg.grad(y[0], a, create_graph=True)
    assert [ga.item(), gb.item()] == [np.exp(0.5), np.exp(1.0)] and stack == []
    with pytest.raises(RuleError, match="cannot be differentiated"):
        ga.backward()


def test_a_plain_class_is_never_tried():
    runs = []

    class Square(mg.Function):
        @staticmethod
        def forward(ctx, x):
            runs.append(1)
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = mg.tensor([1.0], requires_grad=True)
    (g,) = mg.grad(Square.apply(x), [x], create_graph=True)
    assert mg.grad(g, [x])[0].tolist() == [2.0] and len(runs) == 1
