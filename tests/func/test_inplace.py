"""Writes inside transforms: y[i] = v and y += v are recorded at the level that v belongs to."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.errors import InPlaceError
from minigrad.errors import TransformError

pytestmark = pytest.mark.promise("writes inside transforms are recorded at their level")

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


def test_every_example_writes_to_a_place_of_its_own():
    def f(v, i):
        y = mg.zeros(3)
        y[i] = v
        return y

    y = func.vmap(f)(X, mg.tensor([0, 1, 2]))
    np.testing.assert_array_equal(y.data, np.diag(X.data))


def test_a_tensor_from_outside_has_the_value_written_by_grad_as_a_constant():
    seen = mg.zeros(3)

    def f(v):
        seen[...] = v * v
        return (seen * v).sum()

    np.testing.assert_allclose(func.grad(f)(X).numpy(), 3 * X.numpy() ** 2)
    assert type(seen) is mg.Tensor and not seen.requires_grad
    assert seen.tolist() == (X * X).tolist()
    np.testing.assert_allclose(func.grad(f)(2 * X).numpy(), 12 * X.numpy() ** 2)
    np.testing.assert_array_equal(func.grad(lambda v: (seen * v).sum())(X).numpy(), seen.numpy())


def test_a_tensor_from_outside_that_jvp_writes_and_returns_is_plain_afterwards():
    seen = mg.zeros(3)

    def f(v):
        seen[...] = v * v
        return seen

    for _ in range(2):
        y, t = func.jvp(f, (X,), (mg.ones(3),))
        assert type(seen) is mg.Tensor
        assert seen.tolist() == y.tolist() == (X * X).tolist() and t.tolist() == (2 * X).tolist()


def test_a_tensor_from_outside_that_vjp_writes_and_returns_can_be_pulled_back():
    seen = mg.zeros(3)

    def f(v):
        seen[...] = v * v
        return seen

    y, vjp_fn = func.vjp(f, X)
    seen[...] = 7
    np.testing.assert_array_equal(y.numpy(), X.numpy() ** 2)
    np.testing.assert_array_equal(vjp_fn(mg.ones(3))[0].numpy(), 2 * X.numpy())


def test_what_grad_writes_to_a_tensor_of_the_transform_around_it_is_differentiated_by_that():
    def f(v):
        seen = mg.zeros(3)

        def inner(u):
            seen[...] = u * v
            return (u * u).sum()

        return (func.grad(inner)(v) * seen).sum()  # 2v · v²

    np.testing.assert_allclose(func.grad(f)(X).numpy(), 6 * X.numpy() ** 2)


def test_what_grad_writes_of_a_tracked_argument_has_its_gradient():
    w, seen = mg.tensor([2.0, 3.0], requires_grad=True), mg.zeros(2)

    def f(v):
        seen[...] = v * v
        return v.sum()

    func.grad(f)(w)
    seen.sum().backward()
    assert w.grad.tolist() == [4, 6]


@pytest.mark.parametrize("inner", [lambda f: f, func.grad], ids=["vmap", "vmap of grad"])
def test_a_value_for_each_example_is_not_written_to_a_tensor_from_outside(inner):
    seen = mg.zeros(3)

    def f(v):
        seen[...] = v
        return (seen * v).sum()

    with pytest.raises(TransformError, match=r"vmap: a value for each example .* from outside"):
        func.vmap(inner(f))(mg.stack([X, 2 * X]))
    assert type(seen) is mg.Tensor and seen.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(func.vmap(lambda v: v + seen)(mg.stack([X, X])).numpy()[1], X)


def test_a_tensor_from_outside_that_vmap_writes_and_returns_is_refused_too():
    seen = mg.zeros(3)

    def f(v):
        seen[...] = v
        return seen

    with pytest.raises(TransformError, match="from outside the mapped function"):
        func.vmap(f)(mg.stack([X, 2 * X]))


def test_a_tensor_made_inside_vmap_may_stand_in_a_cycle():
    def f(v):
        y = mg.zeros(3)
        y[...] = v
        holder = [y]
        holder.append(holder)
        return {"y": y, "twice": 2 * y}

    np.testing.assert_array_equal(func.vmap(f)(mg.stack([X, X]))["twice"].numpy()[0], 2 * X.numpy())


def test_after_an_error_a_tensor_from_outside_is_of_no_transform():
    seen = mg.zeros(3)

    def f(v):
        seen[...] = v
        raise KeyError("f's own")

    for transform in (lambda: func.vmap(f)(mg.stack([X, X])), lambda: func.grad(f)(X)):
        with pytest.raises(KeyError, match="f's own"):
            transform()
        assert type(seen) is mg.Tensor and seen.shape == (3,)


DATA = {"an array": lambda x: np.arange(3.0), "its own level": lambda x: x * 3 + 1}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("value", DATA.values(), ids=DATA)
def test_data_that_is_set_is_a_write_under_no_grad(name, value):
    def set_data(x):
        y = x * x
        y.data = value(x)
        return y

    def wrote(x):
        y = x * x
        with mg.no_grad():
            y[...] = value(x)
        return y

    transform = TRANSFORMS[name]
    np.testing.assert_array_equal(transform(set_data).numpy(), transform(wrote).numpy())


def test_data_of_a_mapped_tensor_is_the_whole_batch_and_may_be_set_to_one():
    def less(x):
        x.data = x.data - mg.tensor([[1.0] * 3, [2.0] * 3])
        return x

    xs = mg.stack([X, X])
    assert func.vmap(less)(xs).tolist() == [[0.5, 1.0, 2.0], [-0.5, 0.0, 1.0]]
    assert xs.tolist() == [X.tolist()] * 2


def test_data_of_another_shape_or_from_a_transform_that_the_tensor_is_not_in_is_an_error():
    outside = mg.zeros(3)

    def of_another_shape(x):
        x.data = mg.zeros(2)

    def from_outside(x):
        outside.data = x

    for transform in (func.vmap, func.grad):
        with pytest.raises(TransformError, match=r"inside a transform x keeps its shape, \(\d?,?"):
            transform(of_another_shape)(mg.ones(3, 3))
        with pytest.raises(TransformError, match="belongs to a transform and x, float64"):
            transform(from_outside)(mg.ones(3, 3))
    assert type(outside) is mg.Tensor and outside.tolist() == [0.0] * 3


def multiplied_in_place(v):
    y = mg.tensor([1.0, 2.0, 4.0])
    y *= v  # its derivative needs the y of before
    y[0] *= v[1]
    return y


def multiplied(v):
    y = mg.tensor([1.0, 2.0, 4.0]) * v
    return mg.stack([y[0] * v[1], y[1], y[2]])


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_constant_that_is_multiplied_in_place_is_saved_as_it_was(transform):
    np.testing.assert_allclose(transform(multiplied_in_place), transform(multiplied), rtol=1e-12)


def test_a_constant_that_a_result_needs_is_not_changed_under_it():
    def f(v):
        y = mg.tensor([1.0, 2.0, 4.0])
        z = y * v
        y += v  # the derivative of z needs y
        return (z * y).sum()

    with pytest.raises(InPlaceError, match="a saved array of it is alive"):
        func.grad(f)(X)
    y = mg.tensor([1.0, 2.0, 4.0])  # forward mode needs nothing later
    assert func.jvp(f, (X,), (mg.ones(3),))[1].item() == (y * (y + X) + y * X).sum().item()


@pytest.mark.parametrize("derivative", [func.vjp, func.linearize])
def test_what_vjp_returns_is_of_the_values_that_it_was_given(derivative):
    def f(v):
        h = v * 1.0
        _, push_or_pull = derivative(lambda z: z * z, h)
        h *= v
        return push_or_pull(mg.ones(3))

    with pytest.raises(InPlaceError):
        func.grad(lambda v: f(v)[0].sum())(X)
    with pytest.raises(InPlaceError):
        f(mg.tensor(X, requires_grad=True))
