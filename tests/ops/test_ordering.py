"""Sorting and the largest few: stable order, gradients through the permutation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg

few = settings(max_examples=60)


@given(x=hnp.arrays(np.float64, (4, 5), elements=st.integers(-3, 3)), axis=st.sampled_from([0, 1]))
@few
def test_sort_carries_the_gradient_through_the_stable_permutation(x, axis):
    t, w = mg.tensor(x, requires_grad=True), np.arange(20.0).reshape(4, 5)
    y = mg.sort(t, axis=axis)
    np.testing.assert_array_equal(y.numpy(), np.sort(x, axis))
    back = np.argsort(np.argsort(x, axis, kind="stable"), axis)
    expected = np.take_along_axis(w, back, axis)
    np.testing.assert_array_equal(mg.grad(y, t, mg.tensor(w)).numpy(), expected)


@given(x=hnp.arrays(np.float64, 6, elements=st.integers(-3, 3)), k=st.integers(0, 6),
       largest=st.booleans())  # fmt: skip
@few
def test_topk_gives_values_in_order_and_where_they_stand(x, k, largest):
    values, places = mg.topk(mg.tensor(x), k, largest=largest)
    expected = np.sort(x)[::-1][:k] if largest else np.sort(x)[:k]
    np.testing.assert_array_equal(values.numpy(), expected)
    np.testing.assert_array_equal(x[places.numpy()], expected)
    loose, _ = mg.topk(mg.tensor(x), k, largest=largest, sorted=False)
    np.testing.assert_array_equal(np.sort(loose.numpy()), np.sort(expected))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["distinct", "ties", "whole", "infinite", "nan"])
def test_the_top_few_of_many_are_those_of_the_stable_sort(kind, axis, largest):
    x = np.random.default_rng(0).standard_normal((80, 90))
    if kind in ("ties", "whole"):
        x = np.round(2 * x).astype(int if kind == "whole" else float)
    elif kind != "distinct":
        x[3, ::7] = x[::5, 4] = np.nan if kind == "nan" else -np.inf
    for k in (1, 3, 20):
        values, places = mg.topk(mg.tensor(x), k, axis=axis, largest=largest)
        first = (slice(None),) * axis + (slice(0, k),)
        expected = mg.argsort(mg.tensor(x), axis=axis, descending=largest).numpy()[first]
        np.testing.assert_array_equal(places.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, axis))


def test_topk_gives_gradients_to_the_values_it_chose():
    x = mg.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, places = mg.topk(x, 2)
    assert places.tolist() == [0, 2] and not places.requires_grad
    assert mg.grad(values, x, mg.tensor([5.0, 7.0])).numpy().tolist() == [5, 0, 7]


def test_descending_argsort_is_stable():
    assert mg.argsort(mg.tensor([1.0, 2.0, 1.0, 2.0]), descending=True).tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("sort", [mg.sort, mg.argsort])
def test_a_kind_of_sort_that_numpy_has_not_is_refused(sort):
    x = mg.tensor([1.0, 3.0, 2.0])
    assert sort(x, -1, "heapsort").shape == (3,)
    with pytest.raises(ValueError, match="kind=True.*descending=True"):
        sort(x, -1, True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices_along_an_axis_are_numpys_and_pass_their_gradient_to_the_first(axis):
    x = np.array([[1.0, 0, 1, 0], [2, 3, 2, 3], [1, 0, 1, 0]])
    leaf = mg.tensor(x, requires_grad=True)
    found = np.unique(leaf, True, True, True, axis=axis)
    expected = np.unique(x, True, True, True, axis=axis)
    for ours, numpys in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.detach(), numpys)
    slope = np.zeros_like(x)
    slope[:2] = 1
    if axis:
        slope[:] = [1, 1, 0, 0]
    np.testing.assert_array_equal(mg.grad(found[0].sum(), leaf), slope)


@pytest.mark.parametrize("sort", [mg.sort, mg.argsort, mg.Tensor.sort, mg.Tensor.argsort])
def test_an_order_of_fields_is_refused(sort):
    with pytest.raises(TypeError, match="order= is for structured arrays"):
        sort(mg.ones(3), order="field")


@pytest.mark.parametrize("searchsorted", [mg.searchsorted, np.searchsorted, mg.Tensor.searchsorted])
def test_a_search_in_an_order_is_one_in_the_sorted_array(searchsorted):
    a, v = np.array([3.0, 1.0, 2.0]), np.array([[1.0, 2.5], [0.0, 9.0]])
    places = searchsorted(mg.tensor(a), v, sorter=mg.argsort(mg.tensor(a)))
    np.testing.assert_array_equal(places.numpy(), np.searchsorted(np.sort(a), v))


@pytest.mark.parametrize("equal_nan", [True, False])
def test_unique_counts_nans_as_one_element_or_each_for_itself(equal_nan):
    x = np.array([np.nan, 1.0, np.nan, 1.0])
    options = {"equal_nan": equal_nan, "return_counts": True}
    for found in (np.unique(mg.tensor(x), **options), mg.unique(mg.tensor(x), **options)):
        for y, part in zip(found, np.unique(x, **options), strict=True):
            np.testing.assert_array_equal(y.numpy(), part)


def test_unique_in_any_order_is_in_order():
    assert mg.unique(mg.tensor([2.0, 1.0, 2.0]), sorted=False).tolist() == [1, 2]


@pytest.mark.parametrize(
    "function",
    [
        mg.sort,
        mg.argsort,
        lambda x: mg.argsort(x, descending=True),
        lambda x: mg.topk(x, 3)[1],
        lambda x: mg.sort(mg.take(x, mg.argpartition(x, 3)[:4])),
        lambda x: mg.searchsorted(mg.sort(x), x),
        lambda x: mg.unique(x, equal_nan=True),
        mg.median,
        mg.nanmedian,
        lambda x: mg.quantile(x, 0.3, method="lower"),
        lambda x: mg.nanquantile(x, 0.3, method="lower"),
    ],
)
def test_bfloat16_has_nan_last_as_float32_has(function):
    x = mg.tensor([0.5, np.nan, -0.75, 1.25, 0.25, np.nan, -3.0], dtype=np.float32)
    y, wanted = function(x.astype(mg.bfloat16)), function(x)
    assert y.dtype == (mg.bfloat16 if wanted.dtype == np.float32 else wanted.dtype)
    np.testing.assert_array_equal(y.astype(wanted.dtype).numpy(), wanted.numpy())


def test_a_number_has_a_place_in_sorted_values():
    a = mg.tensor([1.0, 2.0, 3.0])
    assert mg.searchsorted(a, 2).item() == mg.searchsorted([1, 2, 3], mg.tensor(2)).item() == 1
    assert mg.searchsorted(a, [0, 4]).tolist() == [0, 3]
