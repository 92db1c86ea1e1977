"""Images whose places come first in memory: the same results, in the order of their arguments."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.backends import blas
from minigrad.backends.image_layout import alike, in_rows, lies_places_first, places_first, turned

pytestmark = pytest.mark.promise(
    "images in memory order HWNC: the same results as in NCHW, and the order is passed on"
)


def rand(*shape, seed=0, dtype: Any = np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


IMAGES = (16, 24, 9, 10)  # enough of them for results to lie so
WEIGHT, BIAS = rand(24, seed=1), rand(24, seed=2)


def conv(channels, *kernel, **options):
    w = rand(20, channels // options.get("groups", 1), *kernel, seed=3)
    return lambda x: mg.conv2d(x, w, rand(20, seed=4), **options)


CONVOLUTIONS = {
    "3 × 3": conv(24, 3, 3, padding=1),
    "3 × 3, stride 2": conv(24, 3, 3, stride=2, padding=1),
    "4 × 2, dilated": conv(24, 4, 2, padding=((3, 1), (0, 2)), dilation=(1, 3)),
    "1 × 1": conv(24, 1, 1),
    "1 × 1, stride 2": conv(24, 1, 1, stride=2),
}
TURNED = {  # functions whose results lie as their arguments do
    **CONVOLUTIONS,
    "relu": mg.relu,
    "gelu": mg.gelu,
    "a sum": lambda x: x + x * 2,
    "a bias": lambda x: x + WEIGHT.reshape(1, -1, 1, 1),
    "max_pool": lambda x: mg.max_pool2d(x, 2),
    "max_pool, overlapping": lambda x: mg.max_pool2d(x, 3, stride=2, padding=1),
    "max_pool that covers": lambda x: mg.max_pool2d(x, (3, 2)),
    "avg_pool": lambda x: mg.avg_pool2d(x, (3, 2)),
    "avg_pool, overlapping": lambda x: mg.avg_pool2d(x, 3, stride=1, padding=1),
    "batch_norm": lambda x: F.batch_norm(x, None, None, WEIGHT, BIAS, training=True),
    "group_norm": lambda x: F.group_norm(x, 4, WEIGHT, BIAS),
    "instance_norm": F.instance_norm,
}
OTHERS = {  # and whose results lie in rows
    "depthwise": lambda x: mg.conv2d(x, rand(24, 1, 3, 3, seed=3), padding=1, groups=24),
    "groups": conv(24, 3, 3, groups=4),
    "softmax": lambda x: F.softmax(x, 1),
    "layer_norm with places": lambda x: F.layer_norm(x, (9, 10), rand(9, 10), rand(9, 10)),
    "flatten": lambda x: x.reshape(16, -1),
    "sums of channels": lambda x: x.sum((0, 2, 3)) * x.mean((2, 3)),
    "conv_transpose": lambda x: mg.conv_transpose2d(x, rand(24, 5, 2, 2, seed=3), stride=2),
}


def value_and_gradient(fn, x: np.ndarray, g: np.ndarray | None = None):
    """As arrays, in the order that they have; the gradient as an op's rule left it."""
    seen, leaf = [], mg.tensor(x, requires_grad=True)
    x_again = mg.exp(leaf) * 0 + leaf  # no leaf: its gradient is not copied
    x_again.register_hook(lambda gx: seen.append(gx.numpy()))
    y = fn(x_again)
    g = rand(*y.shape, seed=9) if g is None else g
    y.backward(mg.tensor(places_first(g) if turned(y.numpy()) else g))
    return y.numpy(), seen[0]


@pytest.mark.parametrize("name", [*TURNED, *OTHERS])
def test_values_and_gradients_are_those_of_images_in_rows(name):
    fn, x = {**TURNED, **OTHERS}[name], rand(*IMAGES)
    for ours, exact in zip(
        value_and_gradient(fn, places_first(x)), value_and_gradient(fn, x), strict=True
    ):
        np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=2e-5 * abs(exact).max())


@pytest.mark.parametrize("size", [(9, 10), (33, 40)])  # of one block, and of several
@pytest.mark.parametrize("name", TURNED)
def test_some_of_the_images_give_what_they_give_in_rows(name, size):
    fn, x = TURNED[name], rand(20, 24, *size)
    for some in (slice(2, 18), slice(0, 20, 2)):
        for ours, exact in zip(
            value_and_gradient(lambda x, some=some: fn(x[some]), places_first(x)),
            value_and_gradient(lambda x, some=some: fn(x[some]), x),
            strict=True,
        ):
            np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=2e-5 * abs(exact).max())


def of_fast(name):
    """In plain mode the results of a convolution and of pooling lie in rows."""
    by_form = name in CONVOLUTIONS or "_pool" in name
    return pytest.param(name, marks=[pytest.mark.layer("fast")] if by_form else [])


@pytest.mark.parametrize("name", map(of_fast, TURNED))
def test_the_order_goes_through_forward_and_back(name):
    y, gx = value_and_gradient(TURNED[name], places_first(rand(*IMAGES)))
    assert turned(y) and turned(gx)


@pytest.mark.layer("fast")
def test_many_images_come_out_of_a_first_layer_places_first():
    y = mg.conv2d(mg.tensor(rand(32, 3, 12, 12)), rand(16, 3, 3, 3), padding=1)
    assert lies_places_first(y.numpy()) and turned(y.numpy())


def test_few_images_stay_in_rows():
    y = mg.conv2d(mg.tensor(rand(4, 16, 32, 32)), rand(16, 16, 3, 3), padding=1)
    assert y.numpy().flags.c_contiguous


def test_inside_accelerate_results_lie_in_rows():
    pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
    with mg.accelerate(process=False):
        y = mg.conv2d(mg.tensor(rand(32, 16, 12, 12)), rand(16, 16, 3, 3), padding=1)
    assert y.numpy().flags.c_contiguous


# -- the same bits ---------------------------------------------------------------------------------


def network(x, *leaves):
    u, v, w, weight, bias = leaves
    x = mg.max_pool2d(mg.relu(mg.conv2d(x, u, padding=1)), 2)
    x = F.batch_norm(mg.conv2d(x, v, padding=1), None, None, weight, bias, training=True)
    x = mg.conv2d(mg.relu(x), w, stride=2)
    return (x.mean((2, 3)) ** 2).sum()


def layers():
    shapes = (16, 3, 3, 3), (32, 16, 3, 3), (24, 32, 2, 2), (32,), (32,)
    return [mg.tensor(rand(*s, seed=k), requires_grad=True) for k, s in enumerate(shapes)]


@pytest.fixture
def threads():
    pytest.importorskip("threadpoolctl")  # without it products use the threads of BLAS
    before = mg.get_num_threads()
    yield mg.set_num_threads
    mg.set_num_threads(before)


def test_no_bit_depends_on_the_number_of_threads(threads):
    found, x = [], rand(64, 3, 32, 32)
    for n in (1, 2, 4):
        threads(n)
        leaves = layers()
        found.append([g.numpy().tobytes() for g in mg.grad(network(x, *leaves), leaves)])
    assert found[0] == found[1] == found[2]


def test_the_parallel_engine_gives_the_serial_bits(threads):
    threads(2)
    leaves = layers()
    y = network(rand(32, 3, 16, 16), *leaves)
    with blas.one_thread():  # as in the parallel engine: some kernels' bits depend on it
        serial = mg.grad(y, leaves, retain_graph=True)
    parallel = mg.grad(y, leaves, engine="parallel", workers=4, min_work=0)
    for a, b in zip(serial, parallel, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_replay_of_a_tape_gives_the_eager_bits():
    leaves, x = layers(), mg.tensor(rand(32, 3, 16, 16))
    with mg.Tape() as tape:
        y = network(x, *leaves)
    program = tape.compile(y, [x], leaves)
    other = rand(32, 3, 16, 16, seed=8)
    value, gs = program(other)
    y = network(mg.tensor(other), *leaves)
    assert value.tobytes() == y.numpy().tobytes()
    for a, b in zip(gs, mg.grad(y, leaves), strict=True):
        assert a.tobytes() == b.numpy().tobytes()


# -- arrays ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 6), min_size=3, max_size=5), st.integers(0, 4))
def test_arrays_turned_at_any_axis_come_back_in_rows(shape, k):
    k %= len(shape)
    x = rand(*shape[k:], *shape[:k])
    x = x.transpose((*range(len(shape) - k, len(shape)), *range(len(shape) - k)))
    y = in_rows(x)
    assert x.shape == tuple(shape)
    assert y.flags.c_contiguous and (y == x).all()


@pytest.mark.parametrize("size", [(32, 16, 32, 32), (5, 3, 4, 2), (40, 64, 20, 21)])
def test_images_are_turned_and_turned_back(size):
    x = rand(*size)
    y = places_first(x)
    assert lies_places_first(y) and y.base is None and (y == x).all()
    assert in_rows(y).tobytes() == x.tobytes()


@pytest.mark.layer("fast")
def test_a_reshape_that_can_be_a_view_is_one():
    x = mg.conv2d(mg.tensor(rand(32, 16, 8, 8)), rand(16, 16, 3, 3), padding=1)
    assert turned(x.numpy())
    assert np.shares_memory(x.reshape(32, 4, 4, 64).numpy(), x.numpy())
    y = x.reshape(32, -1).numpy()
    assert y.flags.c_contiguous and y.tobytes() == np.ascontiguousarray(x.numpy()).tobytes()


@pytest.mark.parametrize("shape", [(1, 4, 4), (4, 1, 3), (2, 6, 1, 5), (1, 4, 3, 1, 2)])
@pytest.mark.parametrize("k", [1, 2])
def test_norms_of_arrays_with_axes_of_one_entry_are_those_of_rows(shape, k):
    x = rand(*shape, dtype=np.float64)
    turned_x = np.ascontiguousarray(np.moveaxis(x, range(k), range(-k, 0)))
    turned_x = np.moveaxis(turned_x, range(-k, 0), range(k))
    for norm in (
        lambda x: F.group_norm(x, 1),
        lambda x: F.batch_norm(x, None, None, training=True),
    ):
        exact = value_and_gradient(norm, x, rand(*shape, seed=1, dtype=np.float64))
        ours = value_and_gradient(norm, turned_x, rand(*shape, seed=1, dtype=np.float64))
        for a, e in zip(ours, exact, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


MIXED = {
    "a sum": lambda a, b: a + b,
    "a product": lambda a, b: a * b,
    "where": lambda a, b: mg.where(a > 0, a, b),
    "relu of one": lambda a, b: mg.relu(a) - 2 * b,
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("size", [(4, 4), (20, 24)])  # of few places, and of a notable number
def test_images_in_rows_meet_images_places_first(name, size):
    """A skip connection: values and gradients are bit for bit those of images in rows."""
    a, b, g = (rand(16, 24, *size, seed=i) for i in range(3))
    expected, found = [], []
    for results, turn in ((expected, np.asarray), (found, places_first)):
        xs = [mg.tensor(x, requires_grad=True) for x in (turn(a), b)]
        y = MIXED[name](*xs)
        y.backward(g)
        results += [y.numpy(), *[x.grad.numpy() for x in xs]]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.layer("fast")
def test_a_notable_sum_of_both_orders_lies_places_first_whichever_comes_first():
    a, b = rand(16, 24, 20, 24), rand(16, 24, 20, 24, seed=1)
    for y in (mg.tensor(a) + places_first(b), mg.tensor(places_first(a)) + b):
        assert lies_places_first(y.numpy())


def test_only_images_of_one_shape_are_laid_alike():
    a, b, row = rand(16, 24, 20, 24), places_first(rand(16, 24, 20, 24)), rand(1, 24, 1, 1)
    values = alike((a, b, row, 2.0))
    assert lies_places_first(values[0]) and values[1:] == (b, row, 2.0)
    assert alike((a, row)) == (a, row) and alike((b, 2.0)) == (b, 2.0)
