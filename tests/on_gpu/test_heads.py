"""Heads on a GPU: one kernel that copies gives the op's own numbers, bit for bit."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)

DTYPES = [np.dtype(c) for c in "edfF"] + [np.dtype(mg.bfloat16), np.dtype(np.int8)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize("shape", [(3, 2, 4, 8), (1, 1, 1, 1), (5, 3, 2, 7), (2, 4, 1, 64)])
def test_split_and_joined_heads_are_the_ops_own(gpu, dtype, time, shape):
    first, second, heads, d = shape
    x = (np.arange(first * second * 3 * heads * d) % 101).astype(dtype)
    x = x.reshape(first, second, 3 * heads * d)
    wanted = op.split_heads.reference(x, heads=heads, time=time)
    for array in (gpu.asarray(x), gpu.asarray(x.swapaxes(0, 1).copy()).swapaxes(0, 1)):
        found = op.split_heads(array, heads=heads, time=time)
        for y, own in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(gpu.asnumpy(y), own)
        np.testing.assert_array_equal(gpu.asnumpy(op.join_heads(*found, time=time)), x)


def test_heads_of_an_empty_batch_are_empty(gpu):
    q, k, v = op.split_heads(gpu.zeros((3, 0, 12), np.float32), heads=2)
    assert q.shape == k.shape == v.shape == (0, 2, 3, 2)
    assert op.join_heads(q, k, v).shape == (3, 0, 12)
