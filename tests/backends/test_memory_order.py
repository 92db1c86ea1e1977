"""in_memory_order: the values of one array, laid out as another one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minigrad.backends.memory_order import in_memory_order


@st.composite
def views(draw):
    """Views of any kind: transposed, sliced, reversed, broadcast, overlapping."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    x = np.arange(4 ** len(shape) * 3**4, dtype=np.float32)[: 4 ** len(shape)]
    x = x.reshape((4,) * len(shape))[tuple(slice(0, n) for n in shape)]
    x = x[tuple(slice(None, None, draw(st.sampled_from([1, 1, 2, -1]))) for _ in shape)]
    x = x.transpose(draw(st.permutations(range(x.ndim))))
    if draw(st.booleans()):
        x = np.broadcast_to(x, (3, *x.shape))
    if x.shape[-1] > 1 and draw(st.booleans()):
        x = np.lib.stride_tricks.sliding_window_view(x, 2, axis=-1)
    return x


@given(views(), st.sampled_from("CFK"))
def test_the_values_are_the_same_and_the_order_is_that_of_the_strides(x, order):
    copied = np.array(x, order=order)
    y = in_memory_order(copied, x.strides)
    np.testing.assert_array_equal(y, x)
    long = [k for k, n in enumerate(x.shape) if n > 1]

    def ranked(a):
        return sorted(long, key=lambda k: (abs(a.strides[k]), k))

    assert ranked(y) == ranked(x) or 0 in [x.strides[k] for k in long]
    assert [np.sign(y.strides[k]) for k in long] == [np.sign(x.strides[k]) for k in long]
    for flag in ("c_contiguous", "f_contiguous"):
        assert getattr(y.flags, flag) == getattr(x.flags, flag)


def test_the_stride_of_a_single_element_is_kept_which_numpys_loops_ask():
    x = np.array([0.5 + 0.25j], np.complex64)[::-1]
    y = in_memory_order(x.copy(), x.strides)
    assert y.strides == x.strides == (-8,)
    assert y[0] == x[0]


def test_an_array_that_lies_so_already_is_not_copied():
    x = np.ones((3, 4)).T
    assert in_memory_order(x, x.strides) is x
    assert in_memory_order(x, np.ones((3, 9))[:, :4].T.strides) is not x


def test_a_gap_takes_one_element():
    column = np.ones((1000, 1000))[:, 0]
    y = in_memory_order(column.copy(), column.strides)
    assert y.strides == (16,) and y.base.size < 2000
