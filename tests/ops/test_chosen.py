"""Reductions of chosen elements: NumPy's where=, initial= and mean=, as functions and methods."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck

pytestmark = pytest.mark.promise(
    "reductions of chosen elements (where=, initial=, mean=) are NumPy's, and other "
    "elements get no gradient"
)

X = np.random.default_rng(0).standard_normal((3, 4))
MASK = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]], bool)
WITH_NAN = np.where(np.eye(3, 4) > 0, np.nan, X)
SPREAD = [np.var, np.std, np.nanvar, np.nanstd]
AXES = [{}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (0, 1)}]


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("f", SPREAD)
def test_the_spread_of_chosen_elements_is_numpys(f, axes):
    for dtype in (np.float64, np.float32, np.complex64, np.int64):
        x = X.astype(dtype) if dtype is np.int64 or "nan" not in f.__name__ else WITH_NAN
        y, expected = (f(v, where=MASK, **axes) for v in (mg.tensor(x, dtype=x.dtype), x))
        assert y.dtype == expected.dtype and y.shape == expected.shape
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("f", SPREAD)
def test_the_spread_of_chosen_elements_has_the_gradient_of_these_alone(f):
    gradcheck(lambda x: f(x, where=MASK, axis=1, ddof=1), X)
    leaf = mg.tensor(WITH_NAN if "nan" in f.__name__ else X, requires_grad=True)
    assert (mg.grad(f(leaf, where=MASK), leaf).numpy()[~MASK] == 0).all()


@pytest.mark.parametrize("f", SPREAD)
def test_the_spread_about_a_known_mean_is_numpys(f):
    mean = X.mean(axis=1, keepdims=True) + 0.25
    for options in ({}, {"ddof": 1}, {"correction": 1}, {"where": MASK, "keepdims": True}):
        y, expected = (f(v, axis=1, mean=mean, **options) for v in (mg.tensor(X), X))
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("f", SPREAD)
def test_a_mean_that_is_given_has_a_gradient_of_its_own(f):
    mean = X.mean(axis=0, keepdims=True) + 0.25
    gradcheck(lambda x, m: f(x, axis=0, mean=m, ddof=1), (X, mean))


@pytest.mark.parametrize("f", [np.std, np.nanstd])
def test_the_deviation_of_equal_chosen_elements_has_gradient_0(f):
    leaf = mg.tensor([1.0, 2.0, 1.0], requires_grad=True)
    y = f(leaf, where=np.array([True, False, True]))
    assert y.item() == 0 and mg.grad(y, leaf).tolist() == [0, 0, 0]


def test_the_variance_of_float16_is_added_up_in_float32():
    x, mask = np.full(4096, 1.0, np.float16), np.ones(4096, bool)
    x[::2] = -1
    y = np.var(mg.tensor(x), where=mask)
    assert y.dtype == np.float16 and y.item() == 1


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin"])
@pytest.mark.parametrize("axes", AXES)
def test_a_nan_reduction_of_chosen_elements_starts_from_initial_as_numpys_does(name, axes):
    for initial in (-0.25, 0.5):
        options = {**axes, "where": MASK, "initial": initial}
        f = getattr(np, name)
        y, expected = f(mg.tensor(WITH_NAN), **options), f(WITH_NAN, **options)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
        np.testing.assert_array_equal(
            getattr(mg, name)(mg.tensor(WITH_NAN), **options).numpy(), y.numpy()
        )
        gradcheck(lambda x, f=f, options=options: f(x, **options), X)


def test_nanmean_of_chosen_elements_is_numpys():
    leaf = mg.tensor(WITH_NAN, requires_grad=True)
    y = np.nanmean(leaf, axis=1, where=MASK)
    np.testing.assert_allclose(y.detach().numpy(), np.nanmean(WITH_NAN, axis=1, where=MASK))
    counted = MASK & ~np.isnan(WITH_NAN)
    expected = counted / counted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mg.grad(y.sum(), leaf).numpy(), expected)


@pytest.mark.parametrize("axes", [(), (0,), (1, None, None, True)])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "any", "all", "max", "min"])
def test_a_method_takes_the_options_of_ndarrays(name, axes):
    axes = axes if name not in ("any", "all", "max", "min") else axes[:2]
    axes = axes[:3] if name in ("var", "std") else axes
    options = {"where": MASK} | ({"initial": 0.25} if name in ("sum", "prod", "max", "min") else {})
    y, expected = (getattr(v, name)(*axes, **options) for v in (mg.tensor(X), X))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


def test_a_method_takes_initial_by_position_as_ndarrays_does():
    x = mg.tensor(X)
    np.testing.assert_allclose(x.sum(0, None, None, False, 2.0).numpy(), X.sum(0, initial=2.0))
    assert x.max(None, None, False, 9.0).item() == 9


def test_dtype_none_of_a_mean_by_position_asks_for_nothing():
    y = np.mean(mg.tensor(X), 0, None, None, True)
    np.testing.assert_allclose(y.numpy(), np.mean(X, 0, None, None, True))


@pytest.mark.parametrize("f", [*SPREAD, mg.var, mg.std, mg.nanvar, mg.nanstd])
def test_ddof_beside_correction_is_an_error_as_in_numpy(f):
    with pytest.raises(ValueError, match="two names of the number taken from n.*give one"):
        f(mg.tensor(X), ddof=1, correction=1)


def test_a_method_refuses_ddof_beside_correction_too():
    with pytest.raises(ValueError, match=r"std.*ddof=1 and correction=2"):
        mg.tensor(X).std(ddof=1, correction=2)


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("name, option", [("sum", "where"), ("max", "initial"), ("var", "mean")])
def test_an_op_says_which_function_takes_these_options(name, option):
    with pytest.raises(TypeError, match=rf"here it is np\.{name}\(x, {option}=\)"):
        getattr(mg, name)(mg.tensor(X), **{option: X})


def test_chosen_variances_are_differentiable_twice():
    leaf = mg.tensor(X, requires_grad=True)
    g = mg.grad(np.var(leaf, where=MASK) ** 2, leaf, create_graph=True)
    numbers = mg.grad((g * g).sum(), leaf)
    eps, d = 1e-6, np.ones_like(X) * MASK * X

    def size(values):
        leaf = mg.tensor(values, requires_grad=True)
        return (mg.grad(np.var(leaf, where=MASK) ** 2, leaf).numpy() ** 2).sum()

    slope = (size(X + eps * d) - size(X - eps * d)) / (2 * eps)
    assert abs((numbers.numpy() * d).sum() - slope) < 1e-6 * abs(slope)


@pytest.mark.parametrize("f", SPREAD)
def test_the_spread_of_chosen_elements_of_each_example_is_that_of_the_example(f):
    xs = np.random.default_rng(1).standard_normal((5, 3, 4))
    found = mg.func.vmap(mg.func.grad(lambda x: f(x, where=MASK, ddof=1)))(mg.tensor(xs))
    for g, x in zip(found.numpy(), xs, strict=True):
        leaf = mg.tensor(x, requires_grad=True)
        np.testing.assert_allclose(g, mg.grad(f(leaf, where=MASK, ddof=1), leaf).numpy())


@pytest.mark.parametrize("f", [np.var, np.std])
@pytest.mark.parametrize("wanted", [None, np.complex64, np.complex128, np.float32])
def test_a_spread_of_chosen_elements_has_the_dtype_asked_for_as_numpys(f, wanted):
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    for v in (x, x + 1j) if np.dtype(wanted or complex).kind == "c" else (x,):
        found = f(mg.tensor(v), dtype=wanted, where=x > 1)
        expected = f(v, dtype=wanted, where=x > 1)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
