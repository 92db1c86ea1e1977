"""An option of another kind is an error that names it, never taken in silence."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.options import Options

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
        (lambda: mg.sort(X, descending="abc"), "sort: descending must be True or False"),
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
