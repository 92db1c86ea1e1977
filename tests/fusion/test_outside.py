"""A fused function whose numbers, strings and functions from outside change is the function now."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "a fused function gives what the function gives, with derivatives of every order, also "
    "when what it reads from outside changes"
)

X = np.linspace(0.5, 2.0, 4)
scale = 1.0


def twice(x):
    return x * 2 * scale


def given(value):
    """(a fused function that reads the value, a function that changes it)"""

    @mg.fuse
    def f(x):
        if callable(value):
            return value(x) * x
        if isinstance(value, dict | list):
            return x * value[0]
        if isinstance(value, str):
            return x * 2 if value == "twice" else x * 3
        return x * x * value

    def change(new):
        nonlocal value
        value = new

    return f, change


CHANGES = {
    "a number": (2.0, 3.0, lambda v: lambda x: x * x * v),
    "its type": (2, 2.5, lambda v: lambda x: x * x * v),
    "a number of NumPy's": (np.float64(2), np.float64(3), lambda v: lambda x: x * x * v),
    "a tensor of one number": (mg.tensor(2.0), mg.tensor(3.0), lambda v: lambda x: x * x * v),
    "a string": ("twice", "thrice", lambda v: lambda x: x * (2 if v == "twice" else 3)),
    "a function": (mg.sin, mg.cos, lambda v: lambda x: v(x) * x),
    "a function of one's own": (twice, lambda x: x + 1, lambda v: lambda x: v(x) * x),
    "a dict": ({0: 2.0}, {0: 3.0}, lambda v: lambda x: x * v[0]),
    "a list": ([2.0], [3.0], lambda v: lambda x: x * v[0]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_closure_holds_may_change(name):
    before, after, plain = CHANGES[name]
    f, change = given(before)
    for value in (before, after, before):
        change(value)
        x = mg.tensor(X, requires_grad=True)
        for fn in (f(x), plain(value)(x)):
            fn.sum().backward()
        np.testing.assert_allclose(f(X), plain(value)(X), rtol=1e-14)
        (g,) = mg.grad(plain(value)(x).sum(), [x])
        np.testing.assert_allclose(x.grad, 2 * g, rtol=1e-13)


def test_what_is_written_into_a_container_is_seen():
    factors = [2.0]
    f = mg.fuse(lambda x: x * factors[0])
    assert f(X).tolist() == (2 * X).tolist()
    factors[0] = 5.0
    assert f(X).tolist() == (5 * X).tolist()


def test_a_global_name_of_a_function_that_is_called_may_change(monkeypatch):
    f = mg.fuse(lambda x: mg.exp(twice(x)))
    np.testing.assert_allclose(f(X), np.exp(2 * X), rtol=1e-14)
    monkeypatch.setattr(f"{__name__}.scale", 0.5)
    np.testing.assert_allclose(f(X), np.exp(X), rtol=1e-14)


def test_the_gradient_is_that_of_the_values_at_the_call():
    f, change = given(2.0)
    x = mg.tensor(X, requires_grad=True)
    y = f(x)
    change(3.0)
    z = f(x)
    (g,) = mg.grad(y.sum(), [x], create_graph=True)
    np.testing.assert_allclose(g.detach(), 4 * X)
    np.testing.assert_allclose(mg.grad(g.sum(), [x])[0], np.full(4, 4.0))
    np.testing.assert_allclose(mg.grad(z.sum(), [x])[0], 6 * X)


def test_a_tensor_of_one_number_that_is_read_from_outside_gets_its_gradient():
    w = mg.tensor(2.0, requires_grad=True)
    f = mg.fuse(lambda x: x * w)
    f(X).sum().backward()
    assert w.grad.item() == X.sum()


def test_a_number_that_never_stays_is_right_too():
    step = 0
    f = mg.fuse(lambda x: x + step)
    for step in range(20):
        assert f(X).tolist() == (X + step).tolist()


def test_a_function_that_calls_itself_is_looked_at_once():
    def power(x, n=3):
        return x if n == 1 else x * power(x, n - 1)

    np.testing.assert_allclose(mg.fuse(lambda x: power(x))(X), X**3, rtol=1e-14)
    np.testing.assert_allclose(mg.fuse(power)(X), X**3, rtol=1e-14)


def test_arguments_by_keyword_and_methods_run_as_they_stand():
    class Scaled:
        factor = 2.0

        @mg.fuse
        def __call__(self, x, *, offset=1.0):
            return x * self.factor + offset

    f = Scaled()
    assert f(X).tolist() == (2 * X + 1).tolist()
    f.factor = 3.0
    assert f(X, offset=2.0).tolist() == (3 * X + 2).tolist()
    assert mg.fuse(lambda x, k: x * k)(x=X, k=2.0).tolist() == (2 * X).tolist()
