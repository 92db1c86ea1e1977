"""Jacobians and Hessians agree with closed forms, with each other, and nest."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, hessian, hvp, jacfwd, jacobian, jacrev, jvp, vhp, vjp, vmap

rng = np.random.default_rng(0)
A = rng.normal(size=(4, 3))
both = pytest.mark.parametrize("jac", [jacrev, jacfwd], ids=["jacrev", "jacfwd"])


@both
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 100])
def test_the_jacobian_of_tanh_of_a_product(jac, chunk_size):
    x = mg.tensor(rng.normal(size=3))
    expected = (1 - np.tanh(A @ x.data) ** 2)[:, None] * A
    j = jac(lambda x: np.tanh(A @ x), chunk_size=chunk_size)(x)
    np.testing.assert_allclose(j.data, expected, rtol=1e-13)


@both
def test_shapes_are_those_of_the_result_and_of_the_argument(jac):
    x = mg.tensor(rng.normal(size=(2, 3)))
    assert jac(lambda x: np.exp(x).sum(axis=0))(x).shape == (3, 2, 3)
    assert jac(lambda x: (x * x).sum())(x).shape == (2, 3)


@both
def test_another_argument_may_be_chosen(jac):
    a, b = mg.tensor(rng.normal(size=3)), mg.tensor(rng.normal(size=3))
    np.testing.assert_allclose(jac(lambda a, b: a * b, argnums=1)(a, b).data, np.diag(a.data))


@both
def test_a_function_that_does_not_depend_on_its_argument_has_a_jacobian_of_zeros(jac):
    j = jac(lambda x: mg.tensor([1.0, 2.0]))(mg.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(j.data, np.zeros((2, 3)))


def test_the_hessian_of_a_cubic():
    x = mg.tensor([1.0, 2.0])
    h = hessian(lambda x: x[0] ** 3 + x[0] * x[1] ** 2)(x)
    assert h.tolist() == [[6, 4], [4, 2]]


def test_hvp_is_the_hessian_times_the_tangent():
    f = lambda x: np.tanh(A @ x).sum()
    x, t = mg.tensor(rng.normal(size=3)), mg.tensor(rng.normal(size=3))
    np.testing.assert_allclose(hvp(f, (x,), (t,)).data, hessian(f)(x).data @ t.data, rtol=1e-12)


def test_vhp_is_the_cotangent_times_the_hessian():
    f = lambda x: np.tanh(A @ x).sum()
    x, v = mg.tensor(rng.normal(size=3)), mg.tensor(rng.normal(size=3))
    np.testing.assert_allclose(vhp(f, (x,), (v,)).data, v.data @ hessian(f)(x).data, rtol=1e-12)


def test_vhp_of_several_arguments_is_a_tuple_as_pytorchs():
    torch = pytest.importorskip("torch")
    arrays = [rng.normal(size=n) for n in (3, 4, 3, 4)]
    ours = vhp(lambda x, w: (np.tanh(A @ x) * w**2).sum(), tuple(arrays[:2]), tuple(arrays[2:]))
    x, w, v, u = map(torch.tensor, arrays)
    f = lambda x, w: (torch.tanh(torch.tensor(A) @ x) * w**2).sum()
    theirs = torch.autograd.functional.vhp(f, (x, w), (v, u))[1]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.data, b.numpy(), rtol=1e-12)


def test_vhp_needs_no_jvp_of_what_the_function_calls():
    class Cube(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

    x, v = mg.tensor([1.0, 2.0]), mg.tensor([1.0, 10.0])
    assert vhp(lambda x: Cube.apply(x).sum(), (x,), (v,)).tolist() == [6, 120]


def test_vhp_batches():
    xs = mg.tensor(rng.normal(size=(5, 3)))
    f = lambda x: np.tanh(A @ x).sum()
    v = np.ones(3)
    expected = [vhp(f, (x,), (v,)).data for x in xs]
    np.testing.assert_allclose(vmap(lambda x: vhp(f, (x,), (v,)))(xs).data, expected, rtol=1e-12)


def test_jacobians_nest():
    f = lambda x: x**3
    x = mg.tensor([1.0, 2.0])
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0], expected[1, 1, 1] = 6, 12
    for outer in (jacrev, jacfwd):
        for inner in (jacrev, jacfwd):
            np.testing.assert_allclose(outer(inner(f))(x).data, expected, atol=1e-13)


def test_jacobians_are_recorded_for_tensors_tracked_outside():
    w = mg.tensor([2.0, 3.0], requires_grad=True)
    jacobian(lambda x: w * x * x)(mg.tensor([1.0, 1.0])).sum().backward()
    assert w.grad.tolist() == [2, 2]


def test_a_vjp_can_be_differentiated_after_its_level_has_ended():
    """The function that vjp returns is linear: its derivative is itself, not zero."""
    y, vjp_fn = vjp(lambda x: x * x, mg.tensor([1.0, 2.0]))
    g = grad(lambda g: (vjp_fn(g)[0] * g).sum())(mg.tensor([1.0, 1.0]))
    assert g.tolist() == [4, 8]
    assert jvp(lambda g: vjp_fn(g)[0], (y,), (y,))[1].tolist() == [2, 16]
    assert vmap(lambda g: vjp_fn(g)[0])(np.eye(2)).tolist() == [[2, 0], [0, 4]]


def test_columns_of_a_jacobian_are_of_one_function_though_it_draws():
    x, y = mg.ones(6), mg.full(6, 2.0)
    f = lambda x, y: mg.dropout(x * y, 0.5)
    h = lambda x, y: (f(x, y) ** 2).sum()
    mg.manual_seed(1)
    rows = jacrev(f, (0, 1))(x, y)
    after = mg.rand(2).tolist()
    kept = np.diag(rows[1].data) / 2
    for chunk_size in (None, 1, 4):
        mg.manual_seed(1)
        columns = jacfwd(f, (0, 1), chunk_size=chunk_size)(x, y)
        assert [j.tolist() for j in columns] == [j.tolist() for j in rows]
        assert mg.rand(2).tolist() == after
        mg.manual_seed(1)
        second = hessian(h, (0, 1), chunk_size=chunk_size)(x, y)
        np.testing.assert_allclose(second[0][0].data, np.diag(32 * kept))
        np.testing.assert_allclose(second[1][0].data, np.diag(32 * kept))
        np.testing.assert_allclose(second[1][1].data, np.diag(8 * kept))


def test_a_chunk_of_nothing_is_refused():
    for chunk_size in (0, -2, 1.5, "2", True):
        with pytest.raises(mg.errors.TransformError, match="chunk_size is a number of rows"):
            jacrev(lambda x: x, chunk_size=chunk_size)(mg.tensor([1.0]))
        with pytest.raises(mg.errors.TransformError, match="chunk_size is a number of examples"):
            mg.func.vmap(lambda x: x, chunk_size=chunk_size)


@both
def test_the_jacobian_of_a_holomorphic_function_is_its_complex_derivative(jac):
    z = mg.tensor([1 + 2j, -0.5 + 3j])
    j = jac(lambda z: z**3 + z[0])(z)
    np.testing.assert_allclose(j.data, np.diag(3 * z.data**2) + [[1, 0], [1, 0]], rtol=1e-13)
    np.testing.assert_allclose(jac(jac(lambda z: z**3))(z[0]).data, 6 * z.data[0], rtol=1e-13)


@both
def test_the_jacobian_of_a_complex_result_of_real_numbers_keeps_its_imaginary_part(jac):
    j = jac(np.fft.fft)(mg.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(j.data, np.fft.fft(np.eye(3)), atol=1e-15)


@both
@pytest.mark.parametrize("chunk_size", [None, 1])
def test_the_jacobian_of_a_real_result_of_complex_numbers_has_gradients_as_rows(jac, chunk_size):
    z = mg.tensor([1 + 2j, -0.5 + 3j])
    j = jac(lambda z: {"squared": np.abs(z) ** 2, "z": z}, chunk_size=chunk_size)(z)
    np.testing.assert_allclose(j["squared"].data, np.diag(2 * z.data), rtol=1e-13)
    np.testing.assert_array_equal(j["z"].data, np.eye(2))


@both
@pytest.mark.parametrize("x", [3, mg.tensor([1, 2]), {"a": mg.ones(2), "n": 1}, True])
def test_there_is_no_jacobian_with_respect_to_whole_numbers(jac, x):
    square = lambda x: x["a"] * x["n"] if isinstance(x, dict) else x * 1
    with pytest.raises(TypeError, match=rf"{jac.__name__} differentiates floating and complex"):
        jac(square)(x)


def test_a_jacobian_of_a_number_of_pythons_is_0_with_a_warning():
    with pytest.warns(
        UserWarning, match="jacobian: the function returned 3.0, a number of Python's"
    ):
        assert mg.func.jacobian(lambda x: 3.0)(1.0).item() == 0


def test_a_result_of_whole_numbers_has_a_jacobian_of_zeros_in_the_dtype_of_the_argument():
    x = mg.ones(3, dtype=mg.float32)
    for jac in (mg.func.jacfwd, mg.func.jacrev):
        for f in (mg.argmax, lambda x: x > 0):
            J = jac(f)(x)
            assert J.dtype == np.float32 and not J.any()
