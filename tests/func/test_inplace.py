"""Writes inside transforms: y[i] = v and y += v are recorded at the level that v belongs to."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.core.errors import InPlaceError, TransformError

X = mg.tensor([1.5, 2.0, 3.0])


def written(v):
    y = mg.zeros(3)
    y[0] = v[0] * v[1]
    y[1:] = v[1:] ** 2
    y += v
    return y


def stacked(v):
    return mg.stack([v[0] * v[1] + v[0], v[1] ** 2 + v[1], v[2] ** 2 + v[2]])


def cubed(f):
    return lambda v: (f(v) ** 3).sum()


TRANSFORMS = {
    "grad": lambda f: func.grad(cubed(f))(X),
    "jvp": lambda f: func.jvp(f, (X,), (mg.tensor([1.0, -2.0, 0.5]),))[1],
    "vmap": lambda f: func.vmap(f)(mg.stack([X, 2 * X])),
    "hessian": lambda f: func.hessian(cubed(f))(X),
    "vmap of grad": lambda f: func.vmap(func.grad(cubed(f)))(mg.stack([X, 2 * X])),
    "jvp of grad": lambda f: func.jacfwd(func.grad(cubed(f)))(X),
    "grad of jvp": lambda f: func.grad(lambda v: func.jvp(f, (v,), (v,))[1].sum())(X),
    "grad of vmap": lambda f: func.grad(lambda v: (func.vmap(f)(mg.stack([v, v])) ** 2).sum())(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_function_that_writes_has_the_derivatives_of_one_that_stacks(name):
    transform = TRANSFORMS[name]
    np.testing.assert_allclose(transform(written).numpy(), transform(stacked).numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_place_that_is_added_to_has_the_derivatives_of_one_that_is_stacked(name):
    def in_places(v):
        y = v * v
        y[0] += v[1]
        y[1:] *= v[:2]
        y[:2] -= 2 * v[0]
        return y

    def stacked(v):
        a = v[0] * v[0] + v[1] - 2 * v[0]
        return mg.stack([a, v[1] * v[1] * v[0] - 2 * v[0], v[2] * v[2] * v[1]])

    transform = TRANSFORMS[name]
    np.testing.assert_allclose(transform(in_places).numpy(), transform(stacked).numpy(), rtol=1e-12)


def test_what_is_overwritten_gets_no_gradient():
    def f(v):
        y = v * 2
        y[0] = 7.0
        y *= v
        return y.sum()

    assert func.grad(f)(X).tolist() == [7, 8, 12]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_write_under_no_grad_changes_values_and_not_history(name):
    def f(v):
        y = v * v
        with mg.no_grad():
            y[0] = 5.0
            y += 1
        return y

    def same(v):
        shift = np.array([6 - 1.5**2, 1, 1])
        if name.startswith(("vmap", "grad of vmap")):
            shift = (5 - v.detach() ** 2) * np.array([1.0, 0, 0]) + 1
        return v * v + shift

    transform = TRANSFORMS[name]
    np.testing.assert_allclose(transform(f).numpy(), transform(same).numpy(), rtol=1e-12)


def test_a_tensor_from_before_is_a_constant_where_only_constants_are_written():
    def f(v):
        y = mg.zeros(3)
        y[1] = 2.0
        return (y * v).sum()

    assert func.grad(f)(X).tolist() == [0, 2, 0]


@pytest.mark.parametrize("change", ["x[0] = 1", "x += 1"])
@pytest.mark.parametrize("name", ["grad", "jvp", "vmap"])
def test_an_argument_is_not_changed_and_the_error_says_to_copy_it(name, change):
    def f(x):
        exec(change, {"x": x})
        return x

    def g(x):
        return f(x).sum()

    with pytest.raises(InPlaceError, match=r"begin with x = x\.copy\(\)"):
        {
            "grad": lambda: func.grad(g)(X),
            "jvp": lambda: func.jvp(g, (X,), (X,)),
            "vmap": lambda: func.vmap(g)(mg.stack([X, X])),
        }[name]()
    assert X.tolist() == [1.5, 2, 3]


def test_a_copied_argument_may_be_changed():
    def f(x):
        x = x.copy()
        x[0] = x[1] * 3
        return (x * x).sum()

    assert func.grad(f)(X).tolist() == [0, 40, 6]


@pytest.mark.parametrize("name", ["grad", "jvp", "vmap"])
def test_a_view_of_another_tensor_is_not_changed(name):
    def f(x):
        y = x * 1
        part = y[:2]
        part[0] = 5.0 * x[0]
        return y.sum()

    with pytest.raises(InPlaceError, match=r"shares its memory.* or begin with x = y\[i\]\.copy"):
        {
            "grad": lambda: func.grad(f)(X),
            "jvp": lambda: func.jvp(f, (X,), (X,)),
            "vmap": lambda: func.vmap(f)(mg.stack([X, X])),
        }[name]()


def test_a_place_of_its_own_for_every_example_is_refused_with_what_to_use():
    def f(v, i):
        y = mg.zeros(3)
        y[i] = v
        return y

    with pytest.raises(TransformError, match="take_along_axis"):
        func.vmap(f)(X, mg.tensor([0, 1, 2]))
