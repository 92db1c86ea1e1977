"""Indexing: NumPy's values, gradients that add up, writes of which the last wins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.testing import gradcheck, gradgradcheck

few = settings(max_examples=60)


def leaf(values, dtype=np.float64):
    return mg.tensor(values, dtype=dtype, requires_grad=True)


def counted(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)


def require_read(key, shape):
    """x[key] is NumPy's, and its gradient is np.add.at's."""
    x = counted(shape)
    t = leaf(x)
    y = t[key]
    np.testing.assert_array_equal(y.numpy(), x[key])
    g = counted(y.shape) + 1
    expected = np.zeros(shape)
    np.add.at(expected, key, g)
    np.testing.assert_array_equal(mg.grad(y, t, mg.tensor(g)).numpy(), expected)


# -- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [([0, 1], slice(None, None, -1)), ([1, 1], slice(None, None, -1), slice(None)), (-1, [0, 0])],
    ids=repr,
)
def test_a_slice_that_turns_a_whole_axis_round_beside_an_array_turns_the_gradient_round(key):
    require_read(key, (2, 3, 4))


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), [1, 1], ..., [2, 0]),
        (slice(None), [2, 0], ..., 1),
        (slice(None), [True, False, True], ..., 1),
        (None, [1, 1, 0], ..., 0, [3, 2, 3]),
    ],
    ids=repr,
)
def test_an_ellipsis_of_no_axis_parts_two_arrays_as_in_numpy(key):
    require_read(key, (2, 3, 4))
    x, v = counted((2, 3, 4)), counted(counted((2, 3, 4))[key].shape)
    y = leaf(x) * 1
    y[key] = v
    x[key] = v
    np.testing.assert_array_equal(y.detach().numpy(), x)
    whole = mg.func.vmap(lambda x: x[key])(np.stack([x, 2 * x])).numpy()
    np.testing.assert_array_equal(whole, np.stack([x[key], 2 * x[key]]))


@given(data=st.data(), shape=hnp.array_shapes(max_dims=4, max_side=4))
@few
def test_basic_indices(data, shape):
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    require_read(key, shape)


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=4, max_side=4))
@few
def test_integer_arrays_with_duplicates(data, shape):
    require_read(data.draw(hnp.integer_array_indices(shape)), shape)


@given(data=st.data(), shape=hnp.array_shapes(min_dims=2, max_dims=4, max_side=4))
@few
def test_mixed_slices_integers_arrays_and_none(data, shape):
    """Each axis by a slice, an integer or an array; None in between: NumPy's placement rules."""
    key = []
    for n in shape:
        if data.draw(st.booleans(), label="None before"):
            key.append(None)
        indices = st.integers(-n, n - 1)
        kind = data.draw(st.sampled_from(["slice", "integer", "array"]))
        if kind == "slice":
            key.append(data.draw(st.slices(n)))
        elif kind == "integer":
            key.append(data.draw(indices))
        else:
            key.append(np.array(data.draw(st.lists(indices, min_size=2, max_size=2))))
    require_read(tuple(key), shape)


@given(data=st.data(), shape=hnp.array_shapes(max_dims=3, max_side=4))
@few
def test_boolean_masks(data, shape):
    require_read(data.draw(hnp.arrays(bool, shape)), shape)


def test_tensors_in_the_index_stand_for_their_values():
    x = leaf(counted((4, 3)))
    rows = mg.tensor([0, 2, 2])
    mask = x > 4
    np.testing.assert_array_equal(x[rows].numpy(), x.numpy()[[0, 2, 2]])
    np.testing.assert_array_equal(x[mask].numpy(), x.numpy()[x.numpy() > 4])
    np.testing.assert_array_equal(x[rows, mg.tensor(1)].numpy(), x.numpy()[[0, 2, 2], 1])


@pytest.mark.parametrize(
    "key", [([0, 1], [1, 2]), ((0, 1), slice(None)), [0, 0], [], np.array(1), (True,), True]
)
def test_sequences_and_single_values_in_the_index(key):
    require_read(key, (3, 3))


@pytest.mark.parametrize("key", [([], [7]), (False, [7])])
def test_what_reads_nothing_by_an_index_beyond_the_end_has_a_gradient_of_zeros(key):
    x = mg.ones((2, 3), requires_grad=True)
    assert mg.grad(x[key].sum(), x).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("shape", [(2, 3, 4, 2), (4, 1), (4, 3)])
def test_values_that_do_not_fit_the_index_are_not_added(shape):
    with pytest.raises(ValueError, match="values .* do not fit"):
        op.getitem_dx.reference(np.ones(shape), index=(slice(None), [2, 2]), shape=(4, 3))


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16"])
def test_16_bit_gradients_of_repeated_rows_add_up_in_float32(dtype):
    weight = mg.ones(2, 1, dtype=dtype, requires_grad=True)
    y = mg.embedding(np.zeros(4096, int), weight)
    g = mg.grad(y, weight, mg.ones(4096, 1, dtype=dtype))
    assert g.dtype == weight.dtype
    assert g.tolist() == [[4096], [0]]


def test_16_bit_scatter_add_counts_beyond_2048():
    x = mg.zeros(1, dtype=np.float16)
    y = mg.scatter_add(x, 0, np.zeros(3000, int), mg.ones(3000, dtype=np.float16))
    assert y.item() == 3000


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_take_is_numpys_and_its_gradient_adds_up(mode, axis):
    x, indices = counted((3, 3)), np.array([[0, 2], [2, -1]])
    if mode != "raise":
        indices = indices * 3 + 1
    t = leaf(x)
    y = mg.take(t, indices, axis=axis, mode=mode)
    np.testing.assert_array_equal(y.numpy(), np.take(x, indices, axis, mode=mode))
    places = np.take(np.arange(9).reshape(3, 3), indices, axis, mode=mode)
    expected = np.bincount(places.ravel(), minlength=9).reshape(3, 3)
    np.testing.assert_array_equal(mg.grad(y.sum(), t).numpy(), expected)


def test_embedding_gives_no_gradient_to_the_padding_row():
    weight = leaf(counted((3, 2)))
    y = mg.embedding([0, 1, 1, 2], weight, padding_idx=1)
    np.testing.assert_array_equal(y.numpy(), weight.numpy()[[0, 1, 1, 2]])
    assert mg.grad(y.sum(), weight).numpy().tolist() == [[1, 1], [0, 0], [1, 1]]


# -- writing ---------------------------------------------------------------------------------


def test_the_last_of_two_writes_wins_and_it_alone_gets_the_gradient():
    x, values = leaf([1.0, 2.0, 3.0]), leaf([10.0, 20.0, 30.0])
    y = mg.index_put(x, (np.array([1, 1, 2]),), values)
    assert y.numpy().tolist() == [1, 20, 30]
    gx, gvalues = mg.grad((y * y).sum(), [x, values])
    assert gx.numpy().tolist() == [2, 0, 0]
    assert gvalues.numpy().tolist() == [0, 40, 60]


def test_writes_that_accumulate_all_get_their_gradient():
    x, values = leaf([1.0, 2.0]), leaf([10.0, 20.0])
    y = mg.index_put(x, (np.array([1, 1]),), values, accumulate=True)
    assert y.numpy().tolist() == [1, 32]
    gx, gvalues = mg.grad((y * y).sum(), [x, values])
    assert gx.numpy().tolist() == [2, 64]
    assert gvalues.numpy().tolist() == [64, 64]


def test_writing_leaves_the_argument_as_it_was():
    x = leaf([1.0, 2.0])
    mg.setitem(x, 5.0, index=0)
    assert x.numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    "write",
    [
        lambda x, v: mg.setitem(x, v, index=()),
        lambda x, v: mg.put_along_axis(x, np.zeros(1, int), v.reshape(1), None),
    ],
    ids=["setitem", "put_along_axis"],
)
def test_a_single_number_that_is_written_over_has_a_gradient_of_zero(write):
    x, v = (mg.tensor(value, requires_grad=True) for value in (3.0, 5.0))
    (write(x, v) * 2.0).backward()  # the product hands on a cotangent that is a NumPy scalar
    assert (x.grad.item(), v.grad.item()) == (0.0, 2.0)


def test_a_broadcast_value_gets_the_sum_of_the_gradients():
    x, value = leaf(counted((2, 3))), leaf(7.0)
    y = mg.masked_fill(x, x.numpy() > 2, value)
    gx, gvalue = mg.grad(y, [x, value], mg.tensor(counted((2, 3))))
    assert gx.numpy().tolist() == [[0, 1, 2], [0, 0, 0]]
    assert gvalue.item() == 3 + 4 + 5


def test_masked_fill_selects_so_infinities_stay_out():
    x = leaf([np.inf, 1.0])
    y = mg.masked_fill(x, np.array([True, False]), 0.0)
    assert y.numpy().tolist() == [0, 1]
    assert mg.grad(y.sum(), x).numpy().tolist() == [0, 1]


def test_masked_fill_keeps_the_dtype_of_x():
    x = mg.ones(2, dtype=np.float16)
    assert mg.masked_fill(x, np.array([True, False]), mg.tensor(2.0)).dtype == np.float16


# -- second order, errors --------------------------------------------------------------------

TWICE = np.array([0, 2, 2])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[TWICE] ** 2,
        lambda x: x[:, TWICE[1:]] ** 2,
        lambda x: mg.take(x, TWICE, axis=0) ** 3,
        lambda x: mg.take_along_axis(x, np.array([[0, 2, 2]]), axis=1) * x[:1],
        lambda x: mg.gather(x, 0, TWICE[None, :]) ** 2,
        lambda x: mg.scatter(x * x, 0, TWICE[None, :], x[:1] ** 3),
        lambda x: mg.scatter_add(x * x, 0, TWICE[None, :], x[:1] ** 3) ** 2,
        lambda x: mg.index_put(x * x, (TWICE,), x**3) ** 2,
        lambda x: mg.tril(x) @ mg.triu(x, 1),
        lambda x: mg.diag(mg.diag(x) ** 2) * mg.trace(x),
        lambda x: mg.sort(x * x, axis=0) ** 2,
        lambda x: mg.topk(x * x, 2)[0] ** 2,
        lambda x: mg.masked_select(x, np.eye(3) == 0) ** 2,
        lambda x: mg.index_add(x, 0, TWICE, x * x) ** 2,
    ],
)
def test_first_and_second_derivatives(fn):
    x = np.random.default_rng(0).standard_normal((3, 3))
    assert gradcheck(fn, x)
    assert gradgradcheck(fn, x)


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: x[5], IndexError, r"getitem\(x: float64 \(2, 3\).*out of bounds"),
        (lambda x: x[1.5], IndexError, "only integers"),
        (lambda x: mg.take(x, [7], axis=0), IndexError, r"take\(x: float64 \(2, 3\)"),
        (lambda x: mg.gather(x, 0, np.array([0])), ValueError, "same number of axes"),
        (
            lambda x: mg.topk(x, 4),
            ValueError,
            r"between 0 and 3, the length of axis -1 of x \(.*\); got 4",
        ),
        (lambda x: mg.diag(x.reshape(2, 3, 1)), ValueError, "diag_embed"),
        (lambda x: mg.masked_fill(x, np.ones((2, 2, 3), bool), 0), ValueError, "no larger than x"),
    ],
)
def test_errors_name_the_op_and_the_shapes(call, error, text):
    with pytest.raises(error, match=text):
        call(leaf(counted((2, 3))))


def test_numpys_functions_mean_these_ops():
    x = leaf(counted((3, 3)))
    for y in (
        np.take(x, [0, 1], axis=1), np.take_along_axis(x, np.array([[0, 1, 2]]), 0), np.sort(x),
        np.tril(x), np.diagonal(x), np.trace(x), np.diag(x),
    ):  # fmt: skip
        assert y.requires_grad
    assert np.argsort(x).dtype == np.intp
    assert [i.tolist() for i in np.nonzero(x > 6)] == [[2, 2], [1, 2]]


# -- PyTorch ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gather", "scatter", "scatter_add", "index_add", "index_select"])
def test_values_and_gradients_agree_with_pytorch(name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, src = rng.standard_normal((4, 5)), rng.standard_normal((3, 5))
    index = rng.permuted(np.tile(np.arange(4)[:, None], 5), axis=0)[:3]  # no two writes meet
    if name.startswith("index"):
        index = np.array([2, 0, 2])
    arguments = [0, index] + ([src] if name in ("scatter", "scatter_add", "index_add") else [])
    a, b = leaf(x), torch.tensor(x, requires_grad=True)
    y = getattr(mg, name)(a, *arguments)
    tensors = [torch.tensor(v) if isinstance(v, np.ndarray) else v for v in arguments]
    z = getattr(torch, name)(b, *tensors)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-13)
    (gb,) = torch.autograd.grad((z**3).sum(), b)
    np.testing.assert_allclose(mg.grad((y**3).sum(), a).numpy(), gb.numpy(), rtol=1e-12)


@pytest.mark.parametrize("reduce, far", [("amax", -np.inf), ("amin", np.inf)])
@pytest.mark.parametrize("include_self", [True, False])
def test_infinite_extrema_of_scatter_reduce_share_among_what_counts_alone(
    reduce, far, include_self
):
    x = mg.tensor([far, 0.0, far, far], requires_grad=True)
    src = mg.tensor([far, -far, far, far, far], requires_grad=True)
    y = mg.scatter_reduce(x, 0, np.array([0, 0, 0, 2, 2]), src, reduce, include_self)
    y.backward(mg.ones_like(x.detach()))
    assert y.tolist() == [-far, 0.0, far, far]
    share = 1 / 3 if include_self else 1 / 2
    assert x.grad.tolist() == [0, 1, share if include_self else 0, 1]
    assert src.grad.tolist() == [0, 1, 0, share, share]


@pytest.mark.parametrize("reduce, expected", [("amax", [True, True]), ("amin", [False, False])])
def test_booleans_have_a_largest_and_a_smallest(reduce, expected):
    x, src = mg.tensor([True, False]), mg.tensor([False, True])
    y = mg.scatter_reduce(x, 0, mg.tensor([0, 1]), src, reduce)
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("shape", [(3, 2), (3,), (), (2, 1), (4, 3)])
def test_index_add_says_which_shape_its_source_needs(shape):
    with pytest.raises(ValueError, match=r"index_add: source must have .* \(2, 3\); got "):
        mg.index_add(mg.zeros(4, 3), 0, [0, 1], mg.ones(shape))


def test_index_add_takes_a_factor_as_pytorchs_does():
    x, source, alpha = mg.zeros(3), mg.tensor([1.0, 2.0]), mg.tensor(3.0, requires_grad=True)
    y = mg.index_add(x, 0, np.array([2, 2]), source, alpha=alpha)
    assert y.tolist() == [0, 0, 9] and mg.grad(y.sum(), alpha).item() == 3


def test_an_empty_list_of_indices_takes_nothing():
    x = mg.tensor([[1.0, 2.0]], requires_grad=True)
    y = np.take(x, [], axis=1)
    y.sum().backward()
    assert y.shape == (1, 0) and x.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize("write", [mg.scatter, mg.scatter_add])
@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (4,)])
def test_a_source_smaller_than_the_index_of_a_scatter_is_named(write, shape):
    index = np.zeros((3, 4), int)
    with pytest.raises(ValueError, match=rf"^{write.__name__}: src .* at least as long"):
        write(mg.ones((3, 4)), 1, index, mg.ones(shape))
