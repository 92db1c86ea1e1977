"""bfloat16 beside other dtypes: what joins and multiplies arrays gives the dtype of their sum."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.dtypes import bfloat16, common_dtype
from minigrad.nn import functional

pytestmark = pytest.mark.skipif(bfloat16 is None, reason="bfloat16 needs ml_dtypes")
WHERE = np.eye(3, dtype=bool)
OPS = {
    "matmul": lambda a, b: a @ b,
    "matmul of stacks": lambda a, b: mg.stack([a, a]) @ b,
    "matmul of vectors": lambda a, b: a @ b[0],
    "dot": mg.dot,
    "linear": mg.linear,
    "linear with a bias": lambda a, b: mg.linear(a, a, b[0]),
    "addmm": lambda a, b: mg.addmm(a, a, b),
    "einsum": lambda a, b: mg.einsum("ij,jk->ik", a, b),
    "einsum of three": lambda a, b: mg.einsum("ij,jk,kl->il", a, b, a),
    "where": lambda a, b: mg.where(WHERE, a, b),
    "concatenate": lambda a, b: mg.concatenate([a, b]),
    "stack": lambda a, b: mg.stack([a, b]),
    "block_diag": mg.block_diag,
    "kron": mg.kron,
    "xlogy": lambda a, b: mg.special.xlogy(a * 0, b * 0),
    "polyval": lambda a, b: mg.polyval(a[0], b),
    "binary cross entropy": lambda a, b: (
        functional.binary_cross_entropy_with_logits(a * 0, b * 0, reduction="sum") * 0
    ),
    "conv1d": lambda a, b: mg.conv1d(a[None], b[:, :, None]),
}


def values(dtype, seed):
    x = np.random.default_rng(seed).integers(-3, 4, (3, 3))  # whole: exact in every dtype
    if np.dtype(dtype).kind == "u":
        x = abs(x)
    return mg.tensor(x.astype(dtype), requires_grad=np.dtype(dtype).kind not in "biu")


@pytest.mark.parametrize("other", ["float16", "int8", "int16", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", OPS)
def test_bfloat16_beside_another_dtype_gives_the_dtype_of_their_sum(name, other):
    for dtypes in ((bfloat16, other), (other, bfloat16)):
        a, b = (values(dtype, seed) for seed, dtype in enumerate(dtypes))
        y = OPS[name](a, b)
        assert y.dtype == (a + b).dtype == common_dtype(*dtypes)
        exact = OPS[name](a.detach().astype("float64"), b.detach().astype("float64"))
        np.testing.assert_array_equal(y.detach().numpy().astype("float64"), exact.numpy())
        y.sum().backward()
        for x in (a, b):
            assert x.grad is None or x.grad.dtype == x.dtype
        assert a.grad is not None or b.grad is not None


def test_numbers_stay_weak_beside_bfloat16():
    x = mg.ones(3, dtype=bfloat16)
    assert mg.where(x > 0, x, 0.0).dtype == (2.0 * x).dtype == bfloat16


def test_an_einsum_of_three_operands_of_two_widths_gives_the_wider():
    a, b = mg.ones(3, dtype="float16") * 300, mg.ones(3, dtype="float32")
    y = mg.einsum("i,i,i->i", a, a, b)
    assert y.dtype == np.float32 and y.numpy().tolist() == [90000.0] * 3  # beyond float16


def test_attention_of_two_16_bit_dtypes_is_float32():
    q, k = mg.ones(2, 3, 4, dtype=bfloat16), mg.ones(2, 3, 4, dtype="float16")
    assert functional.scaled_dot_product_attention(q, k, k).dtype == np.float32
