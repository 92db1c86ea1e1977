"""Dropout on a GPU: one kernel each way, and the numbers that the generator would have given."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import random
from minigrad.backends.philox import DeviceGenerator
from minigrad.engine.registry import op

pytestmark = pytest.mark.promise(
    "kernels of dropout and pooling give the op's numbers, on a GPU and compiled for the host"
)

on_both = pytest.mark.parametrize("kernels", ["stand-in", "gpu"], indirect=True)
DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
FORMS = [  # (shape, axes that share a draw)
    ((4096,), ()), ((7, 13), ()), ((3,), ()), ((), ()), ((0, 4), ()), ((1, 5), (0,)),
    ((3, 5, 8, 8), (2, 3)), ((3, 5, 7, 7), (2, 3)), ((6, 5, 3), (0, 2)), ((4, 3, 5), (1,)),
    ((2, 3, 1), (2,)), ((5, 6), (0, 1)), ((2, 2, 2, 2, 6), (-1, -3)),
]  # fmt: skip


def dtype_of(name):
    return mg.bfloat16 if name == "bfloat16" else np.dtype(name)


def drawn(shape, shared, p, seed=3):
    """The mask that the generator's own `random` gives."""
    mg.manual_seed(seed)
    shape = [1 if k in [a % len(shape) for a in shared] else n for k, n in enumerate(shape)]
    return random.generator_on("cuda").random(shape, dtype=np.float32) >= p


def selected(x, mask, p):
    """The rule in NumPy's words, with one rounding to the dtype, on the host."""
    wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
    scale = 1 if p == 1 else 1 / (1 - p)
    return (np.where(mask, x.astype(wide), 0) * np.asarray(scale, wide)).astype(x.dtype)


def numbers(shape, dtype, seed=0):
    x = np.random.default_rng(seed).standard_normal((2, *shape))
    return (x[0] + 1j * x[1] if dtype.kind == "c" else x[0]).astype(dtype)


@on_both
@pytest.mark.parametrize("name", DTYPES)
def test_the_kernel_selects_what_the_generator_s_own_numbers_select(kernels, name):
    dtype = dtype_of(name)
    for shape, shared in FORMS:
        for p in (0.1, 0.5, 1):
            mask = drawn(shape, shared, p).get()
            used = random.generator_on("cuda").used
            mg.manual_seed(3)
            value = numbers(shape, dtype)
            x = mg.tensor(value, device="cuda", requires_grad=True)
            y = op.drop(x, p=p, shared=shared)
            assert random.generator_on("cuda").used == used
            np.testing.assert_array_equal(y.detach().to("cpu").numpy(), selected(value, mask, p))
            g = numbers(shape, dtype, 1)
            y.backward(mg.tensor(g, device="cuda"))
            np.testing.assert_array_equal(x.grad.to("cpu").numpy(), selected(g, mask, p))


@on_both
@pytest.mark.parametrize("name", ["float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("shared", [(), (1, 2)])
def test_it_is_one_kernel_each_way(kernels, name, shared):
    if kernels is None:
        pytest.skip("launches are counted on the stand-in")
    x = mg.tensor(numbers((4, 6, 5), dtype_of(name)), device="cuda", requires_grad=True)
    g = mg.tensor(numbers((4, 6, 5), dtype_of(name)), device="cuda")
    y = op.drop(x, p=0.5, shared=shared)
    assert len(kernels) == 1 and "philox" in kernels[0]
    y.backward(g)
    assert len(kernels) == 2


@on_both
def test_arrays_in_other_orders_and_at_odd_addresses_drop_the_same(kernels):
    value = numbers((8, 6), np.dtype(np.float32))
    whole = mg.tensor(value, device="cuda")
    for make, same in (
        (lambda x: mg.transpose(x), lambda v: v.T), (lambda x: x[1:, 1:], lambda v: v[1:, 1:]),
        (lambda x: x.reshape(-1)[3:], lambda v: v.reshape(-1)[3:]),
    ):  # fmt: skip
        expected = same(value)
        mask = drawn(expected.shape, (), 0.4).get()
        mg.manual_seed(3)
        y = mg.dropout(make(whole), 0.4).to("cpu").numpy()
        np.testing.assert_array_equal(y, selected(expected, mask, 0.4))


@on_both
def test_a_cotangent_that_is_one_number_everywhere_is_read_as_that(kernels):
    x = mg.tensor(np.ones((5, 7), np.float32), device="cuda", requires_grad=True)
    y = mg.dropout(x, 0.5)
    y.backward(mg.broadcast_to(mg.ones(1, dtype=np.float32, device="cuda"), (5, 7)))
    np.testing.assert_array_equal(x.grad.to("cpu").numpy(), y.detach().to("cpu").numpy())


@on_both
def test_what_is_dropped_is_0_even_where_it_was_infinite(kernels):
    x = mg.tensor(np.full(1000, np.inf, np.float32), device="cuda", requires_grad=True)
    y = mg.dropout(x, 0.5)
    y.backward(mg.full((1000,), np.inf, device="cuda", dtype=np.float32))
    for found in (y.detach(), x.grad):
        assert set(np.unique(found.to("cpu").numpy())) == {0.0, np.inf}


@on_both
def test_a_state_that_was_kept_gives_the_same_mask_again_and_the_next_draw_another(kernels):
    x = mg.ones(1001, device="cuda")
    state = mg.backends.random.get_state()
    first, second = (mg.dropout(x).to("cpu").numpy() for _ in range(2))
    mg.backends.random.set_state(state)
    np.testing.assert_array_equal(mg.dropout(x).to("cpu").numpy(), first)
    assert (first != second).any()


@on_both
def test_a_generator_of_the_user_s_is_drawn_from_and_the_library_s_left_alone(kernels):
    import cupy

    x = mg.ones(50, device="cuda")
    before = random.generator_on("cuda").used
    own = DeviceGenerator(cupy, 11)
    y = mg.dropout(x, 0.5, generator=own).to("cpu").numpy()
    assert own.used == 13
    mask = DeviceGenerator(cupy, 11).random(50, dtype=np.float32) >= 0.5
    np.testing.assert_array_equal(y, 2.0 * mask.get())
    host = mg.dropout(x, 0.5, generator=np.random.default_rng(5)).to("cpu").numpy()
    np.testing.assert_array_equal(
        host, 2.0 * (np.random.default_rng(5).random(50, dtype=np.float32) >= 0.5)
    )
    assert random.generator_on("cuda").used == before


@on_both
def test_a_checkpointed_dropout_drops_the_same_when_it_runs_again(kernels):
    value = numbers((40,), np.dtype(np.float32))
    x = mg.tensor(value, device="cuda", requires_grad=True)
    y = mg.checkpoint(lambda x: mg.dropout(x, 0.5) * 1.0, x)
    y.backward(mg.ones(40, dtype=np.float32, device="cuda"))
    kept = y.detach().to("cpu").numpy() != 0
    np.testing.assert_array_equal(x.grad.to("cpu").numpy(), np.where(kept, 2, 0).astype(np.float32))


@on_both
def test_counters_beyond_32_bits_are_drawn_from(kernels):
    mg.manual_seed(0)
    random.generator_on("cuda").used = (1 << 32) - 2
    expected = random.generator_on("cuda").random(64, dtype=np.float32) >= 0.5
    random.generator_on("cuda").used = (1 << 32) - 2
    y = mg.dropout(mg.ones(64, device="cuda", dtype=np.float32), 0.5)
    np.testing.assert_array_equal(y.to("cpu").numpy(), 2.0 * expected.get())
