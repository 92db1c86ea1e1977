"""An argument by PyTorch's name is an error that says what it is called here."""

import inspect

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op
from minigrad.testing import gradcheck

X = mg.tensor(np.random.default_rng(0).uniform(0.2, 0.8, (3, 3)))
NEEDS_MORE = {"piecewise"}  # Python reports the arguments that are missing first


def own_arguments(entry):
    return inspect.signature(entry).parameters


def public_functions():
    rooms = [mg, mg.linalg, mg.fft, mg.special, F]
    found = {
        f"{room.__name__}.{name}": entry
        for room in rooms
        for name, entry in vars(room).items()
        if name[0] != "_" and (isinstance(entry, Primitive) or inspect.isfunction(entry))
    }
    return {name: entry for name, entry in found.items() if entry.__name__ not in NEEDS_MORE}


FUNCTIONS = public_functions()


@pytest.mark.parametrize(
    "name", [name for name, entry in FUNCTIONS.items() if "axis" in own_arguments(entry)]
)
def test_every_function_along_an_axis_says_what_dim_is(name):
    with pytest.raises(TypeError, match="argument 'dim'; here it is axis="):
        FUNCTIONS[name](X, dim=1)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: X.unsqueeze(dim=1), "'dim'; here it is axis="),
        (lambda: mg.quantile(X, 0.5, interpolation="lower"), "'interpolation'; here it is method="),
        (lambda: mg.histogram(X, 3, weight=X), "'weight'; here it is weights="),
        (lambda: mg.diagflat(X, offset=1), "'offset'; here it is k="),
        (lambda: X.gather(dim=1, index=[[0]]), "'dim'; here it is axis="),
        (lambda: X.index_select(dim=0, index=[0]), "'dim'; here it is axis="),
        (lambda: X.narrow(dim=0, start=0, length=1), "'dim'; here it is axis="),
        (lambda: X.flip(dims=(0,)), "'dims'; here it is axis="),
        (lambda: X.flatten(start_dim=1), "'start_dim'; here it is start="),
        (lambda: X.permute(dims=(1, 0)), "'dims'; here it is axes, by position"),
        (lambda: X.expand(size=(2, 3, 3)), "'size'; here it is shape, by position"),
        (lambda: X.add(other=X), "'other'; here it is b="),
        (lambda: X.dot(other=X), "'other'; here it is b="),
        (lambda: mg.mul(X, other=X), "'other'; here it is b="),
        (lambda: mg.norm(X, axis=1, keepdim=True), "'keepdim'; here it is keepdims="),
        (lambda: mg.linalg.norm(X, dim=1), "'dim'; here it is axis="),
        (lambda: mg.flatten(X, start_dim=1), "'start_dim'; here it is start="),
        (lambda: mg.fft.fft2(X, dim=(0, 1)), "'dim'; here it is axes="),
        (lambda: mg.zeros_like(input=X), "'input'; here it is x="),
        (lambda: X.reshape(shape=(9,)), "'shape'; here it is shape, by position"),
        (lambda: X.view(size=(9,)), "'size'; here it is shape, by position"),
        (lambda: X.transpose(axes=(1, 0)), "'axes'; here it is axes, by position"),
        (lambda: X.transpose(dim0=0, dim1=1), r"'dim0'; here it is swapaxes\(axis1=, axis2=\)"),
        (lambda: mg.transpose(X, dim0=0, dim1=1), r"'dim0'; here it is swapaxes\(axis1=, axis2=\)"),
        (lambda: X.div(2, rounding_mode="floor"), "'rounding_mode'; here it is a // b for"),
        (lambda: gradcheck(np.sin, X, eps=1e-6), "'eps'; here it is nothing: it chooses its st"),
        (lambda: gradcheck(np.sin, X, atol=1e-4), "'atol'; here it is nothing: it follows fr"),
        (lambda: X.norm(p=2), "'p'; here it is ord="),
        (lambda: X.var(unbiased=False), r"'unbiased'; here it is ddof=1 for True, ddof=0"),
        (lambda: mg.load("a.npz", map_location="cpu"), "'map_location'; here it is device="),
        (lambda: mg.load("a.npz", weights_only=True), "'weights_only'; here it is nothing: no fi"),
        (lambda: X.swapaxes(0, dim1=1), "'dim1'; here it is axis2="),
        (lambda: X.diagonal(0, dim1=1, dim2=0), "'dim1'; here it is axis1="),
        (lambda: mg.diag_embed(X, axis1=0, dim2=1), "'dim2'; here it is axis2="),
        (lambda: mg.add(X, X, alpha=2), r"'alpha'; here it is a \+ alpha \* b"),
        (lambda: mg.sub(X, X, alpha=2), "'alpha'; here it is a - alpha"),
        (lambda: mg.zeros(size=(2, 3)), "'size'; here it is shape, by position"),
        (lambda: mg.ones(shape=(2, 3)), "'shape'; here it is shape, by position"),
        (lambda: mg.empty(size=2), "'size'; here it is shape, by position"),
        (lambda: mg.rand(size=2), "'size'; here it is shape, by position"),
        (lambda: mg.randn(size=2), "'size'; here it is shape, by position"),
        (lambda: mg.full(size=(2,), fill_value=1), "'size'; here it is shape="),
        (lambda: mg.randint(3, shape=(2,)), "'shape'; here it is size="),
        (lambda: mg.normal(0, 1, shape=(2,)), "'shape'; here it is size="),
        (lambda: mg.arange(0, end=3), "'end'; here it is stop="),
        (lambda: mg.linspace(0, 1, steps=3), "'steps'; here it is num="),
        (lambda: mg.eye(2, M=3), "'M'; here it is m="),
    ],
)
def test_a_call_says_what_the_argument_is_here(call, hint):
    with pytest.raises(TypeError, match=hint):
        call()


def test_the_error_shows_the_call():
    with pytest.raises(TypeError, match=r"^norm\(x: float64 \(3, 3\), ord: 1, dim=1\): norm\(\)"):
        mg.norm(X, 1, dim=1)


@pytest.mark.parametrize("call", [lambda: mg.exp(X, dim=1), lambda: mg.relu6(X, dim=1)])
def test_no_hint_names_an_argument_that_the_function_has_not(call):
    with pytest.raises(TypeError, match="argument 'dim'; its arguments are x$"):
        call()


def test_an_error_from_inside_keeps_its_message():
    with pytest.raises(TypeError, match="its arguments are"):
        mg.add(X)
    with pytest.raises(
        TypeError, match="mse: missing a required argument: 'target'; its arguments"
    ):
        mg.mse(X)


def test_a_call_inside_the_library_does_not_pass_through_the_hint():
    assert op.norm is mg.norm.without_call_context and op.norm is not mg.norm


def test_a_function_keeps_its_signature_and_name():
    assert mg.norm.__name__ == "norm" and mg.norm.__doc__
    assert list(own_arguments(mg.norm))[0] == "x"


def test_the_library_can_be_asked_for_a_name_that_numpy_has_and_it_has_not():
    assert not hasattr(mg, "__all__")
    assert not hasattr(mg, "typecodes")  # a dict of NumPy's
