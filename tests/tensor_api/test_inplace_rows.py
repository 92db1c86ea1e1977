"""A write to one part of a buffer is no change of the parts that ops have saved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.engine.errors import InPlaceError

SLICES = st.builds(
    slice, st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 4),
    st.sampled_from([None, 1, 2, -1, -2]),
)  # fmt: skip
BASIC = st.integers(-4, 3) | SLICES | st.tuples(SLICES | st.integers(-4, 3), SLICES)


def leaf(value):
    return mg.tensor(value, requires_grad=True)


@settings(max_examples=200)
@given(saved=BASIC, written=BASIC)
def test_a_write_is_a_fault_if_it_overlaps_and_otherwise_the_gradient_is_right(saved, written):
    buffer, w = mg.tensor(np.arange(16.0).reshape(4, 4)), leaf(2.0)
    part = buffer[saved]
    before = part.data.sum()
    y = (w * part).sum()
    overlap = np.shares_memory(part.data, buffer.data[written])
    buffer[written] = 100.0
    try:
        y.backward()
    except InPlaceError:
        contiguous = part.data.flags.c_contiguous and buffer.data[written].flags.c_contiguous
        assert overlap or not contiguous
    else:
        assert not overlap and w.grad.item() == before


@pytest.mark.parametrize("index", [1, np.int64(1), -3, slice(1, 3), (1,), (2, ...), (None, 1)])
def test_other_rows_may_be_written_by_every_basic_index(index):
    buffer, w = mg.ones(4, 3), leaf(2.0)
    y = (w * buffer[0]).sum()
    buffer[index] = 7.0
    y.backward()
    assert w.grad.item() == 3


def test_a_write_that_may_have_missed_what_was_saved_is_told_as_such():
    buffer, w = mg.ones(4, 3), leaf(2.0)
    y = (w * buffer[:, 0]).sum()
    buffer[:, 1] = 7.0
    with pytest.raises(InPlaceError, match="or other elements in its range of memory were"):
        y.backward()
    y = (w * buffer[0]).sum()
    buffer[[1, 2]] = 7.0
    with pytest.raises(InPlaceError, match="or other elements in its range of memory were"):
        y.backward()


def test_a_write_that_has_hit_it_is_told_without_doubt():
    buffer, w = mg.ones(4, 3), leaf(2.0)
    y = (w * buffer[0]).sum()
    buffer[0] = 7.0
    with pytest.raises(InPlaceError, match="was changed in place: it was at version 0"):
        y.backward()


def test_rows_are_computed_from_earlier_ones():
    w = leaf([0.1, 0.2])
    h = mg.zeros(5, 2)
    h[0] = w
    rows = [w.data]
    for i in range(4):
        h[i + 1] = mg.sin(h[i]) * h[i] + w
        rows.append(np.sin(rows[-1]) * rows[-1] + w.data)
    np.testing.assert_array_equal(h.data, rows)
    h[-1].sum().backward()
    step = lambda v, d: (np.cos(v) * v + np.sin(v)) * d + 1
    d = np.ones(2)
    for v in rows[:-1]:
        d = step(v, d)
    np.testing.assert_allclose(w.grad.data, d, rtol=1e-14)


def test_a_result_kept_elsewhere_is_told_to_take_a_copy():
    w = leaf([0.1, 0.2])
    h = mg.zeros(2, 2)
    h[0] = w
    total = mg.sin(h[0]).sum()
    with pytest.raises(InPlaceError, match=r"compute that from a copy: f\(x\[i\]\.copy\(\)\)"):
        h[1] = 2 * w
    h = h.copy()
    total = total + mg.sin(h[0].copy()).sum()
    h[1] = 2 * w
    (total + h.sum()).backward()
    np.testing.assert_allclose(w.grad.data, 2 * np.cos(w.data) + 3)


def test_a_view_that_the_user_holds_is_refused_beside_those_that_ops_have_saved():
    w = leaf([0.1, 0.2])
    h = mg.zeros(2, 2)
    h[0] = w
    row = h[0]
    with pytest.raises(InPlaceError, match="shares its memory"):
        h[1] = mg.sin(row)
    value = mg.sin(row)
    del row
    h[1] = value
    h.sum().backward()
    np.testing.assert_allclose(w.grad.data, 1 + np.cos(w.data))


@pytest.mark.parametrize("use", [lambda m: m + m, lambda m: m * m, lambda m: (m + 1) * (m + 2) + m])
def test_a_view_is_refused_where_paths_lead_twice_to_the_node_that_saved_its_memory(use):
    constant, w = mg.tensor([1.0, 2.0]), leaf([3.0, 4.0])
    value = use(w * constant)
    view = constant[::-1]
    with pytest.raises(InPlaceError):
        constant[0] = value[0]
    assert view.tolist() == [2, 1]
