"""gradcheck at large values: a rule of one's own that overflows is wrong where its value is not."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import GradcheckError, gradcheck

X = np.array([0.5, 1.2])


@mg.primitive
def softplus_of_exp(x):
    return np.logaddexp(0, x)


@softplus_of_exp.vjp("x")
def softplus_of_exp_dx(g, x):
    return g * np.exp(x) / (1 + np.exp(x))


@mg.primitive
def softplus_of_tanh(x):
    return np.logaddexp(0, x)


@softplus_of_tanh.vjp("x")
def softplus_of_tanh_dx(g, x):
    return g * (1 + np.tanh(x / 2)) / 2


class Softplus(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.logaddexp(0, x)

    @staticmethod
    def backward(ctx, g):
        e = np.exp(ctx.saved_tensors[0])
        return g * e / (1 + e)


class Clipped(mg.Function):
    """Right up to 4, where it holds on to an old slope."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 2 * np.minimum(ctx.saved_tensors[0], 4)


@pytest.mark.parametrize("rule", [softplus_of_exp, Softplus.apply], ids=["primitive", "Function"])
def test_a_rule_that_overflows_is_wrong(rule):
    with pytest.raises(GradcheckError, match="nan at a finite point, with .* entry is 1,000"):
        gradcheck(rule, X)


def test_a_rule_that_is_finite_and_wrong_for_large_values_is_wrong():
    with pytest.raises(GradcheckError, match="with .* entry is 1,000"):
        gradcheck(Clipped.apply, X)


def test_a_rule_that_does_not_overflow_is_right():
    assert gradcheck(softplus_of_tanh, X)


def test_where_the_value_overflows_nothing_is_said():
    assert gradcheck(Exp.apply, X)


def test_compositions_of_the_engines_ops_are_not_asked():
    assert gradcheck(lambda x: 1 / (1 + mg.exp(-x)), X)


class Exp(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(y := np.exp(x))
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
