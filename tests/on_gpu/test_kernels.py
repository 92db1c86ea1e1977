"""What the ops run on a GPU agrees with float64 on the host, forward and backward, in each dtype.

Tolerances are relative to the norm of the result: a few roundings of the dtype, as sums are formed
in float32 at least; for convolution in float32 what Winograd's and FFT algorithms lose.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.on_gpu import convolution, install

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)

TOLERANCE = {"float64": 1e-10, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = [np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), mg.bfloat16]


def relative(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.linalg.norm(a - b) / (np.linalg.norm(b) + 1e-30)


def run(fn, values, cotangent, device):
    xs = [mg.tensor(v, device=device, requires_grad=True) for v in values]
    y = fn(*xs)
    y.backward(mg.tensor(cotangent.astype(y.dtype), device=device))
    return [x.detach().to("cpu").numpy() for x in (y, *[x.grad for x in xs])]


def compare(fn, shapes, dtype, factor=1):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    exact = [v.astype(np.float64) for v in values]
    shape = fn(*[mg.tensor(v) for v in exact]).shape
    g = rng.standard_normal(shape).astype(dtype)
    expected = run(fn, exact, g.astype(np.float64), "cpu")
    found = run(fn, values, g, "cuda")
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert relative(a, b) < factor * TOLERANCE[np.dtype(dtype).name]


@pytest.fixture
def own(gpu, monkeypatch):
    """Ops that are named may not fall back to NumPy's words: own("softmax")."""

    def only(*names):
        mg.ones(1, device="cuda")
        for name in names:
            kernel = install.forwards[name]

            def forward(*args, kernel=kernel, name=name, **params):
                y = kernel(*args, **params)
                assert y is not None, f"{name} has fallen back"
                return y

            variant = next(v for v in getattr(op, name).variants if v.on == "cuda")
            monkeypatch.setattr(variant, "fn", forward)

    return only


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", [1, 5, 33, 768, 8192, 40_000])
def test_softmax_in_rows_of_any_length(own, length, dtype):
    own("softmax", "softmax_dx", "log_softmax", "log_softmax_dx")
    compare(mg.softmax, [(37, length)], dtype)
    compare(mg.log_softmax, [(37, length)], dtype)


def test_a_row_all_minus_infinity_gives_zero(own):
    own("softmax")
    x = mg.tensor(np.array([[-np.inf] * 3, [0.0, 1.0, -np.inf]]), device="cuda")
    np.testing.assert_array_equal(mg.softmax(x).to("cpu").numpy()[0], 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", [5, 33, 768, 8192, 40_000])
def test_layer_and_rms_norm(own, length, dtype):
    own("standardize", "standardize_dx", "standardize_dw")
    compare(lambda x, w, b: mg.layer_norm(x, length, w, b), [(6, 7, length), length, length], dtype)
    compare(lambda x, w: mg.rms_norm(x, length, w, 1e-5), [(6, 7, length), length], dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(9, 6, 5, 7), (32, 6), (17, 64, 33), (4, 8, 3, 4, 5)], ids=str)
def test_norms_of_channels(own, shape, dtype):
    own("standardize", "standardize_dx", "standardize_dw")
    c = shape[1]
    compare(lambda x, w, b: mg.batch_norm(x, None, None, w, b, True), [shape, c, c], dtype, 2)
    if len(shape) > 2:
        compare(lambda x, w, b: mg.group_norm(x, 2, w, b), [shape, c, c], dtype, 2)
        compare(lambda x, w, b: mg.instance_norm(x, None, None, w, b), [shape, c, c], dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(64, 10), (33, 5000), (7, 1)], ids=str)
def test_cross_entropy_on_indices(own, shape, reduction, dtype):
    own("class_targets", "cross_entropy_index", "cross_entropy_dx")
    target = np.arange(shape[0]) % shape[1]
    target[3] = -100  # ignored

    def loss(x):
        return mg.cross_entropy(x, mg.tensor(target, device=x.device), reduction=reduction)

    compare(loss, [shape], dtype)


def test_cross_entropy_of_ignored_rows_has_no_mean_and_gradient_zero(own):
    own("class_targets", "cross_entropy_index", "cross_entropy_dx")
    x = mg.ones((64, 10), device="cuda", requires_grad=True)
    y = mg.cross_entropy(x, mg.tensor(np.full(64, -100), device="cuda"))
    y.backward()
    assert np.isnan(y.item()) and not x.grad.to("cpu").numpy().any()


PRODUCTS = [
    [(37, 20), (20, 11)], [(5, 37, 20), (20, 11)], [(4, 5, 37, 20), (4, 5, 20, 11)],
    [(5, 37, 20), (5, 20, 1)], [(20,), (20, 3)], [(3, 20), (20,)], [(20,), (20,)],
    [(4, 1, 37, 20), (1, 5, 20, 11)], [(1, 7), (7, 1)], [(3, 0), (0, 4)],
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_matrix_products(gpu, shapes, dtype):
    compare(mg.matmul, shapes, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_of_views(own, dtype):
    own("matmul")
    compare(lambda a, b: a.swapaxes(-1, -2) @ b, [(5, 20, 37), (5, 20, 11)], dtype)
    compare(lambda a, b: a[:, ::2] @ b[1:], [(9, 20), (11, 6)], dtype)
    heads = [(2, 7, 3, 4)] * 2
    compare(lambda a, b: a.swapaxes(1, 2) @ b.swapaxes(1, 2).swapaxes(2, 3), heads, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_linear(own, dtype):
    own("linear", "matmul", "sum")
    compare(mg.linear, [(6, 9, 20), (30, 20), (30,)], dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [0, (0, 1), (0, 2, 3), 3, (1, 2, 3)], ids=str)
def test_sums(own, axis, dtype):
    own("sum")
    compare(lambda x: x.sum(axis), [(50, 6, 7, 12)], dtype)
    compare(lambda x: x.sum(axis, keepdims=True), [(300, 6, 1, 5)], dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", ["plain", "causal", "mask", "padding"])
def test_attention(own, case, dtype):
    own("attention", "attention_grads")
    q, k, v, m = (2, 3, 70, 16), (2, 3, 90, 16), (2, 3, 90, 24), (2, 1, 1, 90)
    attend = mg.scaled_dot_product_attention
    if case == "plain":
        compare(lambda *x: attend(*x, block_size=64), [q, k, v], dtype)
    elif case == "causal":
        compare(lambda *x: attend(*x, is_causal=True, block_size=64), [q, q, q], dtype)
    elif case == "mask":
        compare(lambda *x: attend(*x, block_size=64), [q, k, v, m], dtype)
    else:
        keys = np.arange(90) < np.array([60, 0])[:, None, None, None]  # an example without keys

        def padded(*x):
            return attend(*x, mg.tensor(keys, device=x[0].device), block_size=64)

        compare(padded, [q, k, v], dtype)


def test_attention_in_several_pieces(own, monkeypatch):
    from minigrad.on_gpu import attention

    own("attention", "attention_grads")
    monkeypatch.setattr(attention, "SCORES", 3 * 70 * 70)
    shapes = [(2, 4, 70, 16)] * 3 + [(2, 4, 70, 70)]
    compare(lambda *x: mg.scaled_dot_product_attention(*x, block_size=64), shapes, np.float32)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)  # 16-bit samples have ties by rounding
def test_the_maximum_of_windows(own, dtype):
    own("max_pool", "max_pool_dx")
    compare(lambda x: mg.max_pool2d(x, 3, 2, 1), [(3, 4, 17, 18)], dtype)
    compare(lambda x: mg.max_pool1d(x, 4, 2, 1, 2), [(3, 4, 30)], dtype)
    compare(lambda x: mg.max_pool3d(x, 2), [(3, 4, 6, 8, 10)], dtype)


def test_ties_of_a_window_share_its_gradient(own):
    own("max_pool", "max_pool_dx")
    x = mg.tensor(np.ones((1, 1, 3, 3)), device="cuda", requires_grad=True)
    mg.max_pool2d(x, 2, 1).sum().backward()
    expected = mg.tensor(np.ones((1, 1, 3, 3)), requires_grad=True)
    mg.max_pool2d(expected, 2, 1).sum().backward()
    np.testing.assert_array_equal(x.grad.to("cpu").numpy(), expected.grad.numpy())


CONVOLUTIONS = [
    (mg.conv1d, [(3, 4, 20), (6, 2, 3), (6,)], {"groups": 2, "padding": 1, "stride": 2}),
    (mg.conv2d, [(3, 4, 12, 13), (6, 4, 3, 3), (6,)], {"padding": 1, "dilation": 2}),
    (mg.conv2d, [(3, 4, 12, 13), (8, 1, 3, 3), (8,)], {"groups": 4, "stride": 2}),
    (mg.conv2d, [(2, 3, 9, 9), (5, 3, 4, 2), (5,)], {"padding": ((1, 2), (0, 1))}),
    (mg.conv3d, [(2, 3, 6, 7, 8), (4, 3, 3, 2, 3), (4,)], {"padding": 1}),
    (mg.conv_transpose2d, [(2, 4, 6, 7), (4, 3, 3, 3), (3,)], {"stride": 2, "padding": 1}),
]


@pytest.mark.parametrize("by_cudnn", [True, False], ids=["cudnn", "products"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
def test_convolution_by_cudnn_and_by_products(gpu, monkeypatch, case, dtype, by_cudnn):
    from minigrad.on_gpu import cudnn_plans

    if by_cudnn and not cudnn_plans.installed():
        pytest.skip("nvidia-cudnn-frontend is not installed")
    monkeypatch.setattr(convolution, "by_cudnn", by_cudnn)
    fn, shapes, options = CONVOLUTIONS[case]
    compare(lambda *x: fn(*x, **options), shapes, dtype, 10)


def test_float32_is_not_rounded_to_tf32_unless_allowed(gpu):
    values = [np.random.default_rng(i).standard_normal((256, 256)).astype("f4") for i in (0, 1)]
    a, b = (mg.tensor(v, device="cuda") for v in values)
    expected = values[0].astype("f8") @ values[1]
    assert relative((a @ b).to("cpu").numpy(), expected) < 1e-6
    mg.cuda.allow_tf32(True)
    try:
        assert 1e-5 < relative((a @ b).to("cpu").numpy(), expected) < 1e-3
    finally:
        mg.cuda.allow_tf32(False)


def test_gelu_in_float32_is_within_a_few_units_also_where_it_is_tiny(gpu):
    x = np.linspace(-12, 12, 40_001, dtype=np.float32)
    exact = run(mg.gelu, [x.astype(np.float64)], np.ones(x.shape), "cpu")
    y, slope = run(mg.gelu, [x], np.ones(x.shape), "cuda")
    assert (abs(y - exact[0]) <= 16 * np.spacing(abs(exact[0]).astype(np.float32))).all()
    assert (abs(slope - exact[1]) <= 3e-7).all()


def test_gelu_on_a_gpu_of_nan_and_of_infinities(gpu):
    x = mg.tensor(np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32))
    expected, found = mg.gelu(x).numpy(), mg.gelu(x.to("cuda")).to("cpu").numpy()
    np.testing.assert_array_equal(found, expected)


def test_the_gradient_of_a_sum_stays_one_number_until_an_op_needs_all(gpu):
    x, w = (mg.tensor(np.random.rand(300, 40), device="cuda", requires_grad=True) for _ in "xw")
    ((x + 1) / 2 + x * w + w).sum().backward()
    np.testing.assert_allclose(x.grad.to("cpu").numpy(), w.detach().to("cpu").numpy() + 0.5)
    np.testing.assert_allclose(w.grad.to("cpu").numpy(), x.detach().to("cpu").numpy() + 1)
    x.grad = w.grad = None
    ((x + 1) / 2 + w).sum().backward()
    x.grad.data[0] = 7  # each has memory of its own
    assert (x.grad.to("cpu").numpy()[1:] == 0.5).all() and (w.grad.to("cpu").numpy() == 1).all()
