"""Transforms of functions compute on a GPU what they compute on the host."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func

pytestmark = pytest.mark.promise(
    "every op, and control flow and solvers in transforms, gives on a device what it gives on"
    " the host; a training step copies nothing (K14)"
)


def truncated(x):
    """√x where x > 0, −x² elsewhere."""
    return func.cond(x > 0, np.sqrt, lambda x: -x * x, x)


def grown(x):
    """x multiplied by itself until it is at least 100."""
    return func.while_loop(lambda s: s < 100, lambda s: s * x, x)


def chosen(i, x):
    return func.switch(i, [np.sin, np.cos, np.exp], x)


def power(n, x):
    return func.fori_loop(0, n, lambda i, s: s * x + i, x)


def power_from(n, x):
    return func.fori_loop(n, 4, lambda i, s: s * x + i, x)


def read(i, x):
    return x[i] * x[-1]


def written(i, x):
    x = x.copy()
    x[i] = 0
    return x * x


def masked(m, x):
    return mg.setitem(x, 0.0, index=x > m)


def solved(x):
    return func.root(lambda u, x: u * u * u - x, mg.ones_like(x), x, linear="gmres")


def iterated(x):
    return func.fixed_point(lambda u, x: np.cos(u * x), x, x / 5, solver="anderson")


def flow(x):
    return func.odeint(lambda y, t, x: -x * y, x, mg.linspace(0, 1, 3, device=x.device), x)


XS, NUMBERS, ROWS = [1.5, -2.0, 3.0], [0, 2, 1], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


@pytest.mark.parametrize(
    ("fn", "arguments"),
    [
        (func.vmap(truncated), [XS]),
        (func.vmap(func.grad(truncated)), [XS]),
        (func.vmap(grown), [[2.0, 3.0, 200.0]]),
        (func.vmap(chosen), [NUMBERS, XS]),
        (func.vmap(power), [NUMBERS, XS]),
        (func.vmap(power_from), [NUMBERS, XS]),
        (func.vmap(read), [NUMBERS, ROWS]),
        (func.vmap(written), [NUMBERS, ROWS]),
        (func.vmap(masked), [XS, ROWS]),
        (func.jacrev(solved), [[2.0, 3.0]]),
        (func.jacfwd(iterated), [[0.5, 0.7]]),
        (func.jacrev(flow), [[0.5, 0.7]]),
    ],
)
def test_a_transform_gives_on_a_device_what_it_gives_on_the_host(fn, arguments, fake):
    here, there = (fn(*[mg.tensor(x, device=d) for x in arguments]) for d in ("cpu", "cuda"))
    assert there.device == "cuda:0"
    np.testing.assert_allclose(there.to("cpu").numpy(), here.numpy(), rtol=1e-12)


def curve(x):
    return mg.gelu(x) * mg.gelu(x, approximate="tanh") * x


def pulled(f):
    return lambda x: func.vjp(f, x)[1](mg.ones_like(x))[0]


def pushed(f):
    return lambda x: func.jvp(f, (x,), (mg.ones_like(x),))[1]


NESTED = {
    "vjp of vjp": pulled(pulled(curve)),
    "vjp of jvp": pulled(pushed(curve)),
    "jvp of vjp": pushed(pulled(curve)),
    "jvp of jvp": pushed(pushed(curve)),
    "vmap of vjp": func.vmap(pulled(curve)),
    "vmap of vjp of vjp": func.vmap(pulled(pulled(curve))),
    "vjp of vmap of vjp": pulled(func.vmap(pulled(curve))),
}


@pytest.mark.parametrize("kernels", ["stand-in", "gpu"], indirect=True)
@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_a_residual_that_a_kernel_leaves_out_is_found_in_nests(nested, kernels):
    """gelu's kernel hands out no slope; the rules compute it."""
    here, there = (nested(mg.tensor(XS, device=d)) for d in ("cpu", "cuda"))
    assert there.device == "cuda:0"
    np.testing.assert_allclose(there.to("cpu").numpy(), here.numpy(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kernels", ["stand-in", "gpu"], indirect=True)
def test_such_a_residual_is_found_in_a_transform_of_a_recorded_value_too(kernels):
    found = {}
    for place in ("cpu", "cuda"):
        x = mg.tensor(XS, device=place, requires_grad=True)
        pulled(curve)(x).backward(mg.ones(3, device=place))
        found[place] = x.grad.to("cpu").numpy()
    np.testing.assert_allclose(found["cuda"], found["cpu"], rtol=1e-10, atol=1e-14)
