"""x[i] and x[i] = v under vmap, where i differs from example to example."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import TransformError
from minigrad.func import grad, hessian, jvp, vmap

pytestmark = pytest.mark.promise(
    "vmap: x[i], x[i] = v and x[mask] = v with an index of its own for each example"
)

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4, 5, 2))
ONE, OTHER = np.array([1, -1, 3]), np.array([0, 4, -5])
ROWS, COLUMNS = rng.integers(-4, 4, (3, 2, 3)), rng.integers(-5, 5, (3, 3))

READS = {
    "one": (lambda x, i: x[i], ONE),
    "one and all behind it": (lambda x, i: x[i, :, ...], ONE),
    "rows": (lambda x, i: x[i], ROWS),
    "one of each axis": (lambda x, i, j: x[i, j], ONE, OTHER),
    "arrays that broadcast": (lambda x, i, j: x[i, j], ROWS, COLUMNS),
    "beside a number": (lambda x, j: x[-1, j], COLUMNS),
    "beside an array of all": (lambda x, i: x[i, np.array([0, 2, 1])], ROWS),
    "beside a list": (lambda x, i: x[i, [0, 2, 1]], ROWS),
    "behind a slice": (lambda x, j: x[1:3, j], COLUMNS),
    "the last axis": (lambda x, i: x[..., i % 2], ROWS),
    "between slices": (lambda x, j: x[::-1, j, 1:], COLUMNS),
    "two behind a slice": (lambda x, i, j: x[:, j % 5, i % 2], ROWS, COLUMNS),
    "two apart": (lambda x, i, j: x[i, ::2, j % 2], ROWS, COLUMNS),
    "a new axis": (lambda x, i: x[None, i, None], ROWS),
    "a number apart": (lambda x, j: x[0, :, j % 2], COLUMNS),
}
reads = pytest.mark.parametrize("read, indices", [(f, i) for f, *i in READS.values()], ids=READS)


def one_by_one(fn, *args):
    return np.stack([mg.as_tensor(fn(*[a[k] for a in args])).data for k in range(len(args[0]))])


@reads
def test_each_example_reads_its_own_positions(read, indices):
    y = vmap(read)(mg.tensor(X), *map(mg.tensor, indices))
    np.testing.assert_array_equal(y.data, one_by_one(read, X, *indices))


@reads
@pytest.mark.parametrize("derivative", [grad, hessian])
def test_derivatives_go_back_to_them(read, indices, derivative):
    d = derivative(lambda x, *i: (read(x, *i) ** 3).sum())
    y = vmap(d)(mg.tensor(X), *map(mg.tensor, indices))
    expected = one_by_one(lambda x, *i: d(mg.tensor(x), *i), X, *indices)
    np.testing.assert_allclose(y.data, expected, rtol=1e-12)


def test_a_table_that_all_examples_share_gets_the_gradients_of_all():
    table = mg.tensor(rng.normal(size=(6, 2)), requires_grad=True)
    i = mg.tensor([5, 0, 5])
    y = vmap(lambda k: table[k])(i)
    np.testing.assert_array_equal(y.data, table.data[i.data])
    y.sum().backward()
    assert table.grad.sum(1).tolist() == [2, 0, 0, 0, 0, 4]
    ones = mg.ones_like(table.detach())
    t = jvp(lambda w: vmap(lambda k: w[k])(i), (table.detach(),), (ones,))[1]
    assert t.tolist() == [[1, 1]] * 3


def test_a_position_worked_out_inside_is_read():
    x = mg.tensor(rng.normal(size=(3, 4)))
    np.testing.assert_array_equal(vmap(lambda x: x[mg.argmax(x)])(x).data, x.data.max(1))
    g = vmap(grad(lambda x: (x[mg.argsort(x)] * mg.arange(4.0)).sum()))(x)
    np.testing.assert_array_equal(g.data, np.argsort(np.argsort(x.data)))


def test_a_position_beyond_an_axis_in_any_example_is_an_error():
    x, i = mg.tensor(X), mg.tensor(ONE)
    with pytest.raises(IndexError, match="position 0 of the index is beyond its axis, of length 4"):
        vmap(lambda x, i: x[i + 1])(x, i)
    with pytest.raises(IndexError, match="position 1 of the index is beyond its axis, of length 5"):
        vmap(lambda x, i: x[i, i + 2])(x, i)
    with pytest.raises(IndexError, match="4 indices for"):
        vmap(lambda x, i: x[i, i, i, i])(x, i)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_positions_of_short_integers_do_not_run_over(dtype):
    x, i = mg.arange(2 * 300 * 300).reshape(2, 300, 300), mg.tensor(np.array([50, 60], dtype))
    assert vmap(lambda x, i: x[i, i])(x, i).tolist() == [50 * 301, 90000 + 60 * 301]


def test_what_is_no_position_is_refused_with_the_way_out():
    x, i = mg.tensor(X), mg.tensor(ONE)
    for read in (lambda x, i: x[0, i > 0], lambda x, i: x[i, True], lambda x, i: x[[i, 0]]):
        with pytest.raises(TransformError, match=r"use mg\.where\(mask, x, other\)"):
            vmap(read)(x, i)
    with pytest.raises(TransformError, match="call the function on each example in a loop"):
        vmap(mg.bincount)(mg.tensor([[1, 2], [0, 1]]))
    with pytest.raises(IndexError, match="one Ellipsis"):
        vmap(lambda x, i: x[..., i, ...])(x, i)


def changed(index, value, accumulate=False):
    """(x, v, *indices) -> x with value(v) written, or added, at index(*indices)."""

    def change(x, v, *i):
        if accumulate:
            return mg.index_put(x, index(*i), value(v), accumulate=True)
        x = x.copy()
        x[index(*i)] = value(v)
        return x

    return change


@reads
@pytest.mark.parametrize("accumulate", [False, True], ids=["written", "added"])
@pytest.mark.parametrize("one_value", [False, True], ids=["arrays", "numbers"])
def test_each_example_writes_its_own_positions(read, indices, accumulate, one_value):
    index = read_index(read)
    shape = read(X[0], *[i[0] for i in indices]).shape
    values = rng.normal(size=(3,) if one_value else (3, *shape))
    change = changed(index, lambda v: v**2, accumulate)
    args = mg.tensor(X), mg.tensor(values), *map(mg.tensor, indices)
    y = vmap(change)(*args)
    for k in range(3):
        expected, at = X[k].copy(), index(*[i[k] for i in indices])
        if accumulate:
            np.add.at(expected, at, values[k] ** 2)
        else:
            expected[at] = values[k] ** 2
        np.testing.assert_allclose(y.data[k], expected, rtol=1e-12)
    d = grad(lambda x, v, *i: (change(x, v, *i) ** 3).sum(), argnums=(0, 1))
    for found, *expected in zip(vmap(d)(*args), *[d(*[a[k] for a in args]) for k in range(3)]):
        np.testing.assert_allclose(found.data, np.stack([e.data for e in expected]), rtol=1e-12)


def read_index(read):
    """The index that a function of READS reads with."""

    class Shown:
        def __getitem__(self, index):
            return index

    return lambda *i: read(Shown(), *i)


def test_a_value_with_axes_of_length_1_in_front_is_written_as_outside():
    def change(x, i):
        x = x.copy()
        x[:, i] = mg.ones(1, 1, 4, 2)
        return x

    y = vmap(change)(mg.tensor(X), mg.tensor(ONE))
    assert [int((y.data[k] == 1).sum()) for k in range(3)] == [8, 8, 8]
    with pytest.raises(ValueError, match="broadcast"):
        vmap(lambda x, i: mg.index_put(x, (i,), mg.ones(3, 5, 2)))(mg.tensor(X), mg.tensor(ONE))


def test_a_list_of_zeros_is_filled_where_each_example_says():
    def one_hot(i):
        y = mg.zeros(4)
        y[i] += 2.0
        return y

    np.testing.assert_array_equal(vmap(one_hot)(mg.tensor(ONE)).data, 2 * np.eye(4)[ONE])
    nested = vmap(vmap(one_hot))(mg.tensor(ROWS[:, 0]))
    np.testing.assert_array_equal(nested.data, 2 * np.eye(4)[ROWS[:, 0]])


def test_values_that_are_added_take_the_dtype_of_what_they_are_added_to():
    def add(i, v):
        return mg.index_put(mg.zeros(4, dtype="float32"), (i,), v, accumulate=True)

    assert vmap(add)(mg.tensor(ONE), mg.tensor([1.0, 2.0, 3.0])).dtype == np.float32


MASKS = [[True, False, True], [False, False, True]]


@pytest.mark.parametrize("value", [2.5, [2.5]], ids=np.shape)
@pytest.mark.parametrize("write", ["x[mask] = v", "setitem", "index_put", "added"])
def test_one_value_is_written_to_a_mask_of_each_example(write, value):
    def change(x, mask, v):
        if write == "setitem":
            return mg.setitem(x, v, index=mask)
        if write != "x[mask] = v":
            return mg.index_put(x, (mask,), v, accumulate=write == "added")
        y = x.copy()
        y[mask] = v
        return y

    x, masks, v = mg.arange(6.0).reshape(2, 3), mg.tensor(MASKS), mg.tensor(value)
    expected = mg.stack([change(a, m, v) for a, m in zip(x, masks, strict=True)])
    mapped = vmap(change, in_dims=(0, 0, None))
    assert mapped(x, masks, v).tolist() == expected.tolist()
    got = grad(lambda x, v: (mapped(x, masks, v) ** 2).sum(), (0, 1))(x, v)
    each = grad(lambda x, v: sum((change(x[i], masks[i], v) ** 2).sum() for i in (0, 1)), (0, 1))(
        x, v
    )
    assert [g.tolist() for g in got] == [g.tolist() for g in each]


def test_a_row_is_written_to_the_rows_of_a_mask():
    x, masks = mg.zeros(2, 3, 2), mg.tensor(MASKS)
    y = vmap(lambda x, m: mg.setitem(x, mg.tensor([1.0, 2.0]), index=m))(x, masks)
    assert y.tolist() == [[[1.0, 2.0] if m else [0.0, 0.0] for m in row] for row in MASKS]


def test_as_many_values_as_a_mask_has_positions_are_refused_with_the_way_out():
    x, masks = mg.zeros(2, 3), mg.tensor(MASKS)
    with pytest.raises(TransformError, match=r"x\[mask\] inside vmap.*mg\.where\(mask, x, other\)"):
        vmap(lambda x, m: x[m])(x, masks)
    with pytest.raises(TransformError, match=r"v, float64 \(2,\), has a value for each position"):
        vmap(lambda x, m: mg.setitem(x, mg.ones(2), index=m))(x, masks)
    with pytest.raises(IndexError, match=r"the mask, bool \(3,\), does not fit x, float64 \(2,\)"):
        vmap(lambda x, m: mg.setitem(x, 1.0, index=m))(mg.zeros(2, 2), masks)
    with pytest.raises(TypeError, match="has no imaginary parts"):
        vmap(lambda x, m: mg.setitem(x, 1j, index=m))(x, masks)


def test_getitem_and_setitem_as_functions_take_an_index_of_each_example():
    x, i = mg.arange(6.0).reshape(2, 3), mg.tensor([2, 0])
    assert vmap(lambda x, i: mg.getitem(x, index=i))(x, i).tolist() == [2.0, 3.0]
    assert vmap(lambda i: mg.getitem(x.T, i))(i).tolist() == [[2.0, 5.0], [0.0, 3.0]]
    written = vmap(lambda x, i: mg.setitem(x, 9.0, index=i))(x, i)
    assert written.tolist() == [[0.0, 1.0, 9.0], [9.0, 4.0, 5.0]]
