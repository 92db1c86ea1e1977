"""Attention on a GPU by cuDNN and by products: the same numbers, no array that is not needed."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.on_gpu import attention, cudnn_plans

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2}  # of the norm: a few roundings of the dtype
NARROW = [np.dtype(np.float16), mg.bfloat16]
MASKS = [False, True]


@pytest.fixture
def cudnn(gpu):
    if not cudnn_plans.installed():
        pytest.skip("nvidia-cudnn-frontend is not installed")
    return gpu


@pytest.fixture
def by_products(gpu, monkeypatch):
    monkeypatch.setattr(attention, "by_cudnn", False)
    return gpu


def drawn(shapes, dtype):
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape).astype(dtype) for shape in shapes]


def attended(values, cotangent, device="cuda", **how):
    """[y, dq, dk, dv], by the op that holds no scores on the host either."""
    xs = [mg.tensor(v, device=device, requires_grad=True) for v in values]
    y = mg.scaled_dot_product_attention(*xs, block_size=64, **how)
    y.backward(mg.tensor(cotangent.astype(y.dtype), device=device))
    return [x.detach().to("cpu").numpy() for x in (y, *[x.grad for x in xs])]


def counted(monkeypatch):
    """The names of the operations that cuDNN computes from here on."""
    calls, run = [], attention.cudnn_attention._run

    def spy(which, *args):
        found = run(which, *args)
        calls.append(which if found is not None else f"no {which}")
        return found

    monkeypatch.setattr(attention.cudnn_attention, "_run", spy)
    return calls


def relative(a, b):
    """Of a gradient that is 0, as of the scores of one key, the size itself."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.linalg.norm(a - b) / (np.linalg.norm(b) or 1)


SHAPES = {  # q, k, v
    "equal": [(2, 3, 128, 64)] * 3,
    "more keys": [(2, 3, 70, 16), (2, 3, 90, 16), (2, 3, 90, 24)],
    "more queries": [(2, 3, 90, 128), (2, 3, 70, 128), (2, 3, 70, 128)],
    "three axes": [(5, 33, 32)] * 3,
    "two axes": [(200, 40), (100, 40), (100, 40)],
    "five axes": [(2, 2, 3, 65, 8)] * 3,
    "one key": [(2, 3, 7, 64), (2, 3, 1, 64), (2, 3, 1, 64)],
}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("is_causal", MASKS, ids=["full", "causal"])
@pytest.mark.parametrize("name", SHAPES)
def test_cudnn_agrees_with_float64(cudnn, monkeypatch, name, is_causal, dtype):
    calls = counted(monkeypatch)
    *values, g = drawn([*SHAPES[name], (*SHAPES[name][0][:-1], SHAPES[name][2][-1])], dtype)
    found = attended(values, g, is_causal=is_causal)
    assert calls == ["sdpa", "sdpa_backward"]
    exact = [v.astype(np.float64) for v in values]
    expected = attended(exact, g.astype(np.float64), "cpu", is_causal=is_causal)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == dtype
        assert relative(a, b) < TOLERANCE[np.dtype(dtype).name]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_one_gradient_may_take_the_other_forward(cudnn, monkeypatch, dtype):
    """Both keep the same log-sum-exp, so either backward goes with either forward."""
    q, k, v, a = (mg.tensor(x, device="cuda").data for x in drawn([(2, 3, 100, 32)] * 4, dtype))
    how, y = {"is_causal": True, "scale": 0.2}, {}
    for by_cudnn in (True, False):
        monkeypatch.setattr(attention, "by_cudnn", by_cudnn)
        y[by_cudnn] = attention.attention(q, k, v, **how)
    (o, lse), (o_products, lse_products) = y[True], y[False]
    assert lse.shape == lse_products.shape and lse.dtype == lse_products.dtype == np.float32
    np.testing.assert_allclose(lse.get(), lse_products.get(), rtol=1e-5, atol=1e-5)
    grads = attention.attention_grads(a, q, k, v, None, o, lse, **how)
    monkeypatch.setattr(attention, "by_cudnn", True)
    others = attention.attention_grads(a, q, k, v, None, o_products, lse_products, **how)
    for x, other in zip(grads[:3], others[:3], strict=True):
        assert relative(x.get(), other.get()) < TOLERANCE[np.dtype(dtype).name]


def test_views_of_one_array_are_read_as_they_lie(cudnn):
    x, a = (
        mg.tensor(v, device="cuda").data for v in drawn([(2, 50, 12, 32), (2, 50, 4, 32)], "f2")
    )
    views = [x[:, :, 4 * i : 4 * i + 4].swapaxes(1, 2) for i in range(3)] + [a.swapaxes(1, 2)]
    for v in views:
        assert attention.cudnn_attention._readable(v).data.ptr == v.data.ptr

    def results(q, k, v, a):
        o, lse = attention.attention(q, k, v, is_causal=True)
        with mg.deterministic():
            grads = attention.attention_grads(a, q, k, v, None, o, lse, is_causal=True)
        return [y.get() for y in (o, lse, *grads[:3])]

    for y, other in zip(results(*views), results(*[v.copy() for v in views]), strict=True):
        np.testing.assert_array_equal(y, other)


OTHERS = {  # heads too wide or not of 16 bytes, wider floats, masks
    "wide": (np.float16, 160, None), "odd": (np.float16, 12, None),
    "single": (np.float32, 64, None), "double": (np.float64, 64, None),
    "boolean": (np.float16, 64, bool), "added": (np.float16, 64, np.float16),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_cudnn_is_not_asked_for_goes_by_products(gpu, monkeypatch, name):
    dtype, features, kind = OTHERS[name]
    calls = counted(monkeypatch)
    *values, g = drawn([(2, 3, 70, features)] * 4, dtype)
    how = {"is_causal": True}
    if kind is not None:
        mask = np.tri(70, dtype=bool) if kind is bool else np.where(np.tri(70), 0, -9).astype(kind)
        how = {"attn_mask": mg.tensor(mask, device="cuda")}
    found = attended(values, g, **how)
    how = {x: y.to("cpu") if isinstance(y, mg.Tensor) else y for x, y in how.items()}
    exact = [v.astype(np.float64) for v in values]
    expected = attended(exact, g.astype(np.float64), "cpu", **how)
    assert not calls
    for a, b in zip(found, expected, strict=True):
        assert relative(a, b) < 2e-3


@pytest.mark.parametrize("dtype", [np.dtype(np.float64), np.dtype(np.float32), *NARROW], ids=str)
@pytest.mark.parametrize("lengths", [(70, 70), (70, 90), (90, 70), (1, 5), (5, 1)], ids=str)
def test_a_causal_mask_by_places_has_the_bits_of_a_matrix(by_products, dtype, lengths):
    queries, keys = lengths
    *values, g = drawn([(2, 3, n, 16) for n in (queries, keys, keys, queries)], dtype)
    matrix = mg.tensor(np.tri(queries, keys, dtype=bool), device="cuda")
    found, expected = attended(values, g, is_causal=True), attended(values, g, attn_mask=matrix)
    for a, b in zip(found, expected, strict=True):
        assert a.tobytes() == b.tobytes()


def sizes_of(cupy, run):
    """The bytes of all arrays that are made meanwhile."""

    class Sizes(cupy.cuda.MemoryHook):
        name, found = "sizes", []

        def malloc_preprocess(self, device_id, size, mem_size):
            self.found.append(size)

    hook = Sizes()
    with hook:
        run()
    return hook.found


@pytest.mark.parametrize("dtype", [np.dtype(np.float64), np.dtype(np.float32)], ids=str)
def test_a_causal_mask_is_never_an_array(gpu, dtype):
    *values, g = drawn([(3, 1024, 8)] * 4, dtype)
    sizes = sizes_of(gpu, lambda: attended(values, g, is_causal=True))
    assert 3 * 1024 * 1024 * dtype.itemsize in sizes, "the scores are"
    assert 1024 * 1024 not in sizes and 8 * 1024 in sizes  # one integer a query


@pytest.mark.parametrize("is_causal", MASKS, ids=["full", "causal"])
def test_cudnn_holds_no_scores(cudnn, is_causal):
    """20,000² of them: 1.6 GB in float32, which is more than the products take."""
    *values, g = drawn([(1, 20_000, 64)] * 4, mg.bfloat16)
    sizes = sizes_of(cudnn, lambda: attended(values, g, is_causal=is_causal))
    assert max(sizes) < 64 << 20


def test_gradients_by_cudnn_repeat_where_that_is_asked_for(cudnn):
    *values, g = drawn([(2, 4, 1024, 64)] * 4, mg.bfloat16)
    with mg.deterministic():
        first, second = (attended(values, g, is_causal=True) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_compiled_step_with_attention_by_cudnn_gives_the_numbers_of_the_plain_one(cudnn):
    def trained(decorate):
        w = mg.tensor(np.full(64, 0.5), dtype=mg.bfloat16, device="cuda", requires_grad=True)

        def step(x):
            w.grad = None
            y = mg.scaled_dot_product_attention(x * w, x, x, is_causal=True, block_size=64)
            loss = (y.astype(mg.float32) ** 2).mean()
            loss.backward()
            return loss

        fn, found = decorate(step), []
        for x in drawn([(2, 3, 80, 64)] * 5, mg.bfloat16):
            found += [fn(mg.tensor(x, device="cuda")).item(), w.grad.to("cpu").numpy()]
        return found

    for a, b in zip(trained(mg.compile), trained(lambda fn: fn), strict=True):
        assert relative(np.asarray(a), np.asarray(b)) < 1e-2
