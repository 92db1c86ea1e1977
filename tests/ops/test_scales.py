"""Functions that scale with their argument do so up to the ends of each dtype, and warn of nothing.

The right values are those of the same numbers near 1, in float64, times a power of the scale.
"""

import warnings

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.backends.dtypes import finfo
from minigrad.nn.utils import parametrizations
from minigrad.ops.scaling import power_of_two

pytestmark = pytest.mark.promise(
    "normalisations, norms, clipping and the like of huge and tiny numbers are those of "
    "numbers near 1, in every form and dtype (K31)"
)

rng = np.random.default_rng(0)
ROWS = rng.standard_normal((4, 6))
IMAGES = rng.standard_normal((4, 3, 4, 4))
LARGE_ROWS = rng.standard_normal((64, 200))
LARGE_IMAGES = rng.standard_normal((8, 16, 32, 33))
OTHER = rng.standard_normal((4, 6))


def like(x, values=OTHER):
    return mg.tensor(values.astype(x.dtype))


def affine(x):
    return like(x, rng.standard_normal(x.shape[-1]) * 0 + np.arange(1, x.shape[-1] + 1))


# name: (function, its argument, its degree)
NORMS = {
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:], eps=0.0), ROWS, 0),
    "layer_norm, weighted": (lambda x: F.layer_norm(x, 6, affine(x), affine(x), 0.0), ROWS, 0),
    "layer_norm, large": (lambda x: F.layer_norm(x, 200, affine(x), eps=0.0), LARGE_ROWS, 0),
    "rms_norm": (lambda x: F.rms_norm(x, 6, eps=0.0), ROWS, 0),
    "batch_norm": (lambda x: mg.batch_norm(x, training=True, eps=0.0), ROWS, 0),
    "batch_norm, images": (lambda x: mg.batch_norm(x, training=True, eps=0.0), IMAGES, 0),
    "batch_norm, large": (lambda x: mg.batch_norm(x, training=True, eps=0.0), LARGE_IMAGES, 0),
    "instance_norm": (lambda x: mg.instance_norm(x, eps=0.0), IMAGES, 0),
    "instance_norm, large": (lambda x: mg.instance_norm(x, eps=0.0), LARGE_IMAGES, 0),
    "group_norm": (lambda x: mg.group_norm(x, 3, eps=0.0), IMAGES, 0),
    "group_norm, large": (lambda x: mg.group_norm(x, 4, eps=0.0), LARGE_IMAGES, 0),
    "local_response_norm": (
        lambda x: F.local_response_norm(x, 3, k=0.0, beta=0.5), np.abs(IMAGES) + 0.1, 0,
    ),
    "normalize": (lambda x: F.normalize(x, dim=1, eps=0.0), ROWS, 0),
    "normalize, p = 3": (lambda x: F.normalize(x, 3.0, dim=1, eps=0.0), ROWS, 0),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, like(x), eps=0.0), ROWS, 0),
    "weight_norm": (
        lambda x: parametrizations._WeightNorm(0)(mg.ones_like(x.detach()[:, :1]), x), ROWS, 0,
    ),
    "corrcoef": (mg.corrcoef, ROWS, 0),
    "average": (lambda x: mg.average(like(x), axis=1, weights=mg.abs(x)), ROWS, 0),
    "norm": (lambda x: mg.norm(x, axis=1), ROWS, 1),
    "norm, large": (lambda x: mg.norm(x, axis=1), LARGE_ROWS, 1),
    "norm of all, large": (mg.norm, LARGE_ROWS, 1),
    "std": (lambda x: mg.std(x, axis=1), ROWS, 1),
    "nanstd": (lambda x: mg.nanstd(x, axis=1), ROWS, 1),
    "std of chosen": (lambda x: np.std(x, axis=1, where=OTHER < 1), ROWS, 1),
    "lp_pool": (lambda x: mg.lp_pool1d(x, 3, 2), np.abs(ROWS) + 0.1, 1),
    "cdist": (lambda x: mg.cdist(x, x[::-1] * 2), ROWS, 1),
    "pairwise_distance": (lambda x: F.pairwise_distance(x, x[::-1], eps=0.0), ROWS, 1),
    "renorm": (lambda x: mg.renorm(x, 2, 0, 0.0), ROWS, 1),
    "pinv": (lambda x: mg.linalg.pinv(x), ROWS, -1),
    "lstsq": (lambda x: mg.linalg.lstsq(x[:, :3], x[:, 4])[0], ROWS, 0),
}  # fmt: skip
SCALES = {"float32": (1e-30, 1e-20, 1e20, 1e30), "float64": (1e-250, 1e-200, 1e200, 1e250)}
CASES = [(dtype, scale) for dtype, scales in SCALES.items() for scale in scales]


def value_and_gradient(f, x):
    leaf = mg.tensor(x, requires_grad=True)
    y = f(leaf)
    g = np.resize([0.7, -1.1, 0.3, 1.3, -0.6], y.shape).astype(y.dtype)
    return y.numpy().astype(float), mg.grad(y, leaf, g).numpy().astype(float)


@pytest.mark.parametrize("dtype, scale", CASES)
@pytest.mark.parametrize("name", NORMS)
def test_value_and_gradient_follow_the_scale(name, dtype, scale):
    f, x, degree = NORMS[name]
    value, gradient = value_and_gradient(f, x)
    with np.errstate(over="ignore"):
        expected = value * scale**degree, gradient * np.float64(scale) ** (degree - 1)
    fits = all(np.abs(right).max() < np.finfo(dtype).max for right in expected)
    with warnings.catch_warnings(action="error" if fits else "ignore"):
        y, g = value_and_gradient(f, (x * scale).astype(dtype))
    near = {"float32": 1e-4, "float64": 1e-9}[dtype]
    for found, right in zip((y, g), expected, strict=True):
        most = np.abs(right).max()
        if most < np.finfo(dtype).max / 8 and most > np.finfo(dtype).tiny * 64:
            np.testing.assert_allclose(found, right, rtol=0, atol=near * most)


@pytest.mark.parametrize("power", [-90, -66, 66, 90])
@pytest.mark.parametrize("name", [name for name in NORMS if name not in ("pinv", "lstsq")])
def test_in_bfloat16_too_they_follow_the_scale(name, power):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    f, x, degree = NORMS[name]
    x = x.astype(bfloat16)
    value, gradient = value_and_gradient(f, x)
    y, g = value_and_gradient(f, (x.astype(float) * 2.0**power).astype(bfloat16))
    for found, right, d in (y, value, degree), (g, gradient, degree - 1):
        if abs(power * d) < 100:
            np.testing.assert_allclose(found * 2.0 ** (-power * d), right, 0.02, 1e-3)


@pytest.mark.parametrize("centre", [True, False])
def test_a_row_that_overflows_changes_no_bit_of_the_others(centre):
    x = rng.standard_normal((5, 7)).astype(np.float32)
    norm = F.layer_norm if centre else F.rms_norm

    def derivatives(x):
        leaf = mg.tensor(x, requires_grad=True)
        y = norm(leaf, 7, affine(leaf))
        return y.numpy(), mg.grad(y, leaf, x * 0 + np.arange(7, dtype=np.float32)).numpy()

    changed = x.copy()
    changed[2] *= np.float32(1e30)
    for before, after in zip(derivatives(x), derivatives(changed), strict=True):
        np.testing.assert_array_equal(np.delete(before, 2, 0), np.delete(after, 2, 0))
        assert np.isfinite(after).all() and after[2].any()


@pytest.mark.parametrize("dtype", [np.float16, mg.bfloat16, np.float32, np.float64], ids=str)
def test_a_power_of_two_near_the_largest_numbers_is_a_number_and_divides_exactly(dtype):
    info = finfo(dtype)
    for x in (info.max, np.ldexp(0.5, int(info.maxexp))):
        unit = power_of_two(np.array([x], dtype)).astype(float)
        assert np.isfinite(unit) and np.frexp(unit)[0] == 0.5 and float(x) / unit <= 4


@pytest.mark.parametrize("value", [1.0, 2.0**76])
def test_a_constant_row_is_its_bias_however_large(value):
    x, w, b = mg.tensor(np.full((2, 6), value, np.float32), requires_grad=True), *OTHER[:2, :6]
    y = F.layer_norm(x, 6, *(like(x, a) for a in (w, b)))
    np.testing.assert_array_equal(y.numpy(), np.stack([b, b]).astype(np.float32))
    g = mg.grad(y, x, np.ones((2, 6), np.float32)).numpy()
    np.testing.assert_allclose(g, np.tile((w - w.mean()) / np.sqrt(1e-5), (2, 1)), rtol=1e-4)


def test_layer_norm_of_the_largest_numbers_and_its_second_derivative():
    row = np.array([[3e20, 4e20, -2e20], [3e38, -3e38, -3e38]])
    y = F.layer_norm(mg.tensor(row.astype(np.float32)), 3)
    np.testing.assert_allclose(y, F.layer_norm(mg.tensor(row), 3), rtol=1e-6)

    def second(x):
        leaf = mg.tensor(x, requires_grad=True)
        y = F.layer_norm(leaf, 3, eps=0.0)
        g = mg.grad((y * y * y).sum(), leaf, create_graph=True)
        return mg.grad((g * like(leaf, np.array([1.0, 2, -1]))).sum(), leaf).numpy()

    near_1 = second(np.array([[3.0, 4.0, -2.0]]))
    np.testing.assert_allclose(second(np.array([[3e17, 4e17, -2e17]], np.float32)) * 1e34, near_1,
                               rtol=1e-4)  # fmt: skip


def test_running_statistics_are_those_of_what_overflowed_where_they_are_numbers():
    x = (rng.standard_normal((6, 2)) * [[1e20, 1.0]]).astype(np.float32)
    mean, var = np.zeros(2, np.float32), np.ones(2, np.float32)
    mg.batch_norm(mg.tensor(x), mean, var, training=True, momentum=1.0)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-4)
    assert var[0] == np.inf
    np.testing.assert_allclose(var[1], x[:, 1].var(ddof=1), rtol=1e-5)


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, np.inf])
@pytest.mark.parametrize(
    "dtype, scale", [("float16", 6e4), ("float32", 1e20), ("float32", 3e38), ("float64", 1e200)]
)
def test_gradients_are_clipped_to_their_norm_however_large(dtype, scale, p):
    parameters = [mg.tensor(np.zeros(4, dtype), requires_grad=True) for _ in range(25)]
    for parameter in parameters:
        parameter.grad = mg.tensor(np.full(4, scale, dtype))
    unit = 1.0 if p == np.inf else 100.0 ** (1 / p)
    total = mg.nn.utils.clip_grad_norm_(parameters, 1.0, p)
    given = float(np.asarray(scale, dtype))
    assert total.item() / given == pytest.approx(unit, rel=1e-5)
    near = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(parameters[0].grad.numpy().astype(float), 1 / unit, rtol=near)


def test_the_norm_of_tiny_gradients_is_theirs():
    tensors = [mg.tensor(np.full(100, 1e-30, np.float32)) for _ in range(4)]
    assert mg.nn.utils.get_total_norm(tensors) == pytest.approx(2e-29, rel=1e-5)
    assert mg.nn.utils.get_total_norm([mg.tensor(np.full(4, 1e-200))]) == pytest.approx(2e-200)


@pytest.mark.parametrize("dtype, scale", [("float32", 1e20), ("float32", 1e38), ("float64", 1e300)])
def test_rows_of_a_table_are_cut_to_their_norm_however_long(dtype, scale):
    rows = np.array([[1.0, 2, -1, 0.5], [0.1, 0.1, 0.1, 0.1]]) * [[scale], [1.0]]
    table = mg.nn.Embedding(2, 4, max_norm=1.0, _weight=mg.tensor(rows.astype(dtype)))
    table(mg.tensor([0, 1]))
    np.testing.assert_allclose(table.weight.data, [[0.4, 0.8, -0.4, 0.2], [0.1] * 4], rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e20, 1e30])
def test_muon_steps_along_huge_and_tiny_gradients_as_along_those_near_1(scale):
    steps = []
    for size in (1.0, scale):
        x = mg.tensor(np.zeros((4, 6), np.float32), requires_grad=True)
        x.grad = mg.tensor((ROWS * size).astype(np.float32))
        mg.optim.Muon([x], lr=1.0, eps=0.0).step()
        steps.append(x.numpy())
    np.testing.assert_allclose(*steps, atol=1e-4)
