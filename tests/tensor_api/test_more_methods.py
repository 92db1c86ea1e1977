"""Every op that makes sense as one is a method; PyTorch's other names say what to write."""

import inspect
import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.tensor_api.methods import Methods
from minigrad.tensor_api.more_methods import _NAMES
from minigrad.tensor_api.shape_methods import ShapeMethods

X = mg.tensor(np.random.default_rng(0).uniform(0.2, 0.8, (3, 3)))


@pytest.mark.parametrize("name", _NAMES)
def test_a_method_is_the_op_of_its_name(name):
    assert name in op and callable(getattr(X, name))


def test_methods_take_the_ops_arguments():
    np.testing.assert_array_equal(X.erf().numpy(), mg.erf(X).numpy())
    np.testing.assert_array_equal(X.add(X).numpy(), (X + X).numpy())
    np.testing.assert_array_equal(X.median(axis=1).numpy(), mg.median(X, axis=1).numpy())
    np.testing.assert_array_equal(X.where(X > 0.5, 0.0).numpy(), mg.where(X > 0.5, X, 0.0).numpy())
    assert X.compress([True, False, True], 0).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *[(name, {}) for name in ("sum", "mean", "prod", "std", "var", "any", "all")],
        *[(name, {"initial": 0.5}) for name in ("sum", "prod", "max", "min")],
    ],
)
def test_a_method_reduces_the_chosen_elements_as_numpys_does(name, options):
    chosen = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]], bool)
    found = getattr(X, name)(axis=0, where=chosen, **options).numpy()
    expected = getattr(X.numpy(), name)(axis=0, where=chosen, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_method_along_axes_takes_every_option_of_its_function():
    names = [name for name in (*vars(Methods), *vars(ShapeMethods)) if name in vars(mg)]
    for name in (name for name in names if callable(getattr(X, name))):
        options = inspect.signature(getattr(mg, name)).parameters.values()
        of_method = inspect.signature(getattr(X, name)).parameters
        if "axis" not in of_method:
            continue
        assert not [
            p.name for p in options if p.default is not p.empty and p.name not in of_method
        ], name
    assert X.sort(0, descending=True).tolist() == mg.sort(X, 0, descending=True).tolist()
    assert X.argsort(stable=True).tolist() == mg.argsort(X).tolist()
    assert X.var(correction=1).item() == mg.var(X, ddof=1).item()
    assert X.std(correction=1).item() == mg.std(X, ddof=1).item()
    assert X.topk(1, -1, True, False)[0].tolist() == mg.topk(X, 1)[0].tolist()
    assert X.trace(dtype=np.float32).dtype == np.float32


def test_their_gradients_flow():
    x = X.copy().requires_grad_()
    (x.log1p().mul(x).det() + x.logcumsumexp(axis=0).sum()).backward()
    assert x.grad.shape == x.shape


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("det", r"mg\.linalg\.det"),
        ("isin", r"np\.isin, which takes tensors"),
        ("vmap", r"mg\.func\.vmap"),
        ("Linear", r"mg\.nn\.Linear"),
        ("i0", r"mg\.special\.i0"),
        ("trapz", r"mg\.trapezoid"),
    ],
)
def test_a_name_that_is_elsewhere_says_where(name, hint):
    with pytest.raises(AttributeError, match=f"here it is {hint}"):
        getattr(mg, name)


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("name", ["sum", "std", "argmax", "softmax", "norm", "sort", "amax"])
def test_a_method_says_what_pytorchs_dim_is_here(name):
    with pytest.raises(TypeError, match="argument 'dim'; here it is axis="):
        getattr(X, name)(dim=1)


@pytest.mark.layer("courtesy")
def test_a_method_says_the_same_as_the_function():
    messages = []
    for call in (lambda: X.sum(dim=1, keepdim=True), lambda: mg.sum(X, dim=1, keepdim=True)):
        with pytest.raises(TypeError) as caught:
            call()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.layer("courtesy")
def test_a_method_says_what_pytorchs_keepdim_is_here():
    with pytest.raises(TypeError, match="argument 'keepdim'; here it is keepdims="):
        X.mean(1, keepdim=True)


@pytest.mark.layer("courtesy")
def test_a_method_refuses_a_name_that_nobody_knows():
    with pytest.raises(TypeError, match="argument 'foo'; its arguments are "):
        X.sum(foo=1)
    with pytest.raises(TypeError, match="argument 'foo'; its arguments are "):
        X.amax(foo=1)


def test_help_says_what_every_method_is():
    names = [
        name for name in dir(mg.tensor(1.0)) if name[0] != "_" and name not in ("data", "node")
    ]
    assert [name for name in names if not getattr(mg.Tensor, name).__doc__] == []


@pytest.mark.parametrize("name", sorted(set(_NAMES)))
def test_a_method_that_is_an_op_is_a_function_of_the_library_too(name):
    rooms = (mg, mg.linalg, mg.special)
    assert any(getattr(room, name, None) is not None for room in rooms)


def test_flatten_takes_numpys_order():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.flatten("F").tolist() == [1, 3, 2, 4]
    assert x.flatten("C").tolist() == x.flatten().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "name", "sum mean prod var std max min argmax argmin any all take compress".split()
)
def test_a_method_refuses_out_in_place_of_leaving_it_unwritten(name):
    first = {"take": ([0, 1],), "compress": ([True, False, True],)}.get(name, ())
    method = getattr(X, name)
    with pytest.raises(TypeError, match=rf"^{name}: out= would write"):
        method(*first, axis=0, out=mg.zeros(3))
    assert method(*first, axis=0, out=None).shape == method(*first, axis=0).shape


@pytest.mark.parametrize(
    "call",
    [
        lambda v: v.clip(-0.5, 0.5, None), lambda v: v.round(1, None), lambda v: v.dot(v.T, None),
        lambda v: v.trace(0, 0, 1, None, None), lambda v: v.cumsum(0, None, None),
        lambda v: v.copy(order="F"), lambda v: v.copy("C"),
    ],
)  # fmt: skip
def test_a_method_takes_the_arguments_of_ndarrays(call):
    x = np.random.default_rng(0).standard_normal((3, 3))
    np.testing.assert_allclose(call(mg.tensor(x)).numpy(), call(x))


def test_a_copy_has_the_order_in_memory_that_is_asked_for():
    assert mg.tensor(np.ones((2, 3))).copy(order="F").numpy().flags.f_contiguous


@pytest.mark.parametrize("name, args", [("clip", (0, 1)), ("round", (1,)), ("dot", (np.eye(2),))])
def test_out_of_a_method_is_refused_with_what_to_write(name, args):
    with pytest.raises(TypeError, match=rf"{name}: out= .*write y = "):
        getattr(mg.tensor(np.eye(2)), name)(*args, out=np.eye(2))


@pytest.mark.parametrize("name", [name for name in dir(X) if name[0] != "_"])
def test_the_function_that_a_methods_docstring_names_is_there(name):
    doc = inspect.getdoc(getattr(mg.Tensor, name)) or ""
    named = re.match(r"mg\.([\w.]*\w)", doc)
    found = mg
    for part in named[1].split(".") if named else ():
        found = getattr(found, part)
    assert callable(found) is (named is not None)
