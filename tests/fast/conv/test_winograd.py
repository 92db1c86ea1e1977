"""Winograd's form of a convolution: what the direct form gives, in every size, dtype and engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends import blas, image_layout
from minigrad.backends.blocks import scratch
from minigrad.fast.conv import winograd, winograd_tiles
from minigrad.ops.conv import primitives
from minigrad.ops.windows import windows
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise(
    "Winograd's convolution is the direct one: odd sizes, any padding, NaN and ∞, the same "
    "bits for any number of threads and in every engine"
)

CONVOLUTIONS = [mg.conv1d, mg.conv2d, mg.conv3d]


def rand(*shape, seed=0, dtype: Any = np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture(params=["channels first", "places first"], autouse=True)
def order(request, monkeypatch):
    """Every test in both orders of memory."""
    monkeypatch.setattr(image_layout, "RUN", 1 if request.param == "places first" else 1 << 40)
    return request.param


@pytest.fixture(params=["sums", "products"], autouse=True)
def form(request, monkeypatch):
    """Every test with both forms of the transforms, whichever this machine's BLAS would get."""
    monkeypatch.setattr(blas, "packs_no_small_factors", lambda: request.param == "products")


@contextmanager
def small(**limits) -> Iterator[None]:
    """Winograd's form wherever it can be taken, whether or not it pays."""
    least = {"AXES": (1, 2, 3), "LEAST_CHANNELS": 1, "LEAST_TILES": 1, "LEAST_PRODUCTS": 1}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({**least, "MOST_PRODUCTS": 9.0} | limits).items():
            patch.setattr(winograd if hasattr(winograd, name) else winograd_tiles, name, value)
        yield


@contextmanager
def direct() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "suits", lambda *args: False)
        yield


@contextmanager
def counted() -> Iterator[list]:
    """Which of the three convolutions Winograd's functions are called for."""
    calls = []
    of = {name: [name] for name in ("forward", "transposed", "of_weight")}
    with pytest.MonkeyPatch.context() as patch:
        for name, convolutions in (of | {"both": ["transposed", "of_weight"]}).items():

            def noted(*args, convolutions=convolutions, fn=getattr(winograd, name)):
                calls.extend(convolutions)
                return fn(*args)

            patch.setattr(winograd, name, noted)
        yield calls


def three(x: Any, w: Any, b: Any, g: Any, padding: Any) -> tuple:
    """y, gx, gw as arrays; g is cut to the size of y."""
    how = windows("conv", w.shape[2:], 1, padding, 1)
    size = x.shape[2:]
    g = g[(..., *(slice(n) for n in how.count("conv", size)))]
    return (
        primitives.conv(x, w, b, how=how),
        primitives.conv_dx(g, w, size=size, how=how),
        primitives.conv_dw(g, x, how=how),
    )


def errors_allowed(x, w, b, g, padding):
    """What rounding may do to y, gx and gw, in either form.

    A sum of n terms is off by at most n eps Σ |term|. Along an axis the terms of Winograd's form
    are products of a transformed kernel and a transformed tile, with Σ |term| ≤ 4 Σ|w| max|x|,
    and some ten more sums are the transforms. Neither is anywhere near a wrong place or sign.
    """
    eps, grow = np.finfo(x.dtype).eps, 4.0 ** (x.ndim - 2)

    def bound(kept, largest, terms):
        return (terms + 10) * eps * grow * kept * np.abs(largest).max()

    places = len(x) * g[0, 0].size
    return (
        bound(np.abs(w).sum(axis=tuple(range(1, w.ndim))).max(), x, w[0].size) + eps * abs(b).max(),
        bound(np.abs(w).sum(axis=(0, *range(2, w.ndim))).max(), g, w[:, 0].size),
        bound(np.abs(g).sum(axis=(0, *range(2, g.ndim))).max(), x, places),
    )


@st.composite
def convolutions(draw):
    """(x, w, b, g, padding) with odd and even sizes and paddings of either side."""
    dims = draw(st.integers(1, 3))
    padding = [(draw(st.integers(0, 4)), draw(st.integers(0, 4))) for _ in range(dims)]
    size = [draw(st.integers(max(1, 3 - sum(pair)), 7)) for pair in padding]
    n, c, o = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    shapes = (n, c, *size), (o, c, *(3,) * dims), (o,), (n, o, *(m + 8 for m in size))
    xs = [rand(*shape, seed=k, dtype=dtype) for k, shape in enumerate(shapes)]
    return (*xs, padding)


@given(convolutions(), st.sampled_from([1, 1 << 21]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_and_both_gradients_are_those_of_the_direct_form(case, block_bytes):
    with direct():
        exact = three(*(x.astype(np.float64) for x in case[:4]), case[4])
    with small(BLOCK_BYTES=block_bytes, RUN=8), counted() as calls:
        ours = three(*case)
    assert calls == ["forward", "transposed", "of_weight"]
    for a, b, allowed in zip(ours, exact, errors_allowed(*case), strict=True):
        assert a.dtype == case[0].dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=allowed)


@pytest.mark.parametrize("size, padding", [((3, 5), [(0, 0), (1, 0)]), ((3, 9), [(1, 1), (1, 0)])])
def test_one_image_of_one_channel_has_runs_of_one(size, padding):
    """Strides of 64 bytes then, for which np.negative of NumPy 2.4 is wrong on AVX-512."""
    shapes = (1, 1, *size), (1, 1, 3, 3), (1,), (1, 1, *(m + 8 for m in size))
    case = [rand(*shape, seed=k) for k, shape in enumerate(shapes)]
    with direct():
        exact = three(*case, padding)
    with small():
        ours = three(*case, padding)
    for a, b, allowed in zip(ours, exact, errors_allowed(*case, padding), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=allowed)


@pytest.mark.parametrize("size", [(32, 32), (64, 64), (9, 11), (6, 5, 4)])
def test_large_layers_are_as_exact_as_their_direct_form(size):
    """Random terms: each form's error grows as the root of their number, so 4 times is ample."""
    c, o = 17, 20
    x, w = rand(4, c, *size, dtype="f"), rand(o, c, *(3,) * len(size), seed=1, dtype="f")
    b, g = rand(o, seed=2, dtype="f"), rand(4, o, *size, seed=3, dtype="f")
    with direct(), pytest.MonkeyPatch.context() as patch:
        exact = three(*[v.astype(np.float64) for v in (x, w, b, g)], 1)
        patch.setattr(blas, "packs_no_small_factors", lambda: False)  # blocks are more exact
        theirs = three(x, w, b, g, 1)
    with small():
        ours = three(x, w, b, g, 1)
    for a, t, e in zip(ours, theirs, exact, strict=True):
        assert np.abs(a - e).max() < 4 * max(np.abs(t - e).max(), np.spacing(np.abs(e).max()))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_derivatives_to_second_order_agree_with_finite_differences(dims):
    xs = rand(2, 2, *(5, 4, 3)[:dims]), rand(2, 2, *(3,) * dims, seed=1), rand(2, seed=2)
    with small(), counted() as calls:
        assert gradcheck(lambda *xs: CONVOLUTIONS[dims - 1](*xs, padding=1), xs)
        assert gradgradcheck(lambda *xs: CONVOLUTIONS[dims - 1](*xs, padding=1), xs)
    assert set(calls) == {"forward", "transposed", "of_weight"}


# -- what is not finite ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", range(4), ids="xwbg")
def test_what_is_not_finite_reaches_the_places_that_it_reaches_directly(where, bad):
    case = [
        rand(*s, seed=k) for k, s in enumerate([(6, 2, 9, 7), (3, 2, 3, 3), (3,), (6, 3, 9, 7)])
    ]
    case[where].flat[[0, -1]] = bad  # corners: tiles there reach beyond the image
    case[where].flat[case[where].size // 2] = -bad
    with direct():
        exact = three(*case, 1)
    with small(BLOCK_BYTES=1, RUN=8):
        ours = three(*case, 1)
    assert not all(np.isfinite(y).all() for y in exact)
    for a, b in zip(ours, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_only_images_that_are_not_finite_are_done_again():
    x, w, b = rand(8, 2, 6, 6), rand(3, 2, 3, 3, seed=1), rand(3, seed=2)
    x[5, 0, 2, 2] = np.nan
    y, how = np.empty((8, 3, 6, 6)), windows("conv", (3, 3), 1, 1, 1)
    with small(BLOCK_BYTES=1, RUN=10):  # two images at a time
        assert winograd.forward(x, w, b, how, y) == [slice(4, 6)]


def test_values_too_large_for_the_transforms_are_right():
    """x₀ − x₂ overflows, the convolution does not."""
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[..., 0, :], x[..., 2, :] = 3e38, -3e38
    w = np.zeros((1, 1, 3, 3), np.float32)
    w[..., 1, 1] = 1
    with small():
        np.testing.assert_array_equal(mg.conv2d(x, w, padding=1), x)


def test_no_warning_comes_from_a_tile_that_is_done_again(recwarn):
    x, w = np.zeros((1, 1, 4, 4)), np.ones((1, 1, 3, 3))
    x[..., 0, 0] = np.inf
    with direct():
        mg.conv2d(x, w, padding=1)
    before = len(recwarn)
    with small():
        mg.conv2d(x, w, padding=1)
    assert len(recwarn) == 2 * before


# -- the same bits ---------------------------------------------------------------------------------


@pytest.fixture
def threads():
    pytest.importorskip("threadpoolctl")  # without it products use the threads of BLAS
    before = mg.get_num_threads()
    yield mg.set_num_threads
    mg.set_num_threads(before)


def test_no_bit_depends_on_the_number_of_threads(threads):
    shapes = (9, 16, 20, 21), (24, 16, 3, 3), (24,), (9, 24, 20, 21)
    case = [rand(*s, seed=k, dtype="f") for k, s in enumerate(shapes)]
    found = []
    with small(BLOCK_BYTES=1 << 17, RUN=80), counted() as calls:
        for n in (1, 2, 4):
            threads(n)
            found.append([y.tobytes() for y in three(*case, 1)])
    assert len(calls) == 9
    assert found[0] == found[1] == found[2]


def two_layers(x, v, w):
    return (mg.conv2d(mg.relu(mg.conv2d(x, v, padding=1)), w, padding=1) ** 2).sum()


def layers(seed):
    shapes = (6, 3, 10, 10), (4, 3, 3, 3), (5, 4, 3, 3)
    return [rand(*s, seed=seed + k, dtype="f") for k, s in enumerate(shapes)]


def gradients(x, w, g, padding, wanted):
    """Those of the wanted ones of x and w, which alone need any."""
    xs = [mg.tensor(v, requires_grad=name in wanted) for name, v in (("x", x), ("w", w))]
    y = CONVOLUTIONS[w.ndim - 3](*xs, padding=tuple(padding))
    mg.backward(y, mg.tensor(g[tuple(map(slice, y.shape))]))
    return [v.grad.numpy().tobytes() for v in xs if v.requires_grad]


@given(convolutions(), st.sampled_from([1, 1 << 21]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bit_of_a_gradient_depends_on_which_others_are_wanted(case, block_bytes):
    x, w, _, g, padding = case
    with small(BLOCK_BYTES=block_bytes, RUN=8):
        gx, gw = gradients(x, w, g, padding, "xw")
        assert gradients(x, w, g, padding, "x") == [gx]
        assert gradients(x, w, g, padding, "w") == [gw]


def test_both_gradients_are_made_at_once_where_images_lie_places_first(order, monkeypatch):
    calls = []
    both = winograd.both
    monkeypatch.setattr(winograd, "both", lambda *args: calls.append(1) or both(*args))
    x, w, g = rand(6, 4, 10, 10), rand(5, 4, 3, 3), rand(6, 5, 8, 8)
    with small():
        for wanted in ("xw", "x", "w"):
            gradients(x, w, g, [0, 0], wanted)
    assert len(calls) == (order == "places first")


def test_the_parallel_engine_gives_the_serial_bits(threads):
    threads(2)
    leaves = [mg.tensor(x, requires_grad=True) for x in layers(0)]
    with small(BLOCK_BYTES=1 << 12, RUN=16), counted() as calls:
        y = two_layers(*leaves)
        serial = mg.grad(y, leaves, retain_graph=True)
        forced = {"engine": "parallel", "workers": 4, "min_work": 0}
        parallel = mg.grad(y, leaves, **forced)
    assert calls.count("of_weight") == calls.count("transposed") == 4
    for a, b in zip(serial, parallel, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_replay_of_a_tape_gives_the_eager_bits(threads):
    threads(2)
    with small(BLOCK_BYTES=1 << 12, RUN=16):
        leaves = [mg.tensor(x, requires_grad=True) for x in layers(0)]
        with mg.Tape() as tape:
            y = two_layers(*leaves)
        program = tape.compile(y, leaves, leaves)
        new = layers(7)
        with counted() as calls:
            value, gs = program(*new)
        assert set(calls) == {"forward", "transposed", "of_weight"}
        leaves = [mg.tensor(x, requires_grad=True) for x in new]
        y = two_layers(*leaves)
        assert value.tobytes() == y.numpy().tobytes()
        for a, b in zip(gs, mg.grad(y, leaves), strict=True):
            assert a.tobytes() == b.numpy().tobytes()


def test_what_one_form_has_written_down_is_not_taken_for_the_other(monkeypatch):
    """As a helper thread still has it when another form is chosen: in runs of one they differ."""
    x, w, g = rand(1, 1, 3, 5, 5), rand(3, 1, 3, 3, 3, seed=1), rand(1, 3, 11, 11, 11, seed=2)

    def by(products):
        monkeypatch.setattr(blas, "packs_no_small_factors", lambda: products)
        return gradients(x, w, g, [1] * 3, "xw")

    with small(BLOCK_BYTES=1, RUN=8):
        scratch.clear()
        sums = by(False)
        scratch.clear()
        products = by(True)
        assert by(False) == sums and by(True) == products


# -- when it is taken ------------------------------------------------------------------------------


def taken(x, w, **options):
    with counted() as calls:
        leaves = [mg.tensor(x, requires_grad=True), mg.tensor(w, requires_grad=True)]
        y = mg.conv2d(*leaves, None, **options)
        mg.grad(y, leaves, mg.ones_like(y.detach()))
    return sorted(calls)


def test_it_is_taken_for_many_channels_and_tiles():
    w = rand(32, 32, 3, 3, dtype="f")
    every = ["forward", "of_weight", "transposed"]
    assert taken(rand(16, 32, 8, 8, dtype="f"), w, padding=1) == every
    assert taken(rand(1, 32, 8, 8, dtype="f"), w, padding=1) == []
    assert taken(rand(64, 3, 16, 16, dtype="f"), rand(32, 3, 3, 3, dtype="f")) == []


@pytest.mark.parametrize(
    "kernel, options",
    [
        ((3, 3), {"stride": 2}),
        ((3, 3), {"dilation": (1, 2)}),
        ((3, 1), {}),
        ((5, 5), {}),
        ((3, 3), {"groups": 2}),
    ],
)
def test_other_windows_and_groups_are_left_to_the_direct_form(kernel, options):
    x, w = rand(2, 4, 8, 8), rand(4, 4 // options.get("groups", 1), *kernel)
    with small():
        assert taken(x, w, **options) == []


def test_complex_images_are_left_to_the_direct_form():
    x, w = rand(2, 2, 6, 6) * 1j, rand(2, 2, 3, 3)
    with small():
        assert taken(x, w) == []


def test_float16_is_transformed_in_float32():
    x, w = np.full((1, 600, 4, 4), 1, np.float16), np.full((1, 600, 3, 3), 0.5, np.float16)
    with small(), counted() as calls:
        y = mg.conv2d(mg.tensor(x), mg.tensor(w))
    assert calls == ["forward"] and y.dtype == np.float16
    np.testing.assert_array_equal(y.numpy(), np.full((1, 1, 2, 2), 2700, np.float16))


def test_images_that_are_no_contiguous_arrays():
    x, w = rand(9, 8, 4, 3).transpose(2, 3, 0, 1), rand(3, 3, 2, 5, seed=1).transpose(3, 2, 0, 1)
    w = np.broadcast_to(w[:, :1], (5, 3, 3, 3))
    b, g = rand(5, seed=2), rand(8, 9, 5, 4, seed=3).transpose(3, 2, 1, 0)
    with direct():
        exact = three(x, w, b, g, 1)
    with small():
        for a, e in zip(three(x, w, b, g, 1), exact, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)
