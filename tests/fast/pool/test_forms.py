"""The forms of pooling give what the references give: values and gradients, with ties and NaNs."""

from contextlib import contextmanager

import numpy as np
import pytest

import minigrad as mg
from minigrad.custom.variants import listed
from minigrad.engine.registry import op
from minigrad.fast.pool import shares

OPS = (op.max_pool, op.max_pool_dx, op.max_pool_pick, op.sum_pool, op.sum_pool_dx)


def rand(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@contextmanager
def the_references():
    """Pooling by its references alone."""
    before = [op_.forward for op_ in OPS]
    try:
        for op_ in OPS:
            op_._set_forward(op_.reference)
        yield
    finally:
        for op_, forward in zip(OPS, before, strict=True):
            op_._set_forward(forward)


def computed(op_):
    """How often each form of an op has computed a result."""
    return {variant.name: variant.calls for variant in listed(op_) if variant.on == "cpu"}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("size", "kernel"),
    [((11,), (5,)), ((9, 8), (2, 4)), ((6, 5, 7), (3, 2, 2)), ((40, 17), (17,) * 2)],
)
def test_all_positions_of_a_tile_at_once_share_as_one_after_the_other(
    size, kernel, dtype, monkeypatch
):
    x = np.round(rand(2, 3, *size)).astype(dtype)  # many ties
    x[1, 0].flat[::5] = np.nan
    x[0, 1].flat[::7] = -np.inf
    pooling = getattr(mg, f"max_pool{len(size)}d")
    gradients = []
    for few in (0, 10_000):
        monkeypatch.setattr(shares, "FEW", few)
        xm = mg.tensor(x, requires_grad=True)
        y = pooling(xm, kernel)
        g = rand(*y.shape).astype(dtype)
        g[0, 0].flat[0] = np.inf
        gradients.append(mg.grad(y, xm, g).numpy())
    np.testing.assert_array_equal(*gradients)
    assert np.count_nonzero(gradients[0]) > y.size / 2


LARGE_TILES = [
    ((2, 3, 9, 8), (9, 8)),
    ((2, 3, 4, 256), (2, 128)),
    ((2, 40), (40,)),
    ((260,), (130,)),
]


@pytest.mark.parametrize("shape, kernel", LARGE_TILES)
@pytest.mark.parametrize("name", ["max", "avg"])
def test_large_tiles_are_reduced_over_axes_to_the_same_values_and_gradients(name, shape, kernel):
    pool = getattr(mg, f"{name}_pool{len(kernel)}d")
    values = np.random.default_rng(0).integers(0, 50, shape).astype(float)  # with ties
    values.reshape(-1)[[3, -5]] = np.nan, -np.inf
    g = rand(*pool(values, kernel).shape)

    def derivatives():
        x, cotangent = mg.tensor(values, requires_grad=True), mg.tensor(g, requires_grad=True)
        y = pool(x, kernel)
        (gx,) = mg.grad(y, [x], cotangent, create_graph=True)
        (gg,) = mg.grad(gx, [cotangent], mg.tensor(rand(*shape, seed=1)))
        return y.numpy(), gx.numpy(), gg.numpy()

    used = OPS[:3] if name == "max" else OPS[3:]
    before = [computed(op_)["axes"] for op_ in used]
    ours = derivatives()
    assert all(computed(op_)["axes"] > n for op_, n in zip(used, before, strict=True))
    with the_references():
        expected = derivatives()
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
