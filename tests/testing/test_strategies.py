"""The strategies give what their docstrings say."""

import numpy as np
from hypothesis import find, given
from hypothesis import strategies as st

from minigrad.testing import strategies as mst


@given(mst.broadcastable(3))
def test_broadcastable_shapes_broadcast(found):
    assert np.broadcast_shapes(*found) is not None
    assert len(found) == 3


@given(st.data(), mst.shapes())
def test_reduction_axes_are_accepted_by_numpy(data, shape):
    axis = data.draw(mst.reduction_axes(len(shape)))
    np.sum(np.zeros(shape), axis=axis)


@given(st.data(), mst.shapes())
def test_indices_are_accepted_by_numpy(data, shape):
    np.zeros(shape)[data.draw(mst.indices(shape))]


@given(mst.arrays(mst.shapes(1, 3), apart=0.1))
def test_arrays_with_elements_apart_have_no_ties(x):
    gaps = np.diff(np.sort(x.ravel()))
    assert (gaps >= 0.09).all()


@given(mst.arrays((3,), mst.dtypes(complex=True, integer=True, brain=True)))
def test_arrays_have_the_shape_asked_for(x):
    assert x.shape == (3,)


@given(mst.arrays((8,), mst.dtypes(integer=True, brain=True), bound=3))
def test_values_of_every_dtype_lie_within_the_bound(x):
    assert (abs(x.astype(np.float64)) <= 3).all()


def test_truth_values_are_of_both_kinds():
    found = find(mst.arrays((20,), "bool"), lambda x: True)
    assert found.any() and not found.all()
