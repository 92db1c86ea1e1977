"""Softmax and cross entropy in blocks: what the formulas of the table say, for each kind of row."""

import numpy as np
import pytest

from minigrad.backends import blocks
from minigrad.custom.variants import listed
from minigrad.engine.registry import op

pytestmark = pytest.mark.promise(
    "softmax with and without the maxima of rows; blocks of them and of cross entropy are the"
    " formulas"
)

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True, params=["one block", "blocks"])
def cut(request, monkeypatch):
    if request.param == "blocks":  # of 64 elements
        monkeypatch.setattr(blocks, "BLOCK", 64)


def rows(kind, shape, dtype):
    """Rows along the last axis."""
    x = rng.standard_normal(shape) * {"far apart": 40, "beyond": 400}.get(kind, 1)
    if kind == "sure":
        x[..., 2] = 60
    if kind == "below":
        x -= 200
    if kind == "infinite":
        x[0, ..., 1], x[1], x[2, ..., :2], x[3, ..., 3] = np.inf, -np.inf, np.inf, np.nan
    return x.astype(dtype)


def require_agreement(op_, *args, **params):
    assert listed(op_)[-1].name == "blocks"
    found, exact = listed(op_)[-1].fn(*args, **params), op_.reference(*args, **params)
    found, exact = (y if isinstance(y, tuple) else (y,) for y in (found, exact))
    for a, b in zip(found, exact, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        eps = 1e-13 if a.dtype == np.float64 else 1e-3 if a.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=eps, atol=eps)
    return exact[0], exact[-1]


KINDS = ["plain", "far apart", "beyond", "sure", "below", "infinite"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 5), 1), ((6, 5), 0), ((9, 40), 1), ((5, 30, 7), (1, 2))]
)
def test_softmax_and_its_logarithm_and_both_gradients(shape, axis, kind, dtype):
    x = rows(kind, shape, dtype)
    p, _ = require_agreement(op.softmax, x, axis=axis)
    log_p, masked = require_agreement(op.log_softmax, x, axis=axis)
    a = rng.standard_normal(shape).astype(dtype)
    require_agreement(op.softmax_dx, a, p, axis=axis)
    require_agreement(op.log_softmax_dx, a, log_p, masked, axis=axis)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(6, 5), (20, 40), (5, 7, 30)], ids=str)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_cross_entropy_and_its_gradient(shape, kind, dtype):
    x = rows(kind, (shape[0], *shape[2:], shape[1]), dtype)
    x = np.moveaxis(x, -1, 1)
    target = np.where(rng.random((len(x), *shape[2:])) < 0.5, 2, 4)
    target[4] = -100
    how = {"shape": shape, "dtype": x.dtype, "reduction": "mean"}
    index, _, scale = op.class_targets.forward(target, **how)
    for total in (False, True):
        _, lse = require_agreement(op.cross_entropy_index, x, index, scale, total=total)
    require_agreement(op.cross_entropy_dx, scale, x, lse, index)
