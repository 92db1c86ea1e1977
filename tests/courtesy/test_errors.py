"""What an error says of the call that failed, for functions made of ops as for ops themselves."""

import inspect
import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, samples
from minigrad.testing.spec import specs

pytestmark = pytest.mark.promise(
    "an error shows the call, of an op or of a function made of ops, and stays of its class"
)

X = mg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def message(call, kind):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def with_an_axis():
    """(function, a call's arguments) of every function of mg that runs along an axis."""
    assert samples
    for name, spec in specs.items():
        function = getattr(mg, name, None)
        if callable(function) and "axis" in inspect.signature(function).parameters:
            sample = next(iter(spec.samples(np.random.default_rng(0), np.dtype("float64"))))
            params = {**sample.params, "axis": "north"}
            names = [*inspect.signature(function).parameters]
            if "axis" not in names[: len(sample.args)]:
                yield pytest.param(function, sample.args, params, id=name)


@pytest.mark.parametrize(("function", "args", "params"), [*with_an_axis()])
def test_an_axis_that_is_none_shows_the_call(function, args, params):
    said = message(lambda: function(*args, **params), (TypeError, ValueError))
    assert re.match(r"\w+\(.*north.*\): |\w+: ", said)


@pytest.mark.parametrize(
    ("call", "kind", "start"),
    [
        (lambda: mg.rot90(X, axes=(0, 0)), ValueError, "rot90(m: float64 (2, 3), axes=(0, 0)): "),
        (lambda: mg.insert(X, 9, 1.0), IndexError, "insert(x: float64 (2, 3), obj: 9, values: 1.0"),
        (
            lambda: mg.histogram(X, bins=0),
            ValueError,
            "histogram(x: float64 (2, 3), bins=0): `bins",
        ),
        (lambda: mg.tile(X, 1.5), TypeError, "tile(x: float64 (2, 3), reps: 1.5): 'float' object"),
        (lambda: X.tile(1.5), TypeError, "tile(x: float64 (2, 3), reps: 1.5): 'float' object"),
        (lambda: mg.zeros_like(X, requires_grad=5), TypeError, "zeros_like(x: float64 (2, 3), req"),
        (lambda: np.insert(X, 9, 1.0), IndexError, "np.insert(x: float64 (2, 3), obj: 9, values"),
        (lambda: np.rollaxis(X, 9), np.exceptions.AxisError, "np.rollaxis(a: float64 (2, 3), axis"),
        (
            lambda: np.median(X, axis=9),
            np.exceptions.AxisError,
            "np.median(x=float64 (2, 3), axis=9)",
        ),
        (lambda: mg.moveaxis(X, 9, 0), np.exceptions.AxisError, "moveaxis(x: float64 (2, 3), sour"),
        (lambda: mg.combinations(X[0], -1), ValueError, "combinations(x: float64 (3,), r: -1): r "),
    ],
)
def test_a_function_of_ops_shows_its_call_where_numpy_names_none(call, kind, start):
    assert message(call, kind).startswith(start)


@pytest.mark.parametrize(
    ("call", "start"),
    [
        (lambda: mg.kthvalue(X, 0), "kthvalue: k must lie between 1 and 3"),
        (lambda: mg.percentile(X, 150), "percentile: q must lie between 0 and 100"),
    ],
)
def test_a_message_that_says_whose_it_is_stays_as_it_is(call, start):
    assert message(call, ValueError).startswith(start)


@pytest.mark.parametrize(
    ("call", "start", "end"),
    [
        (
            lambda: mg.logdet(X),
            "logdet(a: float64 (2, 3)): Last 2",
            "(in slogdet(x: float64 (2, 3)))",
        ),
        (
            lambda: mg.addcdiv(X, X[0, :2], X),
            "addcdiv(x: ",
            "(in div(a: float64 (2,), b: float64 (2, 3)))",
        ),
        (lambda: mg.trace(X[0]), "trace(x: float64 (3,)): ", "axis2=1))"),
        (
            lambda: mg.std_mean(X, axis=5),
            "std_mean(x: float64 (2, 3), axis=5): ",
            "keepdims=False))",
        ),
        (lambda: mg.nn.functional.embedding(X, X), "embedding(", "axis=0))"),
    ],
)
def test_an_error_of_an_op_inside_a_function_is_told_as_one_of_the_functions_call(call, start, end):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(start) and str(caught.value).endswith(end)


def test_an_error_in_a_function_of_the_users_names_the_op_that_failed():
    with pytest.raises(ValueError, match=r"^mul\(a: float64 \(2, 3\), b: "):
        gradcheck(lambda x: x * mg.ones(4), (mg.tensor(np.ones((2, 3)), requires_grad=True),))


def test_the_error_behind_is_the_context():
    with pytest.raises(ValueError, match="repeated axis") as caught:
        mg.rot90(X, axes=(0, 0))
    assert str(caught.value.__context__) == "repeated axis"


class Mine(ValueError):
    def __init__(self, text, more):
        super().__init__(text)
        self.more = more


def refuses(x):
    raise Mine("not today", 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mg.piecewise(X, [X > 0], [refuses]),
        lambda: mg.engine.primitive.Primitive(refuses, "refusing", ["x"])(X),
        lambda: gradcheck(refuses, X),
    ],
)
def test_an_error_of_somebody_s_own_class_stays_itself_and_gets_a_note(call):
    with pytest.raises(Mine) as caught:
        call()
    assert str(caught.value) == "not today"
    assert caught.value.more == 3
    assert caught.value.__notes__[0].startswith("in ")


@pytest.mark.parametrize("function", [mg.norm, mg.linalg.vector_norm, mg.var_mean, mg.log_softmax])
def test_a_function_of_ops_says_what_none_may_come_from(function):
    said = message(lambda: function(X.grad), (TypeError, AttributeError))
    assert "x is None, as a .grad is before a backward has reached its leaf" in said


def test_a_list_of_arrays_is_shown_by_their_dtypes_and_shapes():
    said = message(lambda: mg.piecewise(X, [X > 0, X > 1], [lambda x: 1 / 0, 0]), ZeroDivisionError)
    assert "condlist: [bool (2, 3), bool (2, 3)]" in said


X = mg.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: mg.topk(mg.tensor(1.0), 1), np.exceptions.AxisError, "topk(x: float64 (), k: 1)"),
        (lambda: mg.tensor(1.0).topk(1), np.exceptions.AxisError, "topk(x: float64 (), k: 1)"),
        (lambda: np.linalg.pinv(mg.tensor(3.0)), ValueError, "np.linalg.pinv(x: float64 ())"),
        (
            lambda: mg.scatter_add(X, 0, mg.tensor([[9]]), mg.ones((1, 1))),
            IndexError,
            "scatter_add(x: float64 (2, 3), axis: 0, index: int64 (1, 1), src: float64 (1, 1)): "
            "index 9",
        ),
        (
            lambda: mg.index_reduce(X, 0, mg.tensor([9]), mg.ones((1, 3)), "prod"),
            ValueError,
            "index_reduce(x: float64 (2, 3), axis: 0, index: int64 (1,), source: float64 (1, 3), "
            "reduce: 'prod'): index has numbers",
        ),
        (lambda: mg.special.jv(1, "a"), TypeError, "jv(v: 1, x: 'a'): 'a' (str) is neither"),
    ],
)
def test_an_error_inside_an_op_that_users_do_not_know_is_told_of_the_call_they_made(
    call, error, said
):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(said)


F = mg.nn.functional


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: F.mse_loss(X, X, reduction="abc"), "mse_loss(x: .*: reduction must be 'mean'"),
        (lambda: F.kl_div(X, X, reduction="abc"), "kl_div(x: .*: reduction must be 'mean'"),
        (lambda: F.nll_loss(X, None), "nll_loss(x: float64 (2, 3), target: None): "),
        (lambda: X.index_reduce(0, mg.tensor([0]), X[:1], "abc"), "index_reduce(.*: reduce is one"),
        (lambda: mg.correlate(X[0], X[0], "abc"), "correlate(.*: mode must be 'full'"),
        (lambda: mg.percentile(X, 50, keepdims=3), "percentile(.*: keepdims must be True or False"),
        (lambda: X[0].hsplit(None), "hsplit(.*(in split("),
        (lambda: mg.fft.fftfreq("abc"), "fftfreq(n: 'abc'): "),
        (lambda: mg.nn.SoftMarginLoss()(X, mg.ones(4)), "SoftMarginLoss(x: float64 (2, 3), target"),
        (lambda: mg.nn.MarginRankingLoss()(X, mg.ones(5), X), "MarginRankingLoss(a: "),
    ],
)
def test_a_message_of_another_function_is_told_as_one_of_the_call(call, said):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert re.match(re.escape(said).replace(r"\.\*", ".*"), str(caught.value))


def test_a_layer_whose_op_has_its_name_says_it_once():
    with pytest.raises(ValueError, match=r"^linear\(") as caught:
        mg.nn.Linear(4, 2)(X)
    assert "Linear(" not in str(caught.value)


def test_an_error_in_a_module_of_the_users_is_that_of_what_failed():
    class Net(mg.nn.Module):
        def forward(self, x):
            raise ValueError("not today")

    with pytest.raises(ValueError, match="^not today$"):
        Net()(X)
