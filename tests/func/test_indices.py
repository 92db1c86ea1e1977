"""x[i] under vmap, where i differs from example to example."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import TransformError
from minigrad.func import grad, hessian, jvp, vmap

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
}
reads = pytest.mark.parametrize("read, indices", [(f, i) for f, *i in READS.values()], ids=READS)


def one_by_one(fn, *args):
    return np.stack([mg.as_tensor(fn(*[a[k] for a in args])).data for k in range(len(args[0]))])


@reads
def test_each_example_reads_its_own_places(read, indices):
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


def test_a_place_worked_out_inside_is_read():
    x = mg.tensor(rng.normal(size=(3, 4)))
    np.testing.assert_array_equal(vmap(lambda x: x[mg.argmax(x)])(x).data, x.data.max(1))
    g = vmap(grad(lambda x: (x[mg.argsort(x)] * mg.arange(4.0)).sum()))(x)
    np.testing.assert_array_equal(g.data, np.argsort(np.argsort(x.data)))


def test_a_place_beyond_an_axis_in_any_example_is_an_error():
    x, i = mg.tensor(X), mg.tensor(ONE)
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        vmap(lambda x, i: x[i + 1])(x, i)
    with pytest.raises(IndexError, match="index 1 is beyond axis 1, of length 5"):
        vmap(lambda x, i: x[i, i + 2])(x, i)
    with pytest.raises(IndexError, match="4 indices for"):
        vmap(lambda x, i: x[i, i, i, i])(x, i)


def test_what_is_no_place_is_refused_with_the_way_out():
    x, i = mg.tensor(X), mg.tensor(ONE)
    for read in (lambda x, i: x[:, i], lambda x, i: x[i > 0], lambda x, i: x[i, None]):
        with pytest.raises(TransformError, match=r"mg\.take\(x, index, axis\)"):
            vmap(read)(x, i)
