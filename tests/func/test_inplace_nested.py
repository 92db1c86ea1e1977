"""A write into a result is accepted in every nest of transforms, or in none, with equal numbers."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.errors import InPlaceError

X = np.array([[0.3, 0.7, 1.1], [0.4, 0.2, 0.9]])
T = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])

BEGUN = {
    "sin": mg.sin,
    "tanh": mg.tanh,  # whose derivative is a function of the result
    "sqrt": mg.sqrt,
    "softmax": mg.softmax,
    "log_softmax": mg.log_softmax,
    "gelu": mg.gelu,
    "cumprod": lambda z: mg.cumprod(z, axis=1),
    "first of two": lambda z: mg.linalg.qr(z @ z.T)[0] @ z,
    "a constant": lambda z: mg.ones(2, 3),
}


def assigned(z, begin):
    y = begin(z)
    y[0] = mg.sin(z[1])
    return (y * y * z).sum()


def assigned_apart(z, begin):
    y = begin(z)
    return (mg.stack([mg.sin(z[1]), y[1]]) ** 2 * z).sum()


def from_another_row(z, begin):
    y = begin(z) * 1.0
    y[0] = mg.sin(y[1]) * z[0]
    y[1] *= mg.exp(y[0])
    return (y * y * z).sum()


def from_another_row_apart(z, begin):
    y = begin(z)
    first = mg.sin(y[1]) * z[0]
    return (mg.stack([first, y[1] * mg.exp(first)]) ** 2 * z).sum()


def along(f):
    return lambda z: (func.grad(f)(z) * mg.tensor(T)).sum()


def pushed(f):
    return lambda z: func.jvp(f, (z,), (mg.tensor(T),))[1]


def both(f):
    return lambda z: func.vmap(f)(mg.stack([z, z + 0.1]))[0]


SECOND = {
    "grad of grad": lambda f: func.grad(along(f)),
    "grad of jvp": lambda f: func.grad(pushed(f)),
    "jvp of grad": lambda f: pushed(func.grad(f)),
    "hessian": lambda f: lambda z: (func.hessian(f)(z) * mg.tensor(T)).sum(axis=(2, 3)),
    "jacrev of jacfwd": lambda f: (
        lambda z: (func.jacrev(func.jacfwd(f))(z) * mg.tensor(T)).sum(axis=(2, 3))
    ),
    "vmap of grad of grad": lambda f: both(func.grad(along(f))),
    "vmap of grad of jvp": lambda f: both(func.grad(pushed(f))),
    "vmap of jvp of grad": lambda f: both(pushed(func.grad(f))),
}


@pytest.mark.filterwarnings("ignore::minigrad.func.VmapWarning")
@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("begin", BEGUN.values(), ids=BEGUN)
@pytest.mark.parametrize(
    "write, apart",
    [(assigned, assigned_apart), (from_another_row, from_another_row_apart)],
    ids=["assigned", "from another row"],
)
def test_a_write_gives_the_second_derivative_of_the_same_without_it(write, apart, begin, second):
    x = mg.tensor(X)
    right = func.grad(along(lambda z: apart(z, begin)))(x)
    found = second(lambda z: write(z, begin))(x)
    np.testing.assert_allclose(found.data, right.data, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("transform", [func.grad, pushed, lambda f: func.grad(pushed(f))])
def test_a_view_that_is_alive_is_refused_in_each(transform):
    def f(z):
        y = mg.tanh(z)
        row = y[1]
        y[0] = mg.sin(z[1])
        return (y * row).sum()

    with pytest.raises(InPlaceError, match="shares its memory"):
        transform(f)(mg.tensor(X))
