"""Shape ops: values as NumPy's, views share memory, gradients go back to where they came from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg
from minigrad.engine import events
from minigrad.testing import gradcheck, gradgradcheck

few = settings(max_examples=40)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


def leaf(values):
    return mg.tensor(values, dtype=np.float64, requires_grad=True)


def counted(shape):
    """Every element another number, so that a misplaced one shows."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)


def require_moved_back(fn, reference, x):
    """Values are the reference's; the gradient of Σ w·y counts, in x's places, the w read there."""
    t = leaf(x)
    y = fn(t)
    np.testing.assert_array_equal(y.numpy(), reference(x))
    w = counted(y.shape) + 1
    g = mg.grad(y, t, mg.tensor(w)).numpy()
    places = reference(np.arange(x.size).reshape(x.shape))
    expected = np.bincount(places.ravel(), w.ravel(), x.size).reshape(x.shape)
    np.testing.assert_array_equal(g, expected)


@given(data=st.data(), shape=SHAPES)
@few
def test_transpose_moves_elements_and_gradients(data, shape):
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    require_moved_back(lambda t: mg.transpose(t, axes), lambda x: x.transpose(axes), counted(shape))


@given(data=st.data(), shape=SHAPES)
@few
def test_moveaxis_moves_elements_and_gradients(data, shape):
    axis = st.integers(-len(shape), len(shape) - 1)
    source, destination = data.draw(axis), data.draw(axis)
    require_moved_back(
        lambda t: mg.moveaxis(t, source, destination),
        lambda x: np.moveaxis(x, source, destination),
        counted(shape),
    )


@given(data=st.data(), shape=SHAPES)
@few
def test_flip_and_roll_move_elements_and_gradients(data, shape):
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    shift = data.draw(st.integers(-5, 5))
    x = counted(shape)
    require_moved_back(lambda t: mg.flip(t, axis), lambda x: np.flip(x, axis), x)
    require_moved_back(lambda t: mg.roll(t, shift, axis), lambda x: np.roll(x, shift, axis), x)


@given(data=st.data(), shape=SHAPES)
@few
def test_broadcast_to_sums_the_gradients_of_the_copies(data, shape):
    shapes = hnp.broadcastable_shapes(shape, min_side=0, max_dims=5, max_side=4)
    wide = data.draw(shapes)
    wide = np.broadcast_shapes(shape, wide)
    require_moved_back(
        lambda t: mg.broadcast_to(t, wide), lambda x: np.broadcast_to(x, wide), counted(shape)
    )


@given(data=st.data(), shape=SHAPES)
@few
def test_tile_and_repeat_sum_the_gradients_of_the_copies(data, shape):
    reps = tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)))
    axis = data.draw(st.none() | st.integers(0, len(shape) - 1))
    x = counted(shape)
    require_moved_back(lambda t: mg.tile(t, reps), lambda x: np.tile(x, reps), x)
    require_moved_back(
        lambda t: mg.repeat(t, reps[0], axis), lambda x: np.repeat(x, reps[0], axis), x
    )


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge", "wrap"])
@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
@few
def test_pad_repeats_elements_as_numpy_and_sums_their_gradients(mode, data, shape):
    widths = [tuple(data.draw(st.tuples(*[st.integers(0, 6)] * 2))) for _ in shape]
    require_moved_back(
        lambda t: mg.pad(t, widths, mode=mode), lambda x: np.pad(x, widths, mode), counted(shape)
    )


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge", "wrap"])
def test_the_border_of_a_float16_image_is_added_up_in_float32(mode):
    """2048 + 1 is 2048 in float16: an element that is repeated gets all of its 6,000 ones."""
    x = mg.tensor(np.ones((2, 2)), dtype=np.float16, requires_grad=True)
    widths = [(12000, 0), (0, 0)]
    y = mg.pad(x, widths, mode=mode)
    g = mg.grad(y, x, mg.ones(y.shape, dtype=np.float16))
    counts = np.bincount(np.pad(np.arange(4).reshape(2, 2), widths, mode).ravel())
    np.testing.assert_array_equal(g.numpy(), counts.reshape(2, 2).astype(np.float16))


@pytest.mark.parametrize("values", [(1, 2), ((1, 2), (3, 4)), ((1,), (2,)), [5]])
def test_pad_takes_a_constant_for_each_side_as_numpy(values):
    x = mg.tensor(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
    widths = ((1, 2), (0, 3))
    y = np.pad(x, widths, constant_values=values)
    np.testing.assert_array_equal(y.data, np.pad(x.data, widths, constant_values=values))
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad.data, 2 * x.data)


def test_pad_says_how_many_constants_it_takes():
    with pytest.raises(ValueError, match="constant_values=.1, 2, 3. must be one number, .before"):
        mg.pad(mg.ones(2, 2), 1, constant_values=(1, 2, 3))


def test_pad_says_how_many_widths_it_takes():
    with pytest.raises(ValueError, match="pad: pad_width must be .* a pair for each of the 2 axes"):
        mg.pad(mg.ones(2, 2), ((1, 1), (1, 1), (1, 1)))


@pytest.mark.parametrize(
    "widths",
    [
        mg.tensor([[1, 2], [0, 3]]),
        ((mg.tensor(1), 2), (0, np.array(3))),
        {0: (mg.tensor(1), 2), 1: (0, 3)},
    ],
)
def test_pad_takes_widths_that_are_tensors(widths):
    assert mg.pad(mg.ones(2, 2), widths).shape == (5, 5)


def test_pad_with_a_constant_gives_the_middle_of_the_gradient():
    x = leaf([1.0, 2.0])
    y = mg.pad(x, (1, 2), constant_values=9)
    assert y.numpy().tolist() == [9, 1, 2, 9, 9]
    assert mg.grad(y, x, mg.tensor(counted(5))).numpy().tolist() == [1, 2]


@given(data=st.data(), n=st.integers(1, 9))
@few
def test_unfold_gives_windows_and_sums_their_gradients(data, n):
    size, step = data.draw(st.integers(1, n)), data.draw(st.integers(1, 4))
    require_moved_back(
        lambda t: mg.unfold(t, 0, size, step),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, size, 0)[::step],
        counted((n, 2)),
    )


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(3, 2),
        lambda x: x.ravel(),
        lambda x: x.T,
        lambda x: x.swapaxes(0, 1),
        lambda x: mg.squeeze(mg.expand_dims(x, 0)),
        lambda x: mg.broadcast_to(x, (4, 2, 3)),
        lambda x: mg.flip(x, 1),
        lambda x: mg.moveaxis(x, 0, 1),
        lambda x: x[1:, ::2],
        lambda x: mg.narrow(x, 1, 1, 2),
        lambda x: mg.split(x, 3, axis=1)[1],
        lambda x: mg.chunk(x, 2)[1],
        lambda x: mg.unstack(x)[0],
        lambda x: mg.diagonal(x),
        lambda x: mg.unfold(x, 1, 2),
        lambda x: mg.atleast_3d(x),
    ],
)
def test_views_share_memory(view):
    x = leaf(counted((2, 3)))
    assert np.shares_memory(view(x).data, x.data)


@pytest.mark.parametrize(
    "take",
    [lambda x: mg.split(x, 4), lambda x: mg.chunk(x, 4), mg.unstack, lambda x: mg.unstack(x, 1)],
)
def test_all_pieces_are_one_op_whose_gradient_is_made_once(take):
    pieces, heard = take(leaf(counted((8, 3)))), []

    def hear(event: tuple) -> None:
        heard.append(event[:2])

    total = sum((piece * piece).sum() for piece in pieces)
    events.listen(hear)
    try:
        total.backward()
    finally:
        events.unlisten(hear)
    made = [
        name for part, name in heard if part == "backward" and name not in ("sum", "mul", "add")
    ]
    assert made == ["unbind" if pieces[0].ndim == 1 else "split"]


@pytest.mark.parametrize("axis", [0, 1])
def test_pieces_that_nobody_uses_have_zero_gradients(axis):
    x = leaf(counted((5, 6)))
    _, used, _ = mg.split(x, [2, 4], axis)
    (used * used).sum().backward()
    expected = np.zeros((5, 6))
    np.split(expected, [2, 4], axis)[1][...] = 2 * used.numpy()
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize("cuts", [[3, 1], [-2], [1, 1], [2, 9]])
def test_pieces_may_overlap_be_empty_or_lie_beyond_the_end(cuts):
    x = leaf(counted(5))
    pieces = mg.split(x, cuts)
    for piece, expected in zip(pieces, np.split(x.numpy(), cuts), strict=True):
        np.testing.assert_array_equal(piece.numpy(), expected)
    sum((piece * piece).sum() for piece in pieces).backward()
    times = sum(np.isin(x.numpy(), part) for part in np.split(x.numpy(), cuts))
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy() * times)


@pytest.mark.parametrize("parts", [1, 2, 3, 6, [1, 4], [0, 0, 6], [8]])
def test_split_gives_numpys_pieces_and_concatenate_undoes_it(parts):
    x = leaf(counted((6, 2)))
    pieces = mg.split(x, parts)
    for piece, expected in zip(pieces, np.split(x.numpy(), parts), strict=True):
        np.testing.assert_array_equal(piece.numpy(), expected)
    whole = np.concatenate(pieces)
    w = counted((6, 2))
    np.testing.assert_array_equal(mg.grad(whole, x, mg.tensor(w)).numpy(), w)


@pytest.mark.parametrize("function", [np.concatenate, np.stack, np.vstack, np.hstack, np.dstack])
def test_joining_a_list_by_numpys_function_is_recorded(function):
    a, b = leaf([[1.0, 2.0]]), leaf([[3.0, 4.0]])
    y = function([a, np.ones((1, 2)), b])
    np.testing.assert_array_equal(y.numpy(), function([a.numpy(), np.ones((1, 2)), b.numpy()]))
    ga, gb = mg.grad((y * y).sum(), [a, b])
    np.testing.assert_array_equal(ga.numpy(), 2 * a.numpy())
    np.testing.assert_array_equal(gb.numpy(), 2 * b.numpy())


def test_one_tensor_joined_to_itself_gets_both_gradients():
    x = leaf([1.0, 2.0])
    y = mg.stack([x, x])
    assert mg.grad(y, x, mg.tensor([[1.0, 2.0], [10.0, 20.0]])).numpy().tolist() == [11, 22]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: mg.concatenate([x, x * x], axis=1),
        lambda x: mg.stack([x, x * x], axis=-1),
        lambda x: mg.pad(x * x, 2, mode="reflect"),
        lambda x: mg.unfold(x, 1, 2) ** 2,
        lambda x: mg.tile(x, (2, 2)) ** 3,
        lambda x: mg.roll(x, 1) * x,
        lambda x: mg.reshape(x, (3, 2), order="F") @ x,
    ],
)
def test_first_and_second_derivatives(fn):
    x = np.random.default_rng(0).standard_normal((2, 3))
    assert gradcheck(fn, x)
    assert gradgradcheck(fn, x)


def test_float16_copies_sum_their_gradients_in_float32():
    x = mg.tensor([1.0], dtype=np.float16, requires_grad=True)
    y = mg.broadcast_to(x, (4096,))
    assert mg.grad(y, x, mg.ones(4096, dtype=np.float16)).item() == 4096


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: x.reshape(4, 2), ValueError, r"reshape\(x: float64 \(2, 3\).*cannot reshape"),
        (lambda x: mg.split(x, 2, axis=1), ValueError, "array_split"),
        (lambda x: mg.array_split(x, 10**12), ValueError, "array_split: 1,000,000,000,000 parts"),
        (lambda x: mg.split(x[:0], 10**12), ValueError, "split.*parts of an axis of length 0"),
        (lambda x: mg.chunk(x[:0], 10**12), ValueError, "chunk: 1,000,000,000,000 parts"),
        (lambda x: mg.narrow(x, 1, 2, 2), IndexError, "start=2, length=2 leaves axis 1"),
        (lambda x: mg.concatenate([x, x[0]]), ValueError, "concatenate.*dimensions"),
        (lambda x: mg.stack([]), ValueError, "at least one array"),
        (lambda x: mg.squeeze(x, 0), ValueError, "squeeze"),
        (lambda x: mg.swapaxes(x, 0, 5), np.exceptions.AxisError, "out of bounds"),
        (lambda x: mg.pad(x, 1, mode="mirror"), ValueError, "choose 'constant'"),
        (
            lambda x: mg.unfold(x, 0, 3),
            ValueError,
            r"size=3.*does not fit axis 0 of shape \(2, 3\)",
        ),
    ],
)
def test_errors_name_the_op_and_the_shapes(call, error, text):
    with pytest.raises(error, match=text):
        call(leaf(counted((2, 3))))


def test_the_methods_take_numpys_order_by_which_elements_are_read():
    x = mg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    np.testing.assert_array_equal(
        x.reshape(3, 2, order="F").numpy(), x.numpy().reshape(3, 2, order="F")
    )
    np.testing.assert_array_equal(x.ravel("F").numpy(), x.numpy().ravel("F"))
    w = np.arange(6.0)
    assert mg.grad((x.ravel("F") * w).sum(), x).tolist() == w.reshape(2, 3, order="F").tolist()


def test_chunks_of_nothing_are_as_many_as_were_asked_for():
    assert [part.shape for part in mg.chunk(mg.zeros(0, 3), 2)] == [(0, 3), (0, 3)]


def test_expand_keeps_an_axis_at_minus_one():
    x = mg.tensor([[1.0], [2.0]], requires_grad=True)
    y = x.expand(3, -1, 4)
    y.sum().backward()
    assert y.shape == (3, 2, 4) and x.grad.tolist() == [[12], [12]]
    with pytest.raises(ValueError, match=r"shape=\(-1, 2, 4\)"):
        x.expand(-1, 2, 4)


def test_two_axes_for_transpose_are_told_of_swapaxes():
    with pytest.raises(ValueError, match=r"two are swapped by swapaxes\(1, 2\)"):
        mg.ones(2, 3, 4).transpose(1, 2)


def test_whole_numbers_are_padded_with_whole_numbers():
    found = np.pad(mg.tensor([1, 2]), 1, constant_values=2.7)
    assert found.dtype == np.int64 and found.tolist() == [2, 1, 2, 2]


@pytest.mark.parametrize(
    ("mode", "options"),
    [("mean", {}), ("median", {"stat_length": 2}), ("maximum", {"stat_length": ((2, 1), (9, 3))}),
     ("minimum", {}), ("linear_ramp", {}), ("linear_ramp", {"end_values": ((5, 2), (-1, 7))})],
)  # fmt: skip
def test_borders_of_statistics_and_ramps_are_numpys(mode, options):
    x = np.random.default_rng(0).integers(-9, 9, (3, 4))
    for dtype in (np.int64, np.float32, np.float64):
        expected = np.pad(x.astype(dtype), ((2, 1), (0, 3)), mode, **options)
        found = np.pad(mg.tensor(x.astype(dtype)), ((2, 1), (0, 3)), mode, **options)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert gradcheck(
        lambda x: np.pad(x, ((2, 1), (0, 3)), mode, **options),
        (np.random.default_rng(1).standard_normal((3, 4)),),
    )


def test_an_option_of_another_mode_of_pad_is_refused():
    with pytest.raises(
        TypeError, match=r"pad: \['stat_length'\] are not supported with mode='wrap'"
    ):
        np.pad(mg.tensor([1.0]), 1, "wrap", stat_length=1)
    with pytest.raises(ValueError, match="stat_length must be 1 or more, got 0"):
        np.pad(mg.tensor([1.0]), 1, "maximum", stat_length=0)


def test_arrays_are_joined_in_a_dtype_of_their_kind_or_refused():
    z, x = mg.tensor([1 + 2j]), mg.tensor([1.5])
    assert mg.concatenate([x, x], dtype="bfloat16").dtype == mg.bfloat16
    assert mg.stack([x, z], dtype=np.complex64).dtype == np.complex64
    for join, part, dtype in (
        (mg.concatenate, z, np.float32), (mg.stack, z, mg.bfloat16),
        (np.concatenate, x, np.int64),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"dtype=\w+ would cut off parts of"):
            join([part, part], dtype=dtype)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("shape, widths", [((4,), 2), ((4,), (0, 9)), ((1,), 3), ((3, 4), 5),
                                           ((2, 1, 3), 3)])  # fmt: skip
def test_a_pad_that_turns_x_over_is_numpys(mode, shape, widths):
    for dtype in (np.float64, np.int64):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
        y = np.pad(mg.tensor(x), widths, mode=mode, reflect_type="odd")
        assert y.dtype == dtype
        assert np.array_equal(y.numpy(), np.pad(x, widths, mode=mode, reflect_type="odd"))
    assert gradcheck(lambda x: mg.pad(x, widths, mode=mode, reflect_type="odd"), leaf(x))


@pytest.mark.parametrize("mode", ["linear_ramp", "edge", "mean"])
def test_an_empty_axis_cannot_be_continued(mode):
    with pytest.raises(ValueError, match="empty axis 0"):
        mg.pad(mg.zeros((0, 3)), ((1, 1), (0, 0)), mode=mode)
    assert mg.pad(mg.zeros((0, 3)), ((0, 0), (1, 1)), mode=mode).shape == (0, 5)
