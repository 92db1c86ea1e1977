"""NumPy functions that are not ops take tensors: its values, and gradients where they have any."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.errors import InPlaceError
from minigrad.testing import gradcheck

pytestmark = pytest.mark.promise("NumPy functions that are no ops: values, gradients, writes")

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((3, 4)), np.array([3.0, 1.0, 2.0])

SAME_VALUES = {
    "isin": (Y, [1.0, 2.0]),
    "isneginf": (np.array([1.0, -np.inf]),),
    "array_equiv": (Y, Y),
    "digitize": (Y, [0.0, 1.5, 2.5]),
    "lexsort": ((Y, Y),),
    "unravel_index": (np.array([1, 5]), (2, 3)),
    "tril_indices_from": (X,),
    "histogram_bin_edges": (Y,),
    "rollaxis": (rng.standard_normal((2, 3, 4)), 2, 1),
    "union1d": (Y, [9.0, 1.0]),
    "intersect1d": (Y, [9.0, 1.0]),
    "setdiff1d": (Y, [9.0, 1.0]),
    "setxor1d": (Y, [9.0, 1.0]),
    "trim_zeros": (np.array([0.0, 1, 0, 2, 0]),),
    "real_if_close": (Y + 0j,),
    "linspace": (Y, 5.0, 4),
    "logspace": (Y, 0.0, 3),
    "geomspace": (Y, 8.0, 4),
}


def as_tensors(value):
    if isinstance(value, tuple):
        return tuple(as_tensors(part) for part in value)
    return mg.tensor(value) if isinstance(value, np.ndarray) else value


def same(ours, theirs):
    if isinstance(theirs, tuple):
        return all(same(*pair) for pair in zip(ours, theirs, strict=True))
    return np.asarray(ours).shape == np.shape(theirs) and np.allclose(ours, theirs)


@pytest.mark.parametrize("name", SAME_VALUES)
def test_values_are_numpys(name):
    args = SAME_VALUES[name]
    assert same(getattr(np, name)(*map(as_tensors, args)), getattr(np, name)(*args))


def test_intersect1d_has_the_common_dtype_of_both():
    both = np.intersect1d(mg.tensor([1, 2, 3]), mg.tensor([2.0, 3.0]))
    assert both.dtype == np.float64 and both.tolist() == [2, 3]


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("trim", ["fb", "f", "B"])
def test_trim_zeros_cuts_every_axis_that_numpy_cuts(trim, axis):
    x = np.zeros((4, 5))
    assert same(np.trim_zeros(mg.tensor(x), trim, axis), np.trim_zeros(x, trim, axis))
    x[1, 2:4] = 3.0
    assert same(np.trim_zeros(mg.tensor(x), trim, axis), np.trim_zeros(x, trim, axis))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.rollaxis(x, 1) * x.T,
        lambda x: np.linspace(x[0], x[1] ** 2, 3),
        lambda x: mg.linspace(x[0, 0], 2.0, 3) * mg.linspace(-1.0, x[1, 1], 3, endpoint=False),
        lambda x: np.geomspace(x[0] ** 2 + 1, x[1] ** 2 + 1, 3),
        lambda x: np.union1d(x, [0.5]) ** 2,
        lambda x: np.setdiff1d(x, [0.5]) ** 2,
        lambda x: np.apply_along_axis(lambda row: row**2 - row.sum(), 1, x),
        lambda x: np.apply_over_axes(np.sum, x**2, [0, 1]),
    ],
)
def test_gradients_flow(f):
    assert gradcheck(f, (X,))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_apply_along_axis_places_the_results_axes_as_numpy(axis):
    for f in (np.sum, lambda row: row[:2] * 2, lambda row: np.outer(row[:2], row[:3])):
        np.testing.assert_allclose(
            np.apply_along_axis(f, axis, mg.tensor(X)).numpy(), np.apply_along_axis(f, axis, X)
        )


WRITES = {
    "copyto": lambda x, v: np.copyto(x, v[:, None]),
    "copyto where": lambda x, v: np.copyto(x, v[:, None], where=X > 0),
    "fill_diagonal": lambda x, v: np.fill_diagonal(x, v[:2]),
    "put": lambda x, v: np.put(x, [1, -1, 5, 2], v),
    "putmask": lambda x, v: np.putmask(x, X > 0, v),
    "place": lambda x, v: np.place(x, X > 0, v),
    "put_along_axis": lambda x, v: np.put_along_axis(x, np.array([[1, 0, 2, 1]]), v[0] * 3, 0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_numpys_and_recorded(name):
    def f(x, v):
        y = x * 1
        WRITES[name](y, v)
        return y

    expected = X * 1
    WRITES[name](expected, Y)
    np.testing.assert_array_equal(f(mg.tensor(X), mg.tensor(Y)).numpy(), expected)
    assert gradcheck(f, (X, Y))


def test_a_leaf_is_not_written_and_an_array_takes_no_tensor():
    with pytest.raises(InPlaceError, match="is a leaf that requires a gradient"):
        np.fill_diagonal(mg.tensor(X, requires_grad=True), 0.0)
    with pytest.raises(TypeError, match="np.copyto: writing a tensor's values into a NumPy array"):
        np.copyto(X.copy(), mg.tensor(X, requires_grad=True))


def test_where_of_a_condition_alone_gives_its_places():
    x = mg.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert [places.tolist() for places in np.where(x > 1)] == [[0, 1], [1, 0]]
    assert x[np.where(x > 1)].tolist() == [2, 3]


@pytest.mark.parametrize(
    "f",
    [
        np.isposinf, np.isneginf, lambda x: np.digitize(x, [0.0, 1.5, 2.5]),
        lambda x: np.digitize(x, [2.0, 1.0, 0.0], right=True), lambda x: x[np.diag_indices_from(x)],
        lambda x: x[np.tril_indices_from(x)], lambda x: x[np.triu_indices_from(x, 1)],
    ],
    ids="isposinf isneginf digitize falling diag_indices tril_indices triu_indices".split(),
)  # fmt: skip
def test_what_is_asked_of_each_element_or_of_the_shape_runs_under_vmap(f):
    x = np.array([[[1.0, np.inf], [-np.inf, 2.0]], [[-1.0, 0.0], [1.5, np.inf]]])
    np.testing.assert_array_equal(mg.func.vmap(f)(x).numpy(), np.stack([f(row) for row in x]))


def test_digitize_refuses_edges_without_an_order():
    with pytest.raises(ValueError, match="monotonically increasing or decreasing"):
        np.digitize(mg.ones(2), [0.0, 2.0, 1.0])


def test_unique_values_keeps_each_nan_and_the_gradient():
    x = mg.tensor([np.nan, 2.0, np.nan, 1.0, 2.0], requires_grad=True)
    y = mg.ops.numpy_functions._unique_values(x)
    np.testing.assert_array_equal(y.numpy(), np.unique(x.detach().numpy(), equal_nan=False))
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1, 0]


def test_put_along_axis_none_takes_a_vector_of_places():
    x = mg.zeros((2, 3))
    with pytest.raises(ValueError, match="indices is a vector, got shape \\(2, 1\\)"):
        np.put_along_axis(x, np.array([[0], [1]]), 1.0, axis=None)


def test_tolerances_may_be_tensors():
    a, b, atol = mg.tensor([1.0, 2.0]), mg.tensor([1.0, 2.1]), mg.tensor([0.2, 0.01])
    assert np.isclose(a, b, atol=atol).tolist() == [True, False]
    assert np.allclose(a, b, rtol=mg.tensor(0.5))
    with pytest.raises(ValueError, match="broadcast"):
        np.isclose(a, b, atol=mg.ones(3))


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse"])
def test_numpys_unique_functions_name_their_parts_and_keep_the_gradient(name):
    x = np.array([[2.0, 1.0], [np.nan, 2.0]])
    leaf, f = mg.tensor(x, requires_grad=True), getattr(np, name)
    found, expected = f(leaf), f(x)
    assert found._fields == expected._fields
    for y, part in zip(found, expected, strict=True):
        np.testing.assert_array_equal(y.detach().numpy(), part)
    assert mg.grad(found.values[:2].sum(), leaf).tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize("f", [np.setdiff1d, np.setxor1d, np.intersect1d])
def test_sets_of_entries_known_to_be_distinct_are_numpys(f):
    a, b = np.array([3.0, 1.0, 2.0, 5.0]), np.array([2.0, 7.0, 3.0])
    leaf = mg.tensor(a, requires_grad=True)
    y, expected = f(leaf, b, assume_unique=True), f(a, b, assume_unique=True)
    assert y.tolist() == expected.tolist()
    assert mg.grad(y.sum(), leaf).tolist() == np.isin(a, expected).astype(float).tolist()


def test_intersect1d_says_where_common_entries_stand_first():
    a, b = np.array([[3.0, 1.0], [3.0, 5.0]]), np.array([5.0, 3.0, 3.0])
    leaf = mg.tensor(a, requires_grad=True)
    found, expected = (np.intersect1d(v, b, return_indices=True) for v in (leaf, a))
    assert [y.tolist() for y in found] == [y.tolist() for y in expected]
    assert mg.grad(found[0].sum(), leaf).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("value", [3.5, 2j, np.array([1.5, 2, 3]), [1, 2, 3.0], np.float32(2)])
def test_copyto_refuses_values_that_numpys_casting_does(value):
    x = np.zeros(3, int)
    with pytest.raises(TypeError, match="according to the rule"):
        np.copyto(x, value)
    y = mg.tensor(x)
    with pytest.raises(TypeError, match="np.copyto: values of .* do not fit into int64"):
        np.copyto(y, value)
    assert y.tolist() == [0, 0, 0]


def test_copyto_heeds_the_casting_that_is_asked_for():
    y = mg.zeros(3, dtype=int)
    np.copyto(y, 3.5, casting="unsafe")
    assert y.tolist() == [3, 3, 3]
    with pytest.raises(TypeError, match="values of int32 do not fit into int64 by casting='no'"):
        np.copyto(y, np.int32([1, 2, 3]), casting="no")


def test_copyto_takes_numbers_of_python_into_narrow_dtypes():
    for dtype in (np.uint8, np.float16, np.complex64, mg.bfloat16):
        y = mg.zeros(2, dtype=dtype)
        np.copyto(y, 3 if dtype is np.uint8 else 1.5)
        assert y.tolist() == [3, 3] if dtype is np.uint8 else [1.5, 1.5]
    with pytest.raises(OverflowError):
        np.copyto(mg.zeros(2, dtype=np.int8), 300, where=mg.tensor([True, False]))
    with pytest.raises(TypeError, match="where= takes truths"):
        np.copyto(mg.zeros(2), 1.0, where=mg.tensor([0, 1]))
    for where in (0, 4, 0.5):  # one number is a truth, an array of them is not
        np.copyto(y := mg.zeros(2), 1.0, where=where)
        assert y.tolist() == [bool(where)] * 2


@pytest.mark.parametrize("shape", [(7, 2), (5, 3), (3, 5), (3, 3), (2, 2, 2), (0, 3), (1, 4)])
@pytest.mark.parametrize("wrap", [False, True])
def test_a_diagonal_begins_again_below_the_square_where_wrap_says_so(shape, wrap):
    for value in (1.0, [4.0, 5.0]):
        expected, y = np.zeros(shape), mg.zeros(shape)
        np.fill_diagonal(expected, value, wrap=wrap)
        np.fill_diagonal(y, value, wrap=wrap)
        assert y.tolist() == expected.tolist()


@pytest.mark.parametrize("mask", [[1, 0, 2], [0.0, 0.5, 0.0], [[True, False, True]], [0, 0, 0]])
@pytest.mark.parametrize("f", [np.putmask, np.place])
def test_a_mask_of_numbers_is_true_where_they_are_not_0(f, mask):
    expected, y = np.arange(3.0), mg.tensor([0.0, 1.0, 2.0])
    f(expected, mask, [7.0, 8.0])
    f(y, mg.tensor(mask), [7.0, 8.0])
    assert y.tolist() == expected.tolist()


def test_writes_without_values_are_numpys():
    x = mg.tensor([1, 2, 3])
    np.put(x, [0], [])
    np.putmask(x, [True, False, True], [])
    np.place(x, [False, False, False], [])
    assert x.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="np.place: vals is empty"):
        np.place(x, [True, False, False], [])
    with pytest.raises(ValueError, match=r"np.putmask: the mask, \(2,\), must be as large as a"):
        np.putmask(x, [True, False], 1)


@pytest.mark.parametrize("f", [np.put, lambda x, i, v, mode: np.choose(x * 0, [x, x], mode=mode)])
def test_an_unknown_mode_is_refused(f):
    with pytest.raises(ValueError, match="mode='w': choose 'raise', 'wrap' or 'clip'"):
        f(mg.tensor([1, 2, 3]), [0], [1], mode="w")


@pytest.mark.parametrize("dtype", "? i1 u2 i4 i8 f2 f4 f8 c8 c16".split())
def test_sort_complex_is_numpys(dtype):
    x = np.array([[3, 1, 2], [0, 5, 1]]).astype(dtype)
    y, expected = np.sort_complex(mg.tensor(x)), np.sort_complex(x)
    assert y.dtype == expected.dtype and y.tolist() == expected.tolist()


def test_sort_complex_sorts_by_real_then_imaginary_part_and_has_a_gradient():
    z = np.array([2 + 1j, 1 + 2j, 1 - 1j, 3.0])
    leaf = mg.tensor(z, requires_grad=True)
    y = np.sort_complex(leaf)
    assert y.tolist() == np.sort_complex(z).tolist()
    (y.real * np.arange(4.0)).sum().backward()
    assert leaf.grad.tolist() == [2, 1, 0, 3]
