"""Windows read as runs of phases: every place of every window, and the transpose."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.fast.shifts import Shifts
from minigrad.ops.windows import Windows, padded

pytestmark = pytest.mark.promise("one position of all windows as a shifted copy, and its transpose")


@st.composite
def windows_on_an_image(draw):
    """(windows, size) where at least one window fits."""
    size, axes = [], []
    for _ in range(draw(st.integers(1, 3))):
        kernel, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        pair = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        least = max(1, dilation * (kernel - 1) + 1 - sum(pair))
        size.append(draw(st.integers(least, least + 4)))
        axes.append((kernel, draw(st.integers(1, 3)), pair, dilation))
    return Windows.from_axes(axes), tuple(size)


def at_places(x, how, out):
    """The entry of every window at each place, by indexing the padded image."""
    x = padded(x, how.padding)
    for offsets in product(*map(range, how.kernel)):
        axes = zip(offsets, how.dilation, how.stride, out, strict=True)
        yield x[(slice(None), *np.ix_(*[k * d + s * np.arange(n) for k, d, s, n in axes]))]


@given(windows_on_an_image())
def test_a_run_holds_what_lies_at_one_place_of_all_windows(case):
    how, size = case
    shifts = Shifts(how, size, out := how.count("test", size))
    x = np.random.default_rng(0).standard_normal((2, *size))
    runs = shifts.runs(shifts.phases(x, "phases"))
    for run, expected in zip(runs, at_places(x, how, out), strict=True):
        np.testing.assert_array_equal(shifts.result(run), expected)


@given(windows_on_an_image())
def test_collecting_terms_is_the_transpose_of_reading_runs(case):
    how, size = case
    shifts = Shifts(how, size, out := how.count("test", size))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, *size))
    weights = [rng.standard_normal((2, *out)) for _ in range(int(np.prod(how.kernel)))]
    terms = (shifts.spread(w, "block 0") for w in weights)
    back = np.empty_like(x)
    shifts.image(shifts.collect(terms, (2,), x), back)
    forward = sum((w * v).sum() for w, v in zip(weights, at_places(x, how, out), strict=True))
    assert (back * x).sum() == pytest.approx(forward, rel=1e-12, abs=1e-12)
