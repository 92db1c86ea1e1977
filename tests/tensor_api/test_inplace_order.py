"""A recorded write leaves x's memory order as a write that is not recorded does."""

import numpy as np
import pytest

import minigrad as mg

WRITES = {
    "x[i] = v": lambda x, v: x.__setitem__(1, v[1]),
    "x[mask] = v": lambda x, v: x.__setitem__(x.data > 0, v[0, 0, 0]),
    "x[...] = v": lambda x, v: x.__setitem__(..., v),
    "x += v": lambda x, v: x.__iadd__(v),
    "x *= v": lambda x, v: x.__imul__(v),
    "x.copy_(v)": lambda x, v: x.copy_(v),
}
ORDERS = {
    "C": lambda a: a.copy(),
    "Fortran": np.asfortranarray,
    "axes exchanged": lambda a: np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1),
    "reversed": lambda a: a[::-1].copy()[::-1],
    "with gaps": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
}


def written(order, write, recorded):
    """x after the write, by a value that requires a gradient where it is to be recorded."""
    v = mg.tensor(np.random.default_rng(1).normal(size=(4, 5, 6)), requires_grad=recorded)
    x = mg.Tensor(ORDERS[order](np.random.default_rng(0).normal(size=(4, 5, 6))))
    WRITES[write](x, v)
    assert x.requires_grad == recorded
    return x


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("write", WRITES)
def test_a_sum_after_a_recorded_write_has_the_bits_of_one_after_a_plain_write(order, write):
    plain, recorded = written(order, write, False), written(order, write, True)
    for axis in (None, 0, 1, 2, (0, 2)):
        sums = [x.data.sum(axis=axis) for x in (plain, recorded)]
        assert np.array_equal(*sums)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("order", ["C", "Fortran", "axes exchanged", "reversed"])
def test_a_recorded_write_keeps_the_strides_of_a_dense_array(order, write):
    plain, recorded = written(order, write, False), written(order, write, True)
    assert plain.data.strides == recorded.data.strides
