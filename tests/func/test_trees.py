"""Arguments and results may be trees, in every transform, with has_aux and argnums."""

import dataclasses
import inspect
import math
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import TransformError
from minigrad.func import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    per_sample_grad,
    ravel_pytree,
    tree_leaves,
    value_and_grad,
    vhp,
    vjp,
    vmap,
)  # fmt: skip
from minigrad.func.tree import leaves, rebuild, tree_map

pytestmark = pytest.mark.promise("transforms take trees, aux, argnums; the numbers of torch.func")

Pair = namedtuple("Pair", "w b")


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object
    b: object


def numbers(*shape):
    return mg.tensor(np.random.default_rng(0).normal(size=shape))


FORMS = {
    "dict": lambda w, b: {"w": w, "b": b},
    "ordered": lambda w, b: OrderedDict(z=w, a=b),
    "default": lambda w, b: defaultdict(list, w=w, b=b),
    "list": lambda w, b: [w, [b, None]],
    "tuple": lambda w, b: (w, (b,)),
    "namedtuple": Pair,
    "dataclass": Frozen,
    "mixed keys": lambda w, b: {1: w, "b": b},
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def polynomial(tree):
    w, b = sorted(leaves(tree), key=lambda x: -x.ndim)
    return (w * w * w * b).sum() + b * b


@forms
def test_a_tree_is_put_together_as_it_was(form):
    made = form(numbers(2), numbers())
    again = rebuild(made, leaves(made))
    assert type(again) is type(made) and tree_map(id, again) == tree_map(id, made)


@forms
def test_gradients_have_the_form_of_the_argument(form):
    w, b = numbers(3), mg.tensor(2.0)
    g = grad(polynomial)(form(w, b))
    assert type(g) is type(form(w, b))
    gw, gb = sorted(leaves(g), key=lambda x: -x.ndim)
    np.testing.assert_allclose(gw.data, 3 * w.data**2 * 2)
    np.testing.assert_allclose(gb.data, (w.data**3).sum() + 4)
    np.testing.assert_array_equal(leaves(vjp(polynomial, form(w, b))[1](1.0)[0])[0], leaves(g)[0])


@forms
def test_jvp_and_linearize_push_trees(form):
    x, t = form(numbers(3), mg.tensor(2.0)), form(mg.ones(3), mg.tensor(0.5))
    expected = sum((a * b).sum() for a, b in zip(leaves(grad(polynomial)(x)), leaves(t)))
    np.testing.assert_allclose(jvp(polynomial, (x,), (t,))[1].data, expected.data)
    y, push = linearize(polynomial, x)
    assert y.item() == polynomial(x).item()
    np.testing.assert_allclose(push(t).data, expected.data)


@pytest.mark.parametrize("jac", [jacrev, jacfwd])
def test_a_jacobian_is_a_tree_of_results_of_trees_of_arguments(jac):
    f = lambda p, x: {"y": p["w"] * x, "s": [(p["b"] * x).sum()]}
    p, x = {"w": numbers(3), "b": numbers(3)}, numbers(3)
    j = jac(f, argnums=(0, 1))(p, x)
    np.testing.assert_allclose(j["y"][0]["w"].data, np.diag(x.data))
    np.testing.assert_allclose(j["y"][1].data, np.diag(p["w"].data))
    np.testing.assert_allclose(j["s"][0][0]["b"].data, x.data)
    assert j["y"][0]["b"].shape == (3, 3) and not j["y"][0]["b"].data.any()


def test_a_hessian_of_a_tree_has_a_block_for_each_pair():
    x = {"a": numbers(2), "b": mg.tensor(3.0)}
    h = hessian(lambda p: (p["a"] ** 2).sum() * p["b"])(x)
    np.testing.assert_allclose(h["a"]["a"].data, 6 * np.eye(2))
    np.testing.assert_allclose(h["a"]["b"].data, 2 * x["a"].data)
    np.testing.assert_allclose(h["b"]["a"].data, 2 * x["a"].data)
    assert h["b"]["b"].item() == 0


def test_hvp_takes_several_primals_and_trees():
    x, y = {"a": numbers(2)}, mg.tensor(3.0)
    f = lambda p, y: (p["a"] ** 2).sum() * y
    hx, hy = hvp(f, (x, y), ({"a": mg.ones(2)}, mg.tensor(1.0)))
    np.testing.assert_allclose(hx["a"].data, 6 + 2 * x["a"].data)
    np.testing.assert_allclose(hy.data, 2 * x["a"].data.sum())


def with_aux(x):
    return (x * x).sum(), {"twice": x * 2, "name": "seen", "none": None}


@pytest.mark.parametrize(
    "aux_of",
    [
        lambda x: grad(with_aux, has_aux=True)(x)[1],
        lambda x: value_and_grad(with_aux, has_aux=True)(x)[0][1],
        lambda x: vjp(with_aux, x, has_aux=True)[2],
        lambda x: jvp(with_aux, (x,), (x,), has_aux=True)[2],
        lambda x: linearize(with_aux, x, has_aux=True)[2],
        lambda x: jacrev(with_aux, has_aux=True)(x)[1],
        lambda x: jacfwd(with_aux, has_aux=True)(x)[1],
        lambda x: hessian(with_aux, has_aux=True)(x)[1],
    ],
    ids="grad value_and_grad vjp jvp linearize jacrev jacfwd hessian".split(),
)
def test_an_auxiliary_result_comes_out_as_a_plain_value(aux_of):
    aux = aux_of(mg.tensor([1.0, 2.0]))
    assert type(aux["twice"]) is mg.Tensor and aux["twice"].tolist() == [2, 4]
    assert aux["name"] == "seen" and aux["none"] is None


@pytest.mark.parametrize("transform", [grad, value_and_grad, jacrev, jacfwd, hessian])
def test_argnums_may_be_negative_or_a_tuple_and_are_checked(transform):
    a, b = mg.tensor(2.0), mg.tensor(3.0)
    f = lambda a, b: a * a * b
    last = transform(f, -1)(a, b)
    both = transform(f, (1, 0))(a, b)
    if transform is value_and_grad:
        last, both = last[1], both[1]
    first = both[0][0] if transform is hessian else both[0]
    assert first.item() == last.item()
    with pytest.raises(TransformError, match="argnums=2"):
        transform(f, 2)(a, b)
    with pytest.raises(TransformError, match="twice"):
        transform(f, (0, -2))(a, b)


NOTHING = {
    "grad": lambda f, *xs: grad(f, ())(*xs),
    "value_and_grad": lambda f, *xs: value_and_grad(f, ())(*xs)[1],
    "jacrev": lambda f, *xs: jacrev(f, ())(*xs),
    "jacfwd": lambda f, *xs: jacfwd(f, ())(*xs),
    "hessian": lambda f, *xs: hessian(f, ())(*xs),
    "per_sample_grad": lambda f, *xs: per_sample_grad(f, argnums=())(*[x[None] for x in xs]),
    "vmap of jacfwd": lambda f, *xs: vmap(jacfwd(f, ()))(*[x[None] for x in xs]),
    "hvp": lambda f, *xs: hvp(lambda: f(*xs), (), ()),
    "vhp": lambda f, *xs: vhp(lambda: f(*xs), (), ()),
    "vjp": lambda f, *xs: vjp(lambda: f(*xs))[1](mg.tensor(1.0)),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_derivative_in_no_argument_is_the_empty_tuple(name):
    assert NOTHING[name](lambda a, b: a * b, mg.tensor(2.0), mg.tensor(3.0)) == ()


@pytest.mark.parametrize("transform", [jacrev, jacfwd, hessian])
def test_a_matrix_in_no_argument_has_the_form_of_the_result_and_the_aux(transform):
    f = lambda a, b: ({"p": a * b, "q": [a]}, "aux")
    x = mg.tensor([1.0, 2.0])
    assert transform(f, argnums=(), has_aux=True)(x, x) == ({"p": (), "q": [()]}, "aux")


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
def test_a_derivative_in_a_tree_without_tensors_is_that_tree(transform):
    f = lambda p, x: (x * x).sum()
    assert transform(f)({}, mg.tensor([1.0, 2.0])) == {}


@pytest.mark.parametrize("transform", [grad, value_and_grad, jacrev, jacfwd, hessian])
def test_argnums_may_be_numpys_integers_and_what_is_no_place_is_said(transform):
    a, b = mg.tensor(2.0), mg.tensor(3.0)
    f = lambda a, b: a * a * b
    assert str(transform(f, np.int64(1))(a, b)) == str(transform(f, 1)(a, b))
    for argnums in (0.0, "a", (0, 1.5), None):
        with pytest.raises(TransformError, match="argnums is the position of an argument"):
            transform(f, argnums)


@pytest.mark.parametrize("transform", [grad, value_and_grad, jacrev, jacfwd, hessian, vmap])
def test_a_transformed_function_has_the_name_and_docstring_of_its_function(transform):
    def loss(x, y):
        """What is made small."""

    assert transform(loss).__name__ == "loss" and transform(loss).__doc__ == loss.__doc__
    assert list(inspect.signature(transform(loss)).parameters) == ["x", "y"]


@pytest.mark.parametrize("transform", [grad, value_and_grad, jacrev, jacfwd, hessian, vmap])
def test_what_is_no_function_is_refused_at_once(transform):
    with pytest.raises(TypeError, match="takes the function itself"):
        transform(3)


def test_a_module_is_transformed_without_its_attributes_being_copied():
    double = grad(mg.nn.Linear(2, 1))
    assert not hasattr(double, "weight") and double(mg.ones(2)).shape == (2,)


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (3, "3"),
        ({"a": 1.0, "n": [True]}, "True"),
        ("text", "'text'"),
        (np.arange(3), r"int64 \(3,\)"),
    ],
    ids=["integer", "truth in a tree", "text", "integers"],
)
def test_an_argument_that_cannot_be_differentiated_is_shown_with_the_transform(x, shown):
    for name in ("grad", "jacrev"):
        with pytest.raises(TypeError, match=f"{name} differentiates floating .* is {shown}. Write"):
            getattr(mg.func, name)(lambda x: mg.tensor(1.0))(x)
    with pytest.raises(TypeError, match=f"vjp differentiates .* is {shown}. Write"):
        vjp(lambda x: mg.tensor(1.0), x)


def test_keyword_arguments_are_passed_on():
    f = lambda x, scale: (x * x * scale).sum()
    assert grad(f)(mg.tensor([1.0]), scale=3.0).tolist() == [6]
    assert jacrev(f)(mg.tensor([1.0]), scale=3.0).tolist() == [6]
    assert vmap(f)(mg.tensor([[1.0], [2.0]]), scale=3.0).tolist() == [3, 12]


def test_a_result_that_does_not_depend_has_zeros_even_at_infinity():
    x = mg.tensor([np.inf, 1.0])
    assert grad(lambda x: mg.tensor(1.0))(x).tolist() == [0, 0]
    assert vjp(lambda x: mg.tensor(1.0), x)[1](1.0)[0].tolist() == [0, 0]
    assert jvp(lambda x: mg.tensor([np.inf]), (x,), (x,))[1].tolist() == [0]


LEAVING = {
    "grad": lambda f, x: grad(f)(x),
    "value_and_grad": lambda f, x: value_and_grad(f)(x),
    "vjp": vjp,
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "jacfwd": lambda f, x: mg.func.jacfwd(f)(x),
    "jacrev": lambda f, x: mg.func.jacrev(f)(x),
    "linearize": lambda f, x: mg.func.linearize(f, x),
    "hvp": lambda f, x: hvp(f, (x,), (x,)),
}


@pytest.mark.parametrize("name", LEAVING)
@pytest.mark.parametrize("f", [math.sin, lambda x: 3, lambda x: x.item() ** 2])
def test_a_result_that_left_the_graph_as_a_python_number_is_warned_about_where_it_is(name, f):
    with pytest.warns(UserWarning, match="a number of Python's, which depends on nothing") as seen:
        LEAVING[name](f, mg.tensor(1.0))
    assert seen[0].filename == __file__


@pytest.mark.parametrize("x", [2.0, np.float64(2), np.array(2.0), mg.tensor(2.0)], ids=type)
def test_aux_holds_tensors_whatever_the_argument_was(x):
    f = lambda x: (x * x, {"x": x, "cube": x**3, "text": "none"})
    for aux in (
        value_and_grad(f, has_aux=True)(x)[0][1],
        vjp(f, x, has_aux=True)[2],
        jvp(f, (x,), (1.0,), has_aux=True)[2],
        mg.func.linearize(f, x, has_aux=True)[2],
        mg.func.jacrev(f, has_aux=True)(x)[1],
    ):
        assert type(aux["x"]) is type(aux["cube"]) is mg.Tensor
        assert (aux["x"].item(), aux["cube"].item(), aux["text"]) == (2.0, 8.0, "none")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: vjp(lambda x: {"a": x}, x)[1]({"b": x}), r"keys \['a'\]"),
        (lambda x: jvp(lambda x: x, ([x],), ((x, x),)), "a list of 1"),
        (lambda x: jvp(lambda x: x, x, x), "jvp: primals is a tuple with one entry"),
        (lambda x: hvp(lambda x: x.sum(), x, (x,)), "hvp: primals is a tuple with one entry"),
        (lambda x: hvp(lambda x: x.sum(), (x,), x), "hvp: tangents is a tuple with one entry"),
        (lambda x: vhp(lambda x: x.sum(), x[:1], x[:1]), "vhp: primals is a tuple with one entry"),
        (lambda x: jvp(lambda x: x, (x,), (x, x)), "1 primals but 2 tangents"),
        (lambda x: jvp(lambda x: x * 2.5, (x.astype(int),), (x,)), "floating dtype"),
        (lambda x: jvp(lambda x: x * 2.5, (x,), (x * 1j,)), "complex tangent"),
        (lambda x: linearize(lambda x: x * 2.5, x)[1](x * 1j), "complex tangent"),
        (lambda x: grad(lambda x: (x * 1j).sum())(x), "real scalar; .* complex128"),
        (lambda x: vjp(lambda x: "text", x), "must be tensors"),
        (lambda x: grad(lambda x: x.sum(), has_aux=True)(x), "returns .result, aux."),
        (lambda x: linearize(lambda x: x, x)[1](x[:1]), "shape"),
        (lambda x: jacrev(lambda x: x)(), "argnums"),
        (lambda x: vmap(lambda x: x, in_dims=({"a": 0},))([x]), "in_dims"),
    ],
)
def test_what_does_not_fit_is_said(call, message):
    with pytest.raises(TransformError, match=message):
        call(mg.tensor([1.0, 2.0]))


def test_linearize_runs_the_function_once():
    calls = []

    def f(x):
        calls.append(1)
        return np.sin(x) * x

    x = numbers(3)
    _, push = linearize(f, x)
    for i in range(3):
        t = np.eye(3)[i]
        np.testing.assert_allclose(push(t).data, jvp(lambda x: np.sin(x) * x, (x,), (t,))[1].data)
    assert len(calls) == 1


def test_a_linear_map_is_mapped_and_differentiated_like_any_function():
    A, x = numbers(4, 3), numbers(3)
    push = linearize(lambda x: np.tanh(A @ x), x)[1]
    j = jacrev(lambda x: np.tanh(A @ x))(x)
    np.testing.assert_allclose(vmap(push, out_dims=1)(np.eye(3)).data, j.data, rtol=1e-12)
    np.testing.assert_allclose(jacrev(push)(x).data, j.data, rtol=1e-12)
    np.testing.assert_allclose(vjp(push, x)[1](np.ones(4))[0].data, j.data.sum(0), rtol=1e-12)


def test_linearize_nests_in_other_transforms():
    f = lambda x: (np.sin(x) * x).sum()
    x, t = numbers(3), mg.ones(3)
    along = lambda x: linearize(f, x)[1](t)
    np.testing.assert_allclose(grad(along)(x).data, hvp(f, (x,), (t,)).data, rtol=1e-12)
    np.testing.assert_allclose(vmap(along)(x[None] * 1).data, [along(x).item()], rtol=1e-12)


def test_linearize_of_a_complex_function_is_its_jvp():
    z, t = mg.tensor([1 + 2j, 0.5 - 1j]), mg.tensor([0.3 - 1j, 1j])
    f = lambda z: np.exp(z) * z.conj() + np.abs(z)
    np.testing.assert_allclose(linearize(f, z)[1](t).data, jvp(f, (z,), (t,))[1].data)


CHANGING = {
    "a value": lambda p: (p.update(w=p["w"] ** 2), p["w"])[1],
    "a new key": lambda p: (p.update(v=p["w"] ** 2), p["v"])[1],
    "pop": lambda p: p.pop("w") ** 2,
    "clear": lambda p: (p["w"] ** 2, p.clear())[0],
}


@pytest.mark.parametrize("change", CHANGING)
def test_a_function_may_change_the_containers_that_it_is_given(change):
    f = CHANGING[change]
    x, t = mg.tensor([1.0, 3.0]), mg.tensor([0.5, 2.0])
    total = lambda p: f(p).sum()
    given, along = {"w": x}, {"w": t}
    assert grad(total)(given)["w"].tolist() == [2, 6]
    assert value_and_grad(total)(given)[1]["w"].tolist() == [2, 6]
    assert vjp(f, given)[1](t)[0]["w"].tolist() == [1, 12]
    assert jvp(f, (given,), (along,))[1].tolist() == [1, 12]
    assert linearize(f, given)[1](along).tolist() == [1, 12]
    assert jacrev(f)(given)["w"].tolist() == jacfwd(f)(given)["w"].tolist() == [[2, 0], [0, 6]]
    assert hessian(total)(given)["w"]["w"].tolist() == [[2, 0], [0, 2]]
    assert hvp(total, (given,), (along,))["w"].tolist() == [1, 4]
    assert vmap(grad(total))(given)["w"].tolist() == [2, 6]
    assert given["w"] is x and len(given) == 1


def test_the_push_of_linearize_does_not_depend_on_what_becomes_of_its_primals():
    given = {"w": mg.tensor([1.0, 3.0])}
    _, push = linearize(lambda p: p["w"] ** 2, given)
    given["v"] = 2.0
    assert push({"w": mg.tensor([0.5, 2.0])}).tolist() == [1, 12]


def test_trees_and_in_dims_may_be_nested_deeper_than_pythons_stack():
    deep, axes = mg.ones(2), 0
    for i in range(3000):
        deep, axes = ([deep], [axes]) if i % 2 else ({"a": deep}, {"a": axes})

    def loss(tree):
        return (leaves(tree)[0] ** 2).sum()

    assert leaves(grad(loss)(deep))[0].tolist() == [2, 2]
    assert vmap(loss, in_dims=(axes,))(deep).tolist() == [1, 1]


def test_dicts_are_matched_by_key_also_where_keys_cannot_be_sorted():
    def f(d):
        return 10 * d[1] + d["a"]

    x = {1: mg.tensor(1.0), "a": mg.tensor(2.0)}
    t = {"a": mg.tensor(1.0), 1: mg.tensor(0.0)}
    assert jvp(f, (x,), (t,))[1].tolist() == 1.0
    xs = {1: mg.ones(2), "a": mg.tensor([1.0, 2.0])}
    mapped = vmap(lambda d: 10 * d[1].sum() + d["a"], in_dims=({"a": 0, 1: None},))
    assert mapped(xs).tolist() == [21.0, 22.0]


def test_value_and_grad_give_the_value_itself_beside_the_gradient():
    value, g = value_and_grad(lambda x: (x * x).sum())(mg.tensor([1.0, 3.0]))
    assert value.item() == 10 and g.tolist() == [2, 6]


def test_gradients_of_what_depends_on_no_argument_are_zeros_for_each():
    a, b = mg.tensor([1.0, 3.0]), mg.tensor(2.0)
    ga, gb = vjp(lambda a, b: mg.ones(2), a, b)[1](mg.ones(2))
    assert ga.tolist() == [0, 0] and gb.item() == 0


@forms
def test_a_tree_as_one_vector_and_back(form):
    w, b = numbers(3, 2), mg.tensor(2.0, dtype=np.float32)
    tree = form(w, b)
    vector, unravel = ravel_pytree(tree)
    assert vector.shape == (7,) and vector.dtype == np.float64
    again = unravel(vector * 2)
    assert type(again) is type(tree)
    for x, y in zip(tree_leaves(tree), tree_leaves(again), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(2 * x.numpy(), y.numpy())
