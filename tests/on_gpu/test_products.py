"""Products on a GPU by cuBLASLt: every layout, dtype and alignment gives NumPy's numbers."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import cublas
from minigrad.engine.registry import op

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)

ROUNDING = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
DTYPES = [np.dtype(name) for name in ("float64", "float32", "float16")] + [np.dtype(mg.bfloat16)]
LEADS = [((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((), (4,)), ((4,), ()), ((1, 2), (1, 2))]
SIZES = [(1, 1, 1), (5, 7, 3), (64, 784, 256), (1, 33, 65), (65, 33, 1), (128, 128, 128)]


def drawn(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def close(found, wanted, dtype):
    found = found.astype(np.float64)
    assert found.shape == wanted.shape
    norm = np.sqrt(np.mean(wanted * wanted)) + 1e-30
    assert np.abs(found - wanted).max() <= 8 * ROUNDING[dtype.name] * norm


def wide(x):
    return x.astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("leads", LEADS, ids=str)
@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
def test_a_product_of_views_in_any_layout_is_numpys(gpu, dtype, leads, flips):
    for n, k, m in SIZES:
        shapes = [(k, n) if flips[0] else (n, k), (m, k) if flips[1] else (k, m)]
        a, b = (drawn((*lead, *shape), dtype, i)
                for i, (lead, shape) in enumerate(zip(leads, shapes, strict=True)))  # fmt: skip
        on_device = [gpu.asarray(x) for x in (a, b)]
        a, b, *on_device = (
            x.swapaxes(-1, -2) if flip else x
            for x, flip in zip((a, b, *on_device), (*flips, *flips), strict=True)
        )
        y = cublas.product(*on_device)
        assert y is not None and y.dtype == dtype
        close(gpu.asnumpy(y), wide(a) @ wide(b), dtype)


@pytest.mark.parametrize("flips", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("rest", [0, 5])
def test_a_product_of_turned_factors_is_the_product(gpu, flips, rest):
    n, k, m = 48 + rest, 160, 24
    shapes = [(k, n) if flips[0] else (n, k), (m, k) if flips[1] else (k, m)]
    a, b = (drawn(shape, DTYPES[1], i) for i, shape in enumerate(shapes))
    on_device = [gpu.asarray(x).T if flip else gpu.asarray(x)
                 for x, flip in zip((a, b), flips, strict=True)]  # fmt: skip
    a, b = (x.T if flip else x for x, flip in zip((a, b), flips, strict=True))
    cublas.plans.clear()
    cublas.product(*on_device, 0.5)
    (plan,) = cublas.plans.values()
    assert cublas._turnable(*on_device)
    close(gpu.asnumpy(plan.on_turned(*on_device)), 0.5 * wide(a) @ wide(b), DTYPES[1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("offset", [1, 2, 4])
def test_a_factor_that_begins_at_any_element_is_read_right(gpu, dtype, offset):
    a, b = drawn((33, 64), dtype, 1), drawn((64, 65), dtype, 2)
    memory = gpu.zeros(a.size + offset, dtype)
    memory[offset:] = gpu.asarray(a).ravel()
    y = cublas.product(memory[offset:].reshape(a.shape), gpu.asarray(b))
    close(gpu.asnumpy(y), wide(a) @ wide(b), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_a_layer_adds_its_bias_in_passing(gpu, dtype, lead):
    for rows, n, m in ((1, 1, 1), (5, 7, 3), (64, 784, 256), (16, 33, 10)):
        x, w, b = drawn((*lead, rows, n), dtype, 1), drawn((m, n), dtype, 2), drawn(m, dtype, 3)
        wanted = wide(x) @ wide(w).T + wide(b)
        for offset in (0, 1):  # of the bias in its memory
            bias = gpu.zeros(m + offset, dtype)
            bias[offset:] = gpu.asarray(b)
            y = op.linear(*[mg.tensor(gpu.asarray(v)) for v in (x, w)], mg.tensor(bias[offset:]))
            close(gpu.asnumpy(y.data), wanted, dtype)


def test_two_layers_of_one_form_keep_their_own_biases(gpu):
    x, w = gpu.ones((4, 8), np.float32), gpu.ones((8, 8), np.float32)
    ys = [cublas.product(x, w.T, bias=gpu.full(8, value, np.float32)) for value in (1, 2, 3)]
    assert [float(y[0, 0]) for y in ys] == [9, 10, 11]


def test_a_bias_added_in_passing_gives_the_bits_of_one_added_behind_the_product(gpu):
    for rows, n, m in ((16, 20, 32), (64, 784, 256), (512, 128, 384)):
        x, w, b = (gpu.asarray(drawn(s, np.float32, i)) for i, s in
                   enumerate(((rows, n), (m, n), (m,))))  # fmt: skip
        both = cublas.product(x, w.T, bias=b)
        assert both is None or bool((both == cublas.product(x, w.T) + b).all())


def test_alpha_scales_the_product_and_not_the_bias(gpu):
    x, w = gpu.ones((4, 8), np.float32), gpu.ones((8, 8), np.float32)
    y = cublas.product(x, w, alpha=0.5, bias=gpu.full(8, 3, np.float32))
    assert bool((y == 7).all())


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (2, 3, 0)], ids=str)
def test_a_product_of_nothing_is_empty_or_zero(gpu, shape):
    n, k, m = shape
    y = op.linear(
        *[mg.tensor(gpu.ones(s, np.float32)) for s in ((n, k), (m, k), (m,))]
    )  # fmt: skip
    assert y.shape == (n, m) and bool((y.data == 1).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_algorithm_chosen_by_time_gives_the_same_numbers_at_every_call(gpu, dtype, monkeypatch):
    monkeypatch.setattr(cublas, "LEAST_TIMED", 0)
    a, b = drawn((256, 512), dtype, 1), drawn((512, 384), dtype, 2)
    x, w = gpu.asarray(a), gpu.asarray(b)
    plain = cublas.product(x, w)
    with cublas.tuned(True):
        ys = [cublas.product(x, w) for _ in range(3)]
    close(gpu.asnumpy(ys[0]), wide(a) @ wide(b), dtype)
    assert all(bool((y == ys[0]).all()) for y in ys)
    assert bool((cublas.product(x, w) == plain).all())


def test_threads_multiply_side_by_side_with_biases_of_their_own(gpu):
    from concurrent.futures import ThreadPoolExecutor

    x, w = gpu.ones((64, 64), np.float32), gpu.ones((64, 64), np.float32)

    def worst(value):
        bias = gpu.full(64, value, np.float32)
        ys = [cublas.product(x, w, bias=bias) for _ in range(200)]
        return max(float(abs(y - (64 + value)).max()) for y in ys)

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(worst, range(8))) == 0
