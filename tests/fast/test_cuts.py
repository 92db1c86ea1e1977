"""Arrays that are broadcast against a large one: in blocks of rows, the bits of one call."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends import blocks as pieces
from minigrad.backends import cuts
from minigrad.engine.registry import op
from minigrad.fast import blocked
from minigrad.fast.blocked import in_blocks, piecewise
from tests.fast.large_arrays import let_blocks_take

pytestmark = pytest.mark.promise(
    "elementwise ops and their rules in blocks give the bits of one piece"
)

FUNCTIONS = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.arctan2, np.less]


@pytest.fixture(autouse=True)
def small():
    """Blocks of 64 elements, for arrays of 128 and more; rows of 16, and runs of more than 8."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, n in [
            (pieces, "BLOCK", 64), (pieces, "LARGE", 128), (pieces, "BROADCAST", 128),
            (cuts, "FOLDED", 16), (cuts, "BUFFER", 16),
        ]:  # fmt: skip
            patch.setattr(module, name, n)
        let_blocks_take(128, patch)
        threads = mg.get_num_threads()
        mg.set_num_threads(2)
        yield
        mg.set_num_threads(threads)


def values(shape, dtype="f4"):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@st.composite
def broadcast_pairs(draw):
    """An array, in some order of its axes, and one that is broadcast against it."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    order = draw(st.permutations(range(len(shape))))
    x = values([shape[k] for k in order]).transpose(np.argsort(order))
    kept = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    b_shape = [n if keep else 1 for n, keep in zip(shape, kept, strict=True)]
    b = values(b_shape[draw(st.integers(0, 1)) and b_shape[0] == 1 :])
    return x, b


@given(broadcast_pairs(), st.sampled_from(FUNCTIONS), st.booleans())
def test_broadcast_arrays_give_the_bits_of_one_call(pair, function, swapped):
    x, b = pair[::-1] if swapped else pair
    expected, y = function(x, b), in_blocks(function)(x, b)
    assert y.dtype == expected.dtype and np.array_equal(y, expected)


@pytest.mark.parametrize(
    "x, b",
    [
        ((40, 6), (6,)), ((40, 6), (1, 6)), ((40, 6), (1,)), ((8, 5, 6), (5, 6)),
        ((8, 3, 5, 7), (3, 1, 1)), ((3, 90), (3, 1)), ((3, 2, 90), (3, 2, 1)), ((2, 90), (2, 1)),
        ((3, 8, 9), (8, 1)),
    ],
)  # fmt: skip
def test_rows_and_columns_are_cut(x, b):
    seen = []

    def add(x, b):
        seen.append(x.size)
        return x + b

    x, b = values(x), values(b)
    y = piecewise(add, (x, b), {})
    assert np.array_equal(y, x + b)
    assert len(seen) > 2 and sum(seen[1:]) == x.size  # the first asks for dtypes


def test_an_array_in_another_order_is_cut_in_that_order_and_the_result_has_it():
    images = values((6, 5, 8, 3)).transpose(2, 3, 0, 1)
    y = in_blocks(np.add)(images, values((3, 1, 1)))
    assert y.strides == images.strides and y.base is None
    assert np.array_equal(y, images + values((3, 1, 1)))


@pytest.mark.parametrize("b", [(3, 1, 9), (9, 3, 1, 1)])
def test_what_is_broadcast_otherwise_is_one_call(b):
    calls = []

    def add(x, b):
        calls.append(x.shape)
        return x + b

    piecewise(add, (values((3, 8, 9)), values(b)), {})
    assert calls == [(3, 8, 9)]


def test_a_shape_that_does_not_fit_is_numpys_error():
    with pytest.raises(ValueError, match="broadcast"):
        in_blocks(np.add)(values((40, 6)), values((5,)))


def test_numpys_buffer_is_as_before_also_after_an_error():
    before = np.getbufsize()
    in_blocks(np.add)(values((40, 6)), values((6,)))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        in_blocks(np.divide)(values((40, 6)), np.zeros(6, np.float32))
    assert np.getbufsize() == before


@pytest.mark.parametrize("b", [(6,), (40, 1)], ids=["row", "column"])
@pytest.mark.parametrize("function", [op.mul, op.div, op.sub, op.maximum])
def test_gradients_are_those_of_arrays_of_one_shape(function, b):
    x, b, g = values((40, 6), "f8"), values(b, "f8") + 3, values((40, 6), "f8")

    def gradients(b):
        leaves = [mg.tensor(v, requires_grad=True) for v in (x, b)]
        y = function(*leaves)
        y.backward(g)
        return y.numpy(), *[leaf.grad.numpy() for leaf in leaves]

    y, dx, db = gradients(b)
    whole_y, whole_dx, whole_db = gradients(np.broadcast_to(b, x.shape).copy())
    axis = 0 if len(b) == 6 else 1
    assert np.array_equal(y, whole_y) and np.array_equal(dx, whole_dx)
    assert np.allclose(db, whole_db.sum(axis, keepdims=b.ndim == 2), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "shape, other", [((40, 6), (6,)), ((2, 300), (2, 1))], ids=["rows", "a few long rows"]
)
def test_a_contribution_is_made_in_blocks_where_the_other_array_is_broadcast(shape, other):
    x, b = mg.tensor(values(shape), requires_grad=True), mg.tensor(values(other))
    y, g = x * b, values(shape) + 1
    assert y.node is not None
    (found,) = y.node.plan.blocked_vjp(g, y.node.saved)
    assert np.array_equal(found, g * b.numpy())


@pytest.mark.parametrize("b", [(2,), ()], ids=["a row", "one number"])
@pytest.mark.parametrize("order", [1, -1], ids=["large first", "large last"])
def test_a_large_argument_is_cut_when_an_op_is_called(b, order, monkeypatch):
    blocks = []

    def watched(work, cut):
        blocks.append(len(cut))
        for piece in cut:
            work(piece)

    monkeypatch.setattr(blocked, "share", watched)
    n = 1 << 16  # a call is made directly with fewer elements
    args = [mg.tensor(np.ones((n, 2), np.float32)), mg.tensor(np.ones(b, np.float32))]
    assert (op.add(*args[::order]).numpy() == 2).all()
    assert blocks == [n * 2 // 64]
