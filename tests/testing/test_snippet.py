"""The lines with which an error of gradcheck shows itself again."""

import re
import textwrap

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import GradcheckError, gradcheck
from minigrad.testing.plant import make

X = np.array([0.3, -1.2, 0.7, 2.1])


def local_wrong_square(x):
    square = make("square", np.square, {"x": lambda g, x: g * x}, {})
    return square(x)


def test_the_snippet_in_the_error_runs_and_shows_the_same_error():
    with pytest.raises(GradcheckError) as caught:
        gradcheck(local_wrong_square, X)
    lines = [line.strip() for line in caught.value.snippet.splitlines()]
    text = "\n".join(lines).replace(f"from {__name__} import local_wrong_square as fn", "")
    with pytest.raises(GradcheckError, match=re.escape(str(caught.value.entry))):
        exec(text, {"fn": local_wrong_square})


def local_wrong_where(x, mask):
    return local_wrong_square(x) + mg.where(mg.isinf(mask), 0, mask)


def test_the_snippet_runs_where_an_argument_is_not_finite():
    with pytest.raises(GradcheckError) as caught:
        mask = np.array([-np.inf, 0, np.inf, 1])
        gradcheck(local_wrong_where, (mg.tensor(X, requires_grad=True), mask))
    text = textwrap.dedent(caught.value.snippet)
    text = text.replace(f"from {__name__} import local_wrong_where as fn", "")
    names = {}
    exec(text[: text.index("gradcheck(fn")], names)
    np.testing.assert_array_equal(names["x1"], [-np.inf, 0, np.inf, 1])


class Halved(mg.Function):
    """y = x², with half of its derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


def test_the_snippet_for_a_function_names_its_class():
    with pytest.raises(GradcheckError) as caught:
        gradcheck(Halved.apply, X)
    lines = [line.strip() for line in caught.value.snippet.splitlines()]
    assert f"from {__name__} import Halved" in lines and "fn = Halved.apply" in lines


def test_the_snippet_for_a_local_function_class_runs_alone():
    class Local(Halved):
        pass

    with pytest.raises(GradcheckError) as caught:
        gradcheck(Local.apply, X)
    text = textwrap.dedent(caught.value.snippet)
    with pytest.raises(GradcheckError, match=re.escape(str(caught.value.entry))):
        exec(text, {"Halved": Halved})
