"""Large arrays in blocks give what they give in one piece."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import blocks
from minigrad.custom.variants import listed
from minigrad.engine.registry import op as registry
from minigrad.ops import normal

pytestmark = pytest.mark.promise(
    "blocks give what one piece gives; gelu's last digits; depthwise equals dense, as "
    "products with banded matrices too"
)

rng = np.random.default_rng(0)


def make_small(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 64)
    for op in registry:
        for asked in (*listed(op), getattr(op, "forward", None)):
            if getattr(asked, "least", 0) >= blocks.NOTABLE:  # it has blocks
                monkeypatch.setattr(asked, "least", 128)


@pytest.fixture
def small_blocks(monkeypatch):
    make_small(monkeypatch)


def gradients(op, x, g):
    """The result, its gradient and the gradient of that, of an op of one array."""
    x = mg.tensor(x, requires_grad=True)
    y = op(x)
    gx = mg.grad(y, x, mg.tensor(g), create_graph=True)
    ggx = mg.grad(mg.sum(gx * gx) + mg.sum(y * y), x)
    return [t.detach().numpy() for t in (y, gx, ggx)]


OPS = {
    "softmax": mg.softmax,
    "softmax over two axes": lambda x: mg.softmax(x, (0, 2)),
    "softmax over the first axis": lambda x: mg.softmax(x, 0),
    "log_softmax": mg.log_softmax,
    "log_softmax over an inner axis": lambda x: mg.log_softmax(x, 1),
    "gelu": mg.gelu,
    "gelu by tanh": lambda x: mg.gelu(x, approximate="tanh"),
    "silu": mg.silu,
    "mish": mg.mish,
    "softplus": mg.softplus,
    "elu": mg.elu,
    "max_pool": lambda x: mg.max_pool2d(x, 2),
    "avg_pool": lambda x: mg.avg_pool2d(x, 3, 2, 1),
    "cross_entropy": lambda x: mg.cross_entropy(
        x, np.arange(200).reshape(20, 10) % 6, reduction="none"
    ),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", OPS)
def test_blocks_give_what_one_piece_gives(name, dtype, monkeypatch):
    op = OPS[name]
    x = rng.standard_normal((20, 6, 10)).astype(dtype)
    g = rng.standard_normal(op(x).shape).astype(dtype)
    whole = gradients(op, x, g)
    make_small(monkeypatch)
    bound = 1e-12 if dtype == "float64" else 1e-5
    for a, b in zip(gradients(op, x, g), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


@pytest.mark.usefixtures("small_blocks")
def test_rows_that_are_all_masked_have_gradient_0_in_every_block():
    x = rng.standard_normal((40, 30))
    x[::7] = -np.inf
    for op, value in ((mg.softmax, 0), (mg.log_softmax, -np.inf)):
        t = mg.tensor(x, requires_grad=True)
        y = op(t)
        y.backward(np.ones_like(x))
        assert (y.detach().numpy()[::7] == value).all()
        assert (t.grad.numpy()[::7] == 0).all()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shape, axis", [((2, 3, 500), (0, 2)), ((600,), ()), ((4, 0, 3), (1,))])
def test_blocks_cover_an_array_once_and_keep_the_axes_whole(shape, axis):
    x, hits = np.zeros(shape), []

    def work(piece):
        assert all(piece[k] == slice(None) for k in axis)
        hits.append(piece)

    mg.set_num_threads(1)
    blocks.in_blocks(work, x, axis)
    for piece in hits:
        x[piece] += 1
    assert (x == 1).all()


def test_workspace_is_the_threads_own_and_is_used_again():
    a = blocks.scratch.empty("block 0", (10, 10), np.empty(0, np.float32))
    b = blocks.scratch.empty("block 0", (50,), np.empty(0))
    assert a.dtype == np.float32 and b.dtype == np.float64
    assert np.shares_memory(a, b)


def test_workspace_begins_with_a_cache_line():
    for n in (3, 1000, 100_000):
        assert blocks.scratch.empty("block 0", (n,), np.empty(0)).ctypes.data % blocks.LINE == 0


@pytest.mark.parametrize(
    "shape, axis, small",
    [((4, 2000), (1,), True), ((4, 2000), (0,), True), ((2000, 4), (1,), False),
     ((3, 4, 30, 30), (0, 2, 3), True), ((3, 4, 5, 5), (0, 2, 3), False)],
)  # fmt: skip
def test_numpys_buffer_is_small_where_runs_are_long_and_only_there(shape, axis, small):
    before = np.getbufsize()
    with blocks.long_runs(np.empty(shape), axis):
        assert (np.getbufsize() < before) == small
    assert np.getbufsize() == before


def test_threads_that_share_blocks_work_with_the_small_buffer_too(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 2000)
    sizes = []
    blocks.in_blocks(lambda piece: sizes.append(np.getbufsize()), np.empty((40, 1000)), (1,))
    assert len(sizes) == 20 and set(sizes) == {512}


# -- x Φ(x) for float32 ----------------------------------------------------------------------------


def in_units(found, exact):
    """The error in units in the last place of the exact value's size."""
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(float)
    return np.abs(found - exact) / unit


def test_gelu_of_float32_keeps_its_digits_in_both_tails():
    """z²/2 is rounded before its exponential is taken, which costs up to z²/2 units (84 at −13)."""
    erfc = pytest.importorskip("scipy.special").erfc
    small = np.logspace(-30, 0, 20_000)
    x = np.concatenate([np.linspace(-12.9, 13, 400_001), small, -small]).astype(np.float32)
    wide = x.astype(float)
    exact = wide * 0.5 * erfc(-wide / np.sqrt(2))
    error = in_units(normal.gelu(x)[0], exact)
    assert (error < 8 + np.where(x < 0, wide * wide / 2, 0)).all()
    assert error[x > -3].max() < 8


def test_the_derivative_of_gelu_of_float32_is_within_two_roundings_of_1():
    erfc = pytest.importorskip("scipy.special").erfc
    x = np.linspace(-14, 14, 400_001).astype(np.float32)
    wide = x.astype(float)
    exact = 0.5 * erfc(-wide / np.sqrt(2)) + wide * np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(normal.gelu(x)[1], exact, rtol=0, atol=2.4e-7)


def test_gelu_of_float32_at_its_ends():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, -3e38, 3e38], np.float32)
    with np.errstate(invalid="ignore"):
        y, slope = normal.gelu(x)
    np.testing.assert_array_equal(
        y, np.array([np.inf, np.nan, np.nan, 0.0, -0.0, 0.0, -0.0, 3e38], np.float32)
    )
    np.testing.assert_array_equal(slope, [1, 0, np.nan, 0.5, 0.5, 0.5, 0, 1])
    assert np.signbit(y[[4, 6]]).all()


def _noted(key: tuple, size: int, count: list) -> np.ndarray:
    def write() -> np.ndarray:
        count.append(key)
        return blocks.scratch.empty("noted", (size,), np.zeros(0))

    return blocks.scratch.written(key, write)


def test_what_is_written_down_over_scratch_memory_is_written_once():
    count: list = []
    first = _noted(("once", 10), 10, count)
    assert _noted(("once", 10), 10, count) is first and len(count) == 1


def test_it_is_written_again_once_its_memory_has_been_replaced():
    count: list = []
    _noted(("again", 10), 10, count)
    blocks.scratch.empty("noted", (1000,), np.zeros(0))
    memory = _noted(("again", 10), 10, count)
    assert len(count) == 2
    assert np.shares_memory(memory, blocks.scratch.empty("noted", (10,), np.zeros(0)))


def test_memory_too_large_to_be_kept_is_not_kept_by_what_is_written_down(monkeypatch):
    monkeypatch.setattr(type(blocks.scratch), "LIMIT", 100)
    count: list = []
    _noted(("large", 1000), 1000, count)
    _noted(("large", 1000), 1000, count)
    assert len(count) == 2


def test_only_so_many_things_are_written_down(monkeypatch):
    monkeypatch.setattr(type(blocks.scratch), "MOST", 5)
    for size in range(1, 20):
        _noted(("many", size), size, [])
    assert len(blocks.scratch.notes) <= 5
