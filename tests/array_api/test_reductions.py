"""Statistics, searching, sorting and sets agree with NumPy's."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import minigrad.array_api as xp
from tests.array_api.oracle import (
    ALL,
    FLOAT,
    INEXACT,
    NUMERIC,
    REAL,
    arrays,
    assert_same,
    axes,
    compare,
    few,
    more,
    several,
    shapes,
)

pytestmark = [
    pytest.mark.promise("the array API standard"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [("sum", NUMERIC), ("prod", NUMERIC), ("mean", INEXACT), ("var", FLOAT), ("std", FLOAT),
     ("max", REAL), ("min", REAL), ("any", ALL), ("all", ALL), ("count_nonzero", ALL)],
)  # fmt: skip
def test_reductions_agree(name, dtypes):
    @given(st.data())
    @more
    def check(data):
        x = data.draw(arrays(dtypes))
        options = {"axis": data.draw(axes(x)), "keepdims": data.draw(st.booleans())}
        if name in ("sum", "prod"):
            wider = [None, *[d for d in dtypes if np.can_cast(x.dtype, d)]]
            options["dtype"] = data.draw(st.sampled_from(wider))
        if name in ("var", "std"):
            options["correction"] = data.draw(st.sampled_from([0, 0.0, 1, 0.5]))
        if name == "std" and x.size:
            # ours is exactly 0 of equal numbers, also where their mean is rounded, and right where
            # NumPy's squares overflow or vanish
            assume(not (x.max(options["axis"]) == x.min(options["axis"])).any())
            y, least = np.std(x, axis=options["axis"]), np.sqrt(np.finfo(x.dtype).tiny)
            assume((np.isnan(y) | (least < y) & (y < np.inf)).all())
        compare(name, x, **options)

    check()


@pytest.mark.parametrize(
    "name", ["argmax", "argmin", "cumulative_sum", "cumulative_prod", "sort", "argsort"]
)
def test_functions_along_one_axis_agree(name):
    @given(st.data())
    @more
    def check(data):
        x = data.draw(
            arrays(REAL if name not in ("cumulative_sum", "cumulative_prod") else NUMERIC)
        )
        axis = data.draw(axes(x, many=False))
        if name in ("argmax", "argmin"):
            options = {"keepdims": data.draw(st.booleans())}
        elif "sort" in name:
            axis, options = -1 if axis is None else axis, {"stable": True}
        else:
            options = {"include_initial": data.draw(st.booleans())}
        compare(name, x, axis=axis, **options)

    check()


@given(arrays(FLOAT, shapes(min_dims=1, min_side=1), allow_nan=False))
@few
def test_descending_order_is_ascending_order_turned_round_with_equals_kept_in_place(x):
    y = xp.asarray(x)
    assert_same(xp.sort(y, descending=True), -np.sort(-x, stable=True))
    assert_same(xp.argsort(y, descending=True), np.argsort(-x, stable=True))


@given(several(REAL, 2), st.sampled_from(["left", "right"]))
@few
def test_searchsorted_agrees_also_with_a_sorter(xs, side):
    a, v = np.ravel(xs[0]), xs[1]
    sorter = np.argsort(a, stable=True)
    compare("searchsorted", np.sort(a), v, side=side)
    ours = xp.searchsorted(*map(xp.asarray, (a, v)), side=side, sorter=xp.asarray(sorter))
    assert_same(ours, np.searchsorted(a, v, side=side, sorter=sorter))


@given(several(ALL, 3))
@more
def test_where_nonzero_and_isin_agree(xs):
    condition, a, b = xs
    compare("where", condition.astype(bool), a, b)
    compare("nonzero", a)
    compare("isin", a, b, invert=True)


@given(arrays(ALL))
@more
def test_sets_agree_and_keep_nans_apart(x):
    x = np.where(x == 0, x.dtype.type(0), x)  # 0 and −0 are one value: either may stand for both
    compare("unique_all", x)
    compare("unique_counts", x)
    values, inverse = xp.unique_inverse(xp.asarray(x))  # NumPy's takes NaNs in any order
    np.testing.assert_array_equal(xp.take(values, inverse).numpy(), x)
    assert xp.unique_all(xp.asarray(x))._fields == (
        "values",
        "indices",
        "inverse_indices",
        "counts",
    )
    assert_same(xp.unique_values(xp.asarray(x)), np.unique(x, equal_nan=False))


@given(arrays(NUMERIC, shapes(min_dims=1)), st.integers(0, 2))
@few
def test_diff_agrees(x, n):
    compare("diff", x, n=n, axis=0)
    compare("diff", x, prepend=x, append=x)
