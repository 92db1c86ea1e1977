"""An option of another kind is an error that names it, never taken in silence."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.tensor_api.help import Options

F = mg.nn.functional
X = mg.ones(2, 3)
IMAGES = mg.ones(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mg.dropout(X, training="abc"), "dropout: training must be True or False"),
        (lambda: F.dropout(X, 0.5, "abc"), "dropout: training must be True or False"),
        (lambda: F.dropout(X, training=2), "dropout: training must be True or False, got 2"),
        (lambda: mg.max_pool2d(IMAGES, 2, ceil_mode=float("nan")), "ceil_mode must be True or F"),
        (lambda: F.cross_entropy(X, mg.tensor([0, 1]), ignore_index=1.5), "must be an integer"),
        (lambda: mg.sort(X, descending="abc"), r"sort\(x: .*: descending must be True or F"),
        (lambda: mg.dropout(X, generator=5), "generator must be an np.random.Generator, got 5"),
        (lambda: F.linear_cross_entropy(X, X, mg.tensor([0, 1]), options=3), "options are PyTorch"),
        (lambda: X.astype([("a", float)]), "is not a dtype"),
        (lambda: mg.zeros(2, dtype={}), r"dtype=\{\} is not a dtype"),
        (lambda: mg.astype(X, "V4"), "is not a dtype"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_name(call, said):
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize("yes", [True, 1, np.True_, np.int64(1), np.array(True), mg.tensor(True)])
def test_whatever_is_a_truth_value_is_taken_as_one(yes):
    assert mg.dropout(X, 0.0, training=yes) is not None
    assert mg.cross_entropy(X, mg.tensor([0, 1]), ignore_index=np.int8(1)).shape == ()


def test_where_the_call_fails_its_own_error_is_raised():
    with pytest.raises(ValueError, match="p is the probability"):
        mg.dropout(X, 2.0, training="abc")


def test_an_option_after_star_args_has_no_position():
    def f(*shape, wanted: bool = False): ...

    Options(f).check("f", (2, 3), {})
    with pytest.raises(TypeError, match="f: wanted must be True or False, got 'x'"):
        Options(f).check("f", (2, 3), {"wanted": "x"})


@pytest.mark.parametrize("call", [mg.sin, mg.sum, mg.std, F.relu, mg.linalg.inv, lambda x: X @ x])
def test_lists_of_different_lengths_are_told_with_the_call(call):
    with pytest.raises(ValueError, match=r"^\w+\(.*: the nested lists have different lengths"):
        call([[1, 2], [3]])


def test_arrays_that_a_primitive_does_not_have_are_named():
    with pytest.raises(ValueError, match="names 'zz', and its parameters are a, b"):
        mg.primitive(arrays="a zz")(lambda a, b: a)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mg.argsort(X, stable="abc"), "argsort: stable must be True or False"),
        (lambda: mg.argsort(X.numpy(), descending=2), "argsort: descending must be True or False"),
        (lambda: mg.isclose(X, X, 0.1, 0.1, "abc"), "isclose: equal_nan must be True or False"),
        (lambda: mg.angle(X, deg=float("nan")), "angle: deg must be True or False, got nan"),
        (lambda: mg.linalg.cholesky(mg.tensor(np.eye(2)), upper=()), "upper must be True or False"),
        (lambda: mg.argmax(X, keepdims="abc"), r"argmax\(.*cannot be interpreted as an integer"),
        (lambda: mg.logsumexp(X, keepdims=1.5), r"logsumexp\(.*cannot be interpreted as an int"),
    ],
)
def test_a_flag_of_an_op_is_a_truth_value(call, said):
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: mg.nn.AvgPool2d(2, ceil_mode="abc"), "AvgPool2d: ceil_mode must be True or False"),
        (lambda: mg.nn.BatchNorm1d(3, affine=2), "BatchNorm1d: affine must be True or False"),
        (lambda: mg.optim.SGD([P], 0.1, maximize="abc"), "SGD: maximize must be True or False"),
        (lambda: mg.optim.SGD([P], lr=object()), r"^SGD\(params: .*lr=<object"),
        (
            lambda: mg.optim.lr_scheduler.LinearLR(mg.optim.SGD([P]), total_iters=1.5),
            "LinearLR: total_iters must be an integer, got 1.5",
        ),
        (
            lambda: mg.optim.lr_scheduler.ConstantLR(mg.optim.SGD([P]), factor="abc"),
            r"^ConstantLR\(optimizer: .*factor='abc'\): ",
        ),
        (lambda: mg.data.DataLoader(ROWS, shuffle="abc"), "DataLoader: shuffle must be True or F"),
        (lambda: mg.data.DataLoader(ROWS, generator=5), "DataLoader: .*np.random.Generator, got 5"),
        (lambda: mg.data.DataLoader(ROWS, collate_fn=5), "collate_fn must be a function, got 5"),
        (lambda: mg.data.ConcatDataset(5), r"^ConcatDataset\(datasets: 5\): 'int' object is not"),
        (lambda: mg.nn.Hardtanh(None), r"^Hardtanh\(min_val: None\): "),
    ],
)
def test_a_class_that_is_made_says_whose_option_is_wrong(make, said):
    with pytest.raises(TypeError, match=said) as caught:
        make()
    assert caught.type is TypeError


def test_a_class_of_the_users_own_takes_what_it_likes():
    class Rows(mg.data.Dataset):
        def __init__(self, shuffled: bool = False):
            self.shuffled = shuffled

    class Net(mg.nn.Module):
        def __init__(self, bias: bool = True):
            self.bias = bias

    assert Rows("by hand").shuffled == "by hand"
    assert Net("by hand").bias == "by hand"


P = mg.tensor([1.0], requires_grad=True)
ROWS = mg.data.ArrayDataset(np.ones((4, 2)))
