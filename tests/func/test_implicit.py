"""root and fixed_point: gradients by the implicit function theorem, whatever the solver."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import ConvergenceError, TransformError
from minigrad.func import fixed_point, grad, hessian, hvp, jacfwd, jacrev, jvp, root, solvers, vmap

pytestmark = pytest.mark.promise("implicit gradients do not depend on the solver")

rng = np.random.default_rng(0)
M, B = mg.tensor(rng.normal(size=(4, 4)) * 0.25), mg.tensor(rng.normal(size=4))
linear = pytest.mark.parametrize("linear", ["dense", "gmres"])


def square_root(linear="auto", **options):
    return lambda a: root(lambda x, a: x * x - a, mg.tensor(1.0), a, linear=linear, **options)


def equilibrium(linear="auto", solver="iterate"):
    """x = tanh(Mx + b), summed."""
    f = lambda x, M, b: np.tanh(M @ x + b)
    return lambda M, b: fixed_point(f, mg.zeros(4), M, b, linear=linear, solver=solver).sum()


def unrolled(M, b):
    x = mg.zeros(4)
    for _ in range(150):
        x = np.tanh(M @ x + b)
    return x.sum()


@linear
def test_the_derivatives_of_a_square_root_to_third_order(linear):
    f, a = square_root(linear), mg.tensor(2.0)
    assert f(a).item() == pytest.approx(2**0.5)
    assert grad(f)(a).item() == pytest.approx(0.5 * 2**-0.5)
    assert grad(grad(f))(a).item() == pytest.approx(-0.25 * 2**-1.5)
    assert grad(grad(grad(f)))(a).item() == pytest.approx(0.375 * 2**-2.5)
    assert jvp(f, (a,), (mg.tensor(2.0),))[1].item() == pytest.approx(2**-0.5)
    assert jacfwd(jacfwd(f))(a).item() == pytest.approx(-0.25 * 2**-1.5)
    assert jvp(grad(f), (a,), (mg.tensor(1.0),))[1].item() == pytest.approx(-0.25 * 2**-1.5)


@linear
@pytest.mark.parametrize("solver", ["iterate", "anderson", "newton"])
def test_a_fixed_point_has_the_gradient_of_the_unrolled_loop(linear, solver):
    got, expected = grad(equilibrium(linear, solver), (0, 1))(M, B), grad(unrolled, (0, 1))(M, B)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g.data, e.data, rtol=1e-8, atol=1e-10)


@linear
def test_the_second_derivatives_are_those_of_the_unrolled_loop(linear):
    f, t = equilibrium(linear), mg.ones(4)
    h = hessian(f, 1)(M, B).data
    np.testing.assert_allclose(h, hessian(unrolled, 1)(M, B).data, atol=1e-9)
    np.testing.assert_allclose(hvp(lambda b: f(M, b), (B,), (t,)).data, h.sum(1), atol=1e-9)


def test_the_gradient_does_not_depend_on_the_solver():
    calls = []

    def bisection(f, x0):
        low, high = 0.0, 10.0
        for _ in range(60):
            middle = (low + high) / 2
            calls.append(1)
            low, high = (low, middle) if f(mg.tensor(middle)).item() > 0 else (middle, high)
        return mg.tensor(low)

    f = square_root(solver=bisection)
    assert grad(f)(mg.tensor(2.0)).item() == pytest.approx(0.5 * 2**-0.5)
    assert len(calls) == 60  # the backward does not search again
    np.testing.assert_allclose(vmap(grad(f))(np.array([1.0, 4.0])).data, [0.5, 0.25])


def test_the_steps_of_the_solver_are_not_recorded():
    a = mg.tensor(2.0, requires_grad=True)
    x = root(lambda x, a: x * x - a, mg.tensor(1.0), a)
    names, stack = [], [x.node]
    while stack:
        node = stack.pop()
        names.append(type(node).__name__ if node is a.node else node.op.name)
        stack.extend(node.parents)
    assert names.count("implicit") == 1 and len(names) < 8
    x.backward()
    assert a.grad.item() == pytest.approx(0.5 * 2**-0.5)


@linear
def test_each_example_of_a_batch_has_its_own_equation(linear):
    f, xs = square_root(linear), np.array([1.0, 2.0, 9.0])
    np.testing.assert_allclose(vmap(f)(xs).data, np.sqrt(xs))
    np.testing.assert_allclose(vmap(grad(f))(xs).data, 0.5 / np.sqrt(xs))
    np.testing.assert_allclose(vmap(grad(grad(f)))(xs).data, -0.25 * xs**-1.5)
    np.testing.assert_allclose(
        grad(lambda xs: vmap(f)(xs).sum())(mg.tensor(xs)).data, 0.5 * xs**-0.5
    )
    Ms = mg.tensor(rng.normal(size=(3, 4, 4)) * 0.2)
    got = vmap(grad(equilibrium(linear)), in_dims=(0, None))(Ms, B).data
    expected = np.stack([grad(unrolled)(m, B).data for m in Ms])
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-10)


@linear
def test_unknowns_and_parameters_may_be_trees(linear):
    def f(x, p):
        return {"u": x["u"] ** 2 + x["v"][0] - p["s"], "v": [x["v"][0] - x["u"] * p["k"]]}

    x0, s = {"u": mg.ones(2), "v": [mg.ones(2)]}, mg.tensor([2.0, 3.0])
    solve = lambda s: root(f, x0, {"s": s, "k": 1.0}, linear=linear)
    x = solve(s)
    np.testing.assert_allclose(x["u"].data, (np.sqrt(1 + 4 * s.data) - 1) / 2)
    j = jacrev(lambda s: solve(s)["v"][0])(s)
    np.testing.assert_allclose(j.data, np.diag(1 / np.sqrt(1 + 4 * s.data)))


def test_a_complex_equation_holomorphic_in_its_unknown():
    a = mg.tensor(1 + 2j, requires_grad=True)
    x = root(lambda x, a: x * x - a, mg.tensor(1 + 1j), a)
    b = mg.tensor(1 + 2j, requires_grad=True)
    for z in (x, np.sqrt(b)):
        (np.abs(z) ** 2 + np.real(z)).backward()
    np.testing.assert_allclose(a.grad.data, b.grad.data)


def test_single_precision_is_kept():
    a = mg.tensor(2.0, dtype="float32", requires_grad=True)
    x = root(lambda x, a: x * x - a, mg.tensor(1.0, dtype="float32"), a)
    x.backward()
    assert x.dtype == a.grad.dtype == np.float32 and a.grad.item() == pytest.approx(
        0.35355, rel=1e-4
    )


def test_a_large_system_is_solved_without_its_matrix():
    n = 400
    d = mg.tensor(rng.uniform(1, 2, n))
    f = lambda x, d: d * x + 0.1 * mg.roll(x, 1) + 0.1 * np.sin(x) - 1
    g = grad(lambda d: root(f, mg.zeros(n), d).sum())(d)
    dense = grad(lambda d: root(f, mg.zeros(n), d, linear="dense").sum())(d)
    np.testing.assert_allclose(g.data, dense.data, rtol=1e-8)


def test_x0_has_no_gradient():
    x0 = mg.tensor(1.0, requires_grad=True)
    assert not root(lambda x: x * x - 2, x0).requires_grad


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: root(lambda x: x * x + 1, mg.tensor(1.0)), ConvergenceError, "start elsewhere"),
        (lambda a: root(lambda x: x * x + 1, mg.tensor(0.7), max_steps=5), ConvergenceError,
         "stopped after 5 steps|start elsewhere"),
        (lambda a: fixed_point(lambda x: 9 * x + 1, mg.tensor(0.0)), ConvergenceError, "finite"),
        (lambda a: fixed_point(np.cos, mg.tensor(0.0), max_steps=3), ConvergenceError, "3 steps"),
        (lambda a: root(lambda x, a: x * x * a, mg.tensor(0.0), a), ConvergenceError, "singular"),
        (lambda a: root(lambda x, a: x * x * a, mg.tensor(0.0), a, linear="gmres"),
         ConvergenceError, "singular"),
        (lambda a: root(lambda x: x - a, mg.tensor(0.0)), TransformError, "not among its param"),
        (lambda a: root(lambda x, a: x - a, mg.tensor(0.0), a, solver=lambda f, x: x),
         ConvergenceError, "off by 2"),
        (lambda a: root(lambda x, a: x[:1] - a, mg.zeros(2), a), TransformError, r"float64 \(1,\)"),
        (lambda a: root(lambda x, a: [x], mg.zeros(2), a), TransformError, "trees differ"),
        (lambda a: root(lambda x, a: x, mg.zeros(2), a, solver="secant"), TransformError, "newton"),
        (lambda a: root(lambda x, a: x, mg.zeros(2), a, linear="qr"), TransformError, "gmres"),
        (lambda a: root(lambda x, a: x, [], a), TransformError, "no tensor"),
    ],
)  # fmt: skip
def test_what_cannot_be_solved_or_differentiated_is_said(call, error, message):
    with pytest.raises(error, match=message), np.errstate(all="ignore"):
        grad(lambda a: call(a).sum())(mg.tensor(2.0))


def test_a_captured_parameter_is_no_fault_where_nothing_is_recorded():
    w = mg.tensor(2.0, requires_grad=True)
    with mg.no_grad():
        assert root(lambda x: x - w, mg.tensor(0.0)).item() == 2


def test_newton_takes_no_step_from_a_root():
    def step(x, r):
        raise AssertionError("a step")

    assert solvers.newton(lambda x: x * x - 4, step, np.array([2.0]), 1e-9, 10).tolist() == [2]
