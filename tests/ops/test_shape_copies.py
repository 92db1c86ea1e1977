"""Shape ops beside NumPy's: what is a copy, what padding keeps, which orders there are."""

import numpy as np
import pytest

import minigrad as mg

BY_NOTHING = [
    lambda x: np.tile(x, 1), lambda x: np.tile(x, (1, 1, 1)), lambda x: np.repeat(x, 1, axis=0),
    lambda x: np.repeat(x, 1), lambda x: np.repeat(x, [1, 1], axis=0),
    lambda x: np.pad(x, 0, mode="edge"), lambda x: np.pad(x, 0, mode="wrap"),
    lambda x: np.pad(x, 0, mode="mean"), lambda x: np.pad(x, 0, mode="empty"),
]  # fmt: skip


@pytest.mark.parametrize("f", BY_NOTHING)
def test_what_is_repeated_once_or_padded_by_nothing_is_a_copy(f):
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = f(x)
    y[...] = 0.0
    assert x.tolist() == [[1, 2], [3, 4]]


BY_SOME = [
    lambda x: np.tile(x, (2, 1)), lambda x: np.tile(x, 3), lambda x: np.repeat(x, 2, axis=0),
    lambda x: np.repeat(x, 2, axis=1),
]  # fmt: skip


@pytest.mark.parametrize("f", BY_SOME)
@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (1, 1)])
def test_what_is_repeated_can_be_written_element_by_element(f, shape):
    """Along an axis of length 1 too, which a broadcast repeats in the same memory."""
    x = mg.tensor(np.ones(shape))
    y, expected = f(x), f(np.ones(shape))
    y[0, 0] = expected[0, 0] = 9.0
    assert y.tolist() == expected.tolist() and (x.data == 1).all()


def test_padding_of_truths_is_truths_and_an_option_of_another_mode_is_refused():
    x = np.array([True, False, False])
    for mode in ("mean", "median", "maximum", "empty"):
        y = np.pad(mg.tensor(x), 2, mode=mode)
        assert y.dtype == bool and y.shape == (7,)
        assert mode == "empty" or y.tolist() == np.pad(x, 2, mode=mode).tolist()
    with pytest.raises(TypeError, match="constant_values has no meaning with mode='edge'"):
        np.pad(mg.tensor(x), 1, mode="edge", constant_values=1)


@pytest.mark.parametrize("order", ["A", "K", "z"])
def test_only_an_order_by_memory_is_said_to_depend_on_it(order):
    with pytest.raises(ValueError, match=f"order='{order}'") as caught:
        mg.ones(2, 2).reshape(4, order=order)
    assert ("depends on the memory layout" in str(caught.value)) == (order != "z")


@pytest.mark.parametrize(
    "size, axis", [((3, 2), (0, 0)), ((2, 2, 2), (1, -1, 0)), (2, -1), ((2, 2), None)]
)
def test_windows_over_an_axis_named_twice_are_windows_of_windows(size, axis):
    windows = np.lib.stride_tricks.sliding_window_view
    x = np.arange(20.0).reshape((5, 4))
    np.testing.assert_array_equal(windows(mg.tensor(x), size, axis).numpy(), windows(x, size, axis))


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda x: mg.tile(x, -1), "tile: reps"),
        (lambda x: mg.repeat(x, -1), "repeat: repeats"),
        (lambda x: mg.repeat(x, [1, -1]), "repeat: repeats"),
    ],
)
def test_copies_fewer_than_none_are_refused_by_name(call, name):
    with pytest.raises(ValueError, match=f"{name} says how often, 0 times or more, got"):
        call(mg.tensor([1.0, 2.0]))


def test_truths_are_not_turned_over_by_a_pad():
    with pytest.raises(TypeError, match="pad: reflect_type='odd' .* truths do not have"):
        np.pad(mg.tensor([True, False]), 1, mode="reflect", reflect_type="odd")
