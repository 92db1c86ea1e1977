"""Levels: transforms nest in any order, on functions of every kind."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import modes
from minigrad.func import grad, jvp, vjp, vmap

pytestmark = pytest.mark.promise("transforms nest in any order")

rng = np.random.default_rng(0)
MATRIX = rng.normal(size=(3, 3))

FUNCTIONS = {
    "mul": lambda x: (x * x * x).sum(),
    "div": lambda x: (x / (x * x + 2.0)).sum(),
    "exp": lambda x: np.exp(x).sum(),
    "tanh": lambda x: (np.tanh(x) * x).sum(),
    "pow": lambda x: ((x * x + 1.0) ** 1.5).sum(),
    "matmul": lambda x: (np.tanh(MATRIX @ x) * x).sum(),
    "sum_of_squares": lambda x: np.sum(x * x, axis=0) ** 2,
    "softmax": lambda x: (mg.softmax(x) * x * x).sum(),
    "reshape": lambda x: (x.reshape(1, 3).T * x.reshape(3, 1) ** 2).sum(),
    "max": lambda x: np.max(x * x) * x.sum(),
    "getitem": lambda x: (x[1:] * x[:-1] ** 2).sum(),
    "where": lambda x: (np.where(np.array([True, False, True]), x * x, np.sin(x)) * x).sum(),
}
every_function = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def point():
    return mg.tensor(rng.normal(size=3))


def numeric_jvp(f, x, t, h=1e-6):
    return (f(mg.tensor(x.data + h * t.data)).data - f(mg.tensor(x.data - h * t.data)).data) / (
        2 * h
    )


@every_function
def test_jvp_agrees_with_differences(f):
    x, t = point(), point()
    y, ty = jvp(f, (x,), (t,))
    np.testing.assert_allclose(y.data, f(x).data)
    np.testing.assert_allclose(ty.data, numeric_jvp(f, x, t), rtol=1e-6, atol=1e-8)


@every_function
def test_grad_agrees_with_backward(f):
    x = point()
    leaf = mg.tensor(x, requires_grad=True)
    f(leaf).backward()
    np.testing.assert_array_equal(grad(f)(x).data, leaf.grad.data)


@every_function
def test_forward_over_reverse_is_a_hessian_vector_product(f):
    x, t = point(), point()
    g, hv = jvp(grad(f), (x,), (t,))
    np.testing.assert_allclose(g.data, grad(f)(x).data)
    np.testing.assert_allclose(hv.data, numeric_jvp(grad(f), x, t), rtol=1e-5, atol=1e-7)


@every_function
def test_reverse_over_forward_is_the_same_product(f):
    x, t = point(), point()
    directional = grad(lambda x: jvp(f, (x,), (t,))[1])(x)
    np.testing.assert_allclose(directional.data, jvp(grad(f), (x,), (t,))[1].data, atol=1e-12)


@every_function
def test_vmap_of_grad_gives_each_examples_gradient(f):
    xs = mg.tensor(rng.normal(size=(4, 3)))
    one_by_one = np.stack([grad(f)(x).data for x in xs])
    np.testing.assert_allclose(vmap(grad(f))(xs).data, one_by_one, atol=1e-14)


@every_function
def test_grad_of_vmap_gives_the_same(f):
    xs = mg.tensor(rng.normal(size=(4, 3)))
    whole = grad(lambda xs: vmap(f)(xs).sum())(xs)
    np.testing.assert_allclose(whole.data, vmap(grad(f))(xs).data, atol=1e-14)


@every_function
def test_vmap_of_jvp_of_grad(f):
    xs, ts = mg.tensor(rng.normal(size=(4, 3))), mg.tensor(rng.normal(size=(4, 3)))
    hvp = lambda x, t: jvp(grad(f), (x,), (t,))[1]
    one_by_one = np.stack([hvp(x, t).data for x, t in zip(xs, ts)])
    np.testing.assert_allclose(vmap(hvp)(xs, ts).data, one_by_one, atol=1e-13)


@every_function
def test_reverse_over_reverse_over_reverse(f):
    x, u, v = point(), point(), point()
    once = lambda x: (grad(f)(x) * u).sum()
    twice = lambda x: (grad(once)(x) * v).sum()
    np.testing.assert_allclose(
        grad(twice)(x).data @ u.data, numeric_jvp(twice, x, u), rtol=1e-4, atol=1e-6
    )


def test_an_inner_derivative_does_not_take_the_outer_variable_for_its_own():
    one = mg.tensor(1.0)
    inner = lambda x: grad(lambda y: x + y)(mg.tensor(2.0))
    assert grad(lambda x: x * inner(x))(one).item() == 1.0
    forward = lambda x: jvp(lambda y: x + y, (mg.tensor(2.0),), (one,))[1]
    assert jvp(lambda x: x * forward(x), (one,), (one,))[1].item() == 1.0


def test_transforms_see_tensors_tracked_outside():
    w = mg.tensor([2.0, 3.0], requires_grad=True)
    gx = grad(lambda x: (w * x * x).sum())(mg.tensor([1.0, 1.0]))
    gx.sum().backward()
    assert w.grad.tolist() == [2, 2]


@pytest.mark.parametrize("transform", [grad, lambda f: lambda x: vjp(f, x)])
def test_a_backward_that_would_leave_out_the_leaves_outside_is_refused(transform):
    w = mg.tensor([2.0, 3.0], requires_grad=True)

    def f(x):
        loss = (w * x).sum()
        loss.backward()
        return loss

    with pytest.raises(mg.errors.TransformError, match="leaves from outside .* are constants"):
        transform(f)(mg.tensor([1.0, 1.0]))
    assert w.grad is None


def test_a_backward_of_tensors_from_outside_runs_inside_a_transform_too():
    w = mg.tensor([2.0, 3.0], requires_grad=True)

    def f(x):
        (w * w).sum().backward()
        return (x * x).sum()

    assert grad(f)(mg.tensor([1.0, 1.0])).tolist() == [2, 2]
    assert w.grad.tolist() == [4, 6]


def test_inside_a_transform_the_error_of_an_unreached_input_says_why():
    w = mg.tensor([2.0, 3.0], requires_grad=True)
    with pytest.raises(ValueError, match="do not depend on .* a tensor from outside is a constant"):
        grad(lambda x: mg.grad((w * x).sum(), w).sum())(mg.tensor([1.0, 1.0]))


def test_grad_of_grad_through_a_tracked_argument():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    grad(lambda x: (x**3).sum())(x).sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_vjp_can_be_pulled_back_more_than_once():
    y, vjp_fn = vjp(lambda x: x * x, mg.tensor([1.0, 2.0]))
    assert y.tolist() == [1, 4]
    assert vjp_fn(np.array([1.0, 0.0]))[0].tolist() == [2, 0]
    assert vjp_fn(np.array([0.0, 1.0]))[0].tolist() == [0, 4]


def test_grad_takes_trees_and_auxiliary_results():
    params = {"w": mg.tensor([2.0]), "b": [mg.tensor([1.0])]}
    loss = lambda p, x: (((p["w"] * x + p["b"][0]) ** 2).sum(), {"seen": x})
    g, aux = grad(loss, has_aux=True)(params, mg.tensor([3.0]))
    assert g["w"].tolist() == [42] and g["b"][0].tolist() == [14] and aux["seen"].tolist() == [3]


def test_vmap_maps_over_chosen_axes():
    x, y = mg.tensor(rng.normal(size=(3, 4))), mg.tensor(rng.normal(size=3))
    result = vmap(lambda a, b: (a * b).sum(), in_axes=(1, None))(x, y)
    np.testing.assert_allclose(result.data, (x.data * y.data[:, None]).sum(0))
    moved = vmap(lambda a: a * 2, in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(moved.data, x.data * 2)


def test_a_function_with_no_scalar_result_is_refused_by_grad():
    with pytest.raises(mg.errors.TransformError, match="one scalar result"):
        grad(lambda x: x * 2)(mg.tensor([1.0, 2.0]))


def test_the_truth_of_a_batched_tensor_is_refused():
    with pytest.raises(mg.errors.TransformError, match=r"mg\.where"):
        vmap(lambda x: x if x > 0 else -x)(mg.tensor([1.0, -1.0]))


def test_jvp_names_a_tangent_of_wrong_shape():
    with pytest.raises(mg.errors.TransformError, match=r"tangents\[0\] has shape \(3,\)"):
        jvp(lambda x: x, (mg.tensor([1.0, 2.0]),), (mg.tensor([1.0, 2.0, 3.0]),))


def test_detach_stays_inside_its_transform():
    xs = mg.tensor(rng.normal(size=(4, 3)))
    doubled = vmap(lambda x: x.detach() * x)(xs)
    np.testing.assert_array_equal(doubled.data, xs.data * xs.data)
    one = mg.tensor(2.0)
    assert jvp(lambda x: x.detach() * x, (one,), (one,))[1].item() == 4.0
    assert grad(lambda x: x.detach() * x)(one).item() == 2.0


def test_what_no_grad_makes_constant_is_constant_in_every_mode():
    def f(x):
        with mg.no_grad():
            c = x * x
        return (x * c).sum()

    x, t = point(), point()
    np.testing.assert_allclose(grad(f)(x).data, x.data**2)
    expected = (x.data**2 * t.data).sum()
    np.testing.assert_allclose(jvp(f, (x,), (t,))[1].data, expected)
    np.testing.assert_allclose(mg.func.linearize(f, x)[1](t).data, expected)


CALLED = {
    "grad": grad(lambda x: (x**3).sum()),
    "jvp": lambda x: jvp(lambda x: x**3, (x,), (np.ones(3),))[1],
    "vjp": lambda x: vjp(lambda x: x**3, x)[1](np.ones(3))[0],
    "vmap": vmap(lambda x: 3 * x**2),
    "jacobian": lambda x: mg.func.jacobian(lambda x: x**3)(x).sum(axis=0),
}


@pytest.mark.parametrize("transform", CALLED.values(), ids=CALLED)
def test_what_a_transform_gives_under_no_grad_is_a_constant(transform):
    def f(x):
        with mg.no_grad():
            c = transform(x)
        return (x * c).sum()

    x, t = point(), point()
    c = 3 * x.data**2
    np.testing.assert_allclose(grad(f)(x).data, c)
    np.testing.assert_allclose(jvp(f, (x,), (t,))[1].data, (c * t.data).sum())
    leaf = mg.tensor(x, requires_grad=True)
    f(leaf).backward()
    np.testing.assert_allclose(leaf.grad.data, c)
    with mg.no_grad():
        assert not transform(leaf).requires_grad
    assert transform(leaf).requires_grad and modes.active == 0


@pytest.mark.parametrize("taken", [np.asarray, lambda x: np.array([x, x]), lambda x: np.r_[x]])
def test_numpy_is_refused_a_plain_array_of_what_has_a_tangent(taken):
    x, t = point(), point()
    with pytest.raises(TypeError, match="drop this tensor's tangent"):
        jvp(lambda x: taken(x).sum() * x, (x,), (t,))
    pushed = jvp(lambda x: taken(x.detach()).sum() * x, (x,), (t,))[1]
    np.testing.assert_array_equal(pushed.data, taken(x.data).sum() * t.data)


@pytest.mark.parametrize("transform", [vmap, lambda f: lambda x: jvp(f, (x,), (x,))])
def test_a_mapped_tensor_is_no_leaf_of_a_backward(transform):
    with pytest.raises(mg.errors.TransformError, match=r"mg\.func\.grad"):
        transform(lambda x: mg.grad(x.requires_grad_() * 2, x))(mg.tensor([1.0]))


def test_a_level_ends_with_an_exception():
    for transform in (grad, vmap, mg.func.jacfwd, mg.func.hessian):
        with pytest.raises(ZeroDivisionError):
            transform(lambda x: 1 / 0)(mg.tensor([1.0]))
    assert modes.active == 0 and modes.state.level == 0


# -- residuals, constants ----------------------------------------------------------------------

RESIDUALS = {
    "log_softmax": lambda x: (mg.log_softmax(x) ** 2).sum(),
    "max_pool": lambda x: (mg.max_pool1d((x * x * x).reshape(1, 1, 3), 2) ** 2).sum(),
    "cross_entropy": lambda x: mg.cross_entropy(x.reshape(1, 3) * x, np.array([1])),
    "layer_norm": lambda x: (mg.layer_norm(x, (3,)) ** 3).sum(),
}


@pytest.mark.parametrize("f", RESIDUALS.values(), ids=RESIDUALS)
def test_what_a_forward_keeps_for_its_rules_passes_every_level(f):
    x, t = mg.tensor([0.3, -0.7, 1.1]), mg.tensor([1.0, -2.0, 0.5])
    over_reverse = jvp(grad(f), (x,), (t,))[1]
    over_forward = grad(lambda x: jvp(f, (x,), (t,))[1])(x)
    twice_reverse = grad(lambda x: (grad(f)(x) * t).sum())(x)
    np.testing.assert_allclose(over_reverse.data, twice_reverse.data, rtol=1e-12)
    np.testing.assert_allclose(over_forward.data, twice_reverse.data, rtol=1e-12)


def cut(x):
    return (x * x.detach() * x).sum()  # 2 c x with c = x, so 2 x²; its derivative 2 c


CUT = {
    "grad": (lambda x: grad(cut)(x), lambda x: 2 * x**2),
    "grad of grad": (lambda x: grad(lambda x: grad(cut)(x).sum())(x), lambda x: 2 * x),
    "jvp of grad": (lambda x: jvp(grad(cut), (x,), (x,))[1], lambda x: 2 * x**2),
    "grad of jvp": (lambda x: grad(lambda x: jvp(cut, (x,), (x * 0 + 1,))[1])(x), lambda x: 2 * x),
    "grad of vmap": (lambda x: grad(lambda x: vmap(cut)(x).sum())(x), lambda x: 2 * x**2),
    "vmap of grad": (lambda x: vmap(grad(cut))(x), lambda x: 2 * x**2),
    "jvp of vmap": (lambda x: jvp(vmap(cut), (x,), (x,))[1], lambda x: 2 * x**3),
}


@pytest.mark.parametrize(("transformed", "expected"), CUT.values(), ids=CUT)
def test_what_is_detached_is_constant_at_every_level(transformed, expected):
    x = mg.tensor([0.5, -2.0, 3.0])
    np.testing.assert_allclose(transformed(x).data, expected(x.data))


@pytest.mark.parametrize("transform", [mg.func.grad, mg.func.hessian], ids=["one", "nested"])
def test_a_tensor_made_of_an_argument_is_a_leaf_of_its_own(transform):
    seen = []

    def f(x):
        leaf = mg.tensor(x, requires_grad=True)
        (leaf * leaf).sum().backward()
        seen.append(leaf.grad)
        return (x * x * x).sum()

    transform(f)(mg.tensor([1.0, 2.0]))
    np.testing.assert_array_equal(seen[0].numpy(), [2.0, 4.0])


LISTS = {
    "a power": lambda x: x ** [1, 2, 3],
    "arctan2": lambda x: np.arctan2(x, [1, 2, 3]),
    "xlogy": lambda x: mg.xlogy([1, 2, 3], x),
    "lerp": lambda x: mg.lerp([1, 2, 3], x, 0.5),
}


@pytest.mark.parametrize("f", LISTS.values(), ids=LISTS)
def test_a_list_beside_a_dual_is_an_array(f):
    x, t = mg.tensor([0.3, 0.6, 0.9]), mg.tensor([1.0, 2.0, 3.0])
    _, along = jvp(f, (x,), (t,))
    gradient = grad(lambda x: f(x).sum())(x)
    np.testing.assert_allclose(along.numpy(), (gradient * t).numpy())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_by_pythons_module_have_derivatives(copied):
    def f(x):
        return (copied(x) ** 2 * copied({"x": x})["x"]).sum()

    x, t = mg.tensor([1.0, 2.0]), mg.tensor([1.0, 0.0])
    assert grad(f)(x).tolist() == [3.0, 12.0]
    assert jvp(f, (x,), (t,))[1].tolist() == 3.0
    assert mg.func.hessian(f)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert grad(lambda x: vmap(f)(x.reshape(2, 1)).sum())(x).tolist() == [3.0, 12.0]
