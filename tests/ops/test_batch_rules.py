"""vmap over the reductions, shape and index ops is the loop, in values and gradients."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import vmap
from minigrad.testing.case import Context
from minigrad.testing.function import as_array, results
from minigrad.testing.run import load_samples
from minigrad.testing.spec import specs

load_samples()
FAMILIES = {"reduce", "shape", "broadcasting", "index"}
# how many elements the result has differs from example to example, or vmap has no form for it
WITHOUT = {
    "argwhere",
    "nonzero",
    "flatnonzero",
    "scatter_rows",
    "unique",
    "unique_all",
    "unique_places",
}
# the index is a static parameter of these, the same for all examples
FIXED_INDEX = {
    "index_put", "masked_select", "index_add", "scatter", "scatter_add", "compress", "delete",
    "extract", "index_copy", "index_fill", "insert", "masked_scatter",
}  # fmt: skip
NAMES = sorted(
    spec.name
    for spec in specs.values()
    if FAMILIES & set(spec.module.split(".")) and spec.name not in WITHOUT
)


def batches(name, args):
    """Sets of arguments to batch: the floating ones, each alone, and all with the indices."""
    floating = [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    arrays = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]
    chosen = [floating, *[[i] for i in floating if len(floating) > 1]]
    if arrays != floating and name not in FIXED_INDEX:
        chosen += [arrays, [i for i in arrays if i not in floating]]
    return [positions for positions in chosen if positions]


def three_of(x):
    """Three examples: x and two rearrangements of its values."""
    return np.stack([x, np.flip(x), np.roll(x, 1)])


def called(spec, sample, positions, xs):
    args = list(sample.args)
    for position, x in zip(positions, xs, strict=True):
        args[position] = x
    return tuple(results(spec.call(*args, **sample.params)))


def leaves(arrays):
    return [mg.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]


@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_the_loop(name):
    spec, compared = specs[name], 0
    for sample in Context().samples(spec, "float64"):
        for positions in batches(name, sample.args):
            stacked = [three_of(sample.args[i]) for i in positions]
            compared += compare(spec, sample, positions, stacked)
    assert compared


def compare(spec, sample, positions, stacked):
    """Values and gradients of the batch against those of each example."""
    rng = np.random.default_rng(0)
    whole = leaves(stacked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no op here runs once for each example
        warnings.simplefilter("ignore", RuntimeWarning)
        ys = vmap(lambda *xs: called(spec, sample, positions, xs))(*whole)
    ws = [rng.standard_normal(y.shape) for y in ys]
    gs = pulled(ys, whole, ws)
    for k in range(3):
        singles = leaves([x[k] for x in stacked])
        expected = called(spec, sample, positions, singles)
        for y, one in zip(ys, expected, strict=True):
            np.testing.assert_allclose(y.numpy()[k], as_array(one), rtol=1e-12)
        for g, one in zip(gs, pulled(expected, singles, [w[k] for w in ws]), strict=True):
            np.testing.assert_allclose(g.numpy()[k], one.numpy(), rtol=1e-10, atol=1e-13)
    return len(ys)


def pulled(ys, xs, ws):
    pairs = [(y, w) for y, w in zip(ys, ws, strict=True) if getattr(y, "requires_grad", False)]
    xs = [x for x in xs if x.requires_grad]
    if not pairs:
        return []
    return mg.grad([y for y, _ in pairs], xs, [w for _, w in pairs])


# -- what a sample of the harness does not reach ----------------------------------------------


def loop(f, *batches):
    return np.stack([f(*map(mg.tensor, xs)).numpy() for xs in zip(*batches, strict=True)])


NUMBERS = np.array([1.0, 2.0, 4.0])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "sum", "max", "cumprod", "argmax"])
@pytest.mark.parametrize("axis", [0, -1])
def test_an_axis_of_a_number_is_none_of_the_batch(name, axis):
    f = lambda x: getattr(mg, name)(x, axis=axis)
    np.testing.assert_array_equal(vmap(f)(mg.tensor(NUMBERS)).numpy(), loop(f, NUMBERS))


def test_argmax_of_numbers_keeps_no_axis_that_they_have_not():
    f = lambda x: mg.argmax(x, axis=0, keepdims=True)
    assert vmap(f)(mg.tensor(NUMBERS)).shape == (3,)


def test_one_axis_of_a_vector_may_be_named_without_a_tuple_to_transpose_it():
    x = np.arange(6.0).reshape(3, 2)
    y = vmap(lambda x: mg.transpose(x, axes=0))(mg.tensor(x))
    np.testing.assert_array_equal(y.numpy(), x)


VECTORS = np.arange(1.0, 10.0).reshape(3, 3)


@pytest.mark.parametrize(
    "f, xs",
    [
        (lambda x: x.mT, VECTORS),
        (lambda x: mg.softmax(x, axis=-2), VECTORS),
        (lambda x: mg.expand_dims(x, axis=-3), VECTORS),
        (lambda x: mg.argmax(x, axis=-2), NUMBERS),
        (lambda x: mg.tril(x), NUMBERS),
        (lambda x: x @ np.ones(1), NUMBERS),
        (lambda x: mg.linear(x, VECTORS), NUMBERS),
        (lambda x: mg.linalg.solve(x, np.ones(1)), NUMBERS),
        (lambda x: mg.linalg.inv(x), VECTORS + np.eye(3)),
        (lambda x: mg.linalg.svdvals(x), VECTORS),
        (lambda x: mg.polyval(x, 2.0), NUMBERS),
        (lambda x: mg.setitem(x, NUMBERS, index=0), VECTORS),
    ],
    ids=[
        "mT", "softmax", "expand_dims", "argmax", "tril", "matmul", "linear", "solve", "inv",
        "svdvals", "polyval", "setitem",
    ],
)  # fmt: skip
def test_what_an_example_has_no_axis_for_is_refused_and_not_done_to_the_batch(f, xs):
    with pytest.raises(ValueError):  # AxisError and LinAlgError are ValueErrors
        f(mg.tensor(xs[0]))
    with pytest.raises(ValueError):
        vmap(f)(mg.tensor(xs))


def test_the_error_for_too_few_axes_names_the_argument_and_the_way_out():
    with pytest.raises(ValueError, match="linear under vmap: x has 0 axes .* at least 1; expand_d"):
        vmap(lambda x: mg.linear(x, VECTORS))(mg.tensor(NUMBERS))


def test_a_value_that_all_examples_share_meets_the_axes_of_each():
    """NumPy puts the axes of indices that a slice parts in front, before the batch's."""
    x, value = np.zeros((3, 3, 2, 3)), np.arange(6.0).reshape(3, 2)
    index = ([0, 1, 2], slice(None), [1, 1, 0])
    f = lambda x: mg.setitem(x, value, index=index)
    np.testing.assert_array_equal(vmap(f)(mg.tensor(x)).numpy(), loop(f, x))


def test_values_put_at_places_of_each_example_get_their_gradients():
    rng = np.random.default_rng(0)
    x, values, w = (
        rng.standard_normal((3, 2, 4)),
        rng.standard_normal((3, 2, 3)),
        rng.random((2, 4)),
    )
    places = np.array([[[0, 0, 1], [3, 2, 2]], [[1, 2, 3], [0, 0, 0]], [[2, 2, 0], [1, 3, 1]]])

    def pulled(x, places, values):
        f = lambda v: (mg.put_along_axis(x, places, v, axis=1) * w).sum()
        return mg.func.grad(f)(values)

    batch = vmap(pulled)(*map(mg.tensor, (x, places, values)))
    np.testing.assert_array_equal(batch.numpy(), loop(pulled, x, places, values))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_values_combined_at_places_of_each_example_are_those_of_the_loop(reduce, include_self):
    """One example goes to one place alone, the next to all: as many rows as the fullest needs."""
    rng = np.random.default_rng(0)
    x, src, w = rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 2, 3)), np.arange(8.0)
    places = np.array([[[0, 0, 0], [3, 3, 3]], [[1, 2, 3], [0, 0, 0]], [[2, 2, 0], [1, 3, 1]]])

    def pulled(places, x, src):
        f = lambda x, src: mg.scatter_reduce(x, 1, places, src, reduce, include_self)
        total = lambda x, src: (f(x, src) ** 2 * w.reshape(2, 4)).sum()
        return mg.concatenate(
            [a.ravel() for a in (f(x, src), *mg.func.grad(total, (0, 1))(x, src))]
        )

    for shared in ((), (1,), (2,), (1, 2)):
        args = [a[0] if i in shared else a for i, a in enumerate((places, x, src))]
        in_dims = tuple([None if i in shared else 0 for i in range(3)])
        batch = vmap(pulled, in_dims)(*map(mg.tensor, args))
        expected = loop(
            pulled, *[np.stack([a] * 3) if i in shared else a for i, a in enumerate(args)]
        )
        np.testing.assert_allclose(batch.numpy(), expected, rtol=1e-12)


def test_examples_of_examples_combine_at_their_own_places():
    rng = np.random.default_rng(0)
    x, src, places = rng.random((2, 3, 4)), rng.random((2, 3, 5)), rng.integers(0, 4, (2, 3, 5))
    f = lambda x, i, src: mg.scatter_reduce(x, 0, i, src, "prod")
    batch = vmap(vmap(f))(*map(mg.tensor, (x, places, src))).numpy()
    for k in np.ndindex(2, 3):
        np.testing.assert_allclose(batch[k], f(x[k], places[k], src[k]), rtol=1e-14)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_a_batch_of_no_examples_combines_nothing(reduce):
    x, places, src = mg.zeros(0, 3, 4), mg.zeros(0, 2, 4, dtype=np.int64), mg.zeros(0, 2, 4)
    total = lambda x, i, src: mg.scatter_reduce(x, 0, i, src, reduce, False).sum()
    assert vmap(total)(x, places, src).shape == (0,)
    assert vmap(mg.func.grad(total, argnums=2))(x, places, src).shape == (0, 2, 4)


def test_each_example_may_choose_for_itself():
    names, x = np.array([[0, 1], [1, 1], [1, 0]]), VECTORS[:, :2]
    f = lambda names, x: mg.choose(names, [x, -x])
    batch = vmap(f)(mg.tensor(names), mg.tensor(x))
    np.testing.assert_array_equal(batch.numpy(), loop(f, names, x))


def test_class_weights_of_two_axes_of_examples_meet_smoothed_labels():
    rng = np.random.default_rng(0)
    x, weights = mg.tensor(rng.normal(size=(3, 4))), rng.uniform(0.5, 1.5, (2, 3, 4))
    f = lambda w: mg.cross_entropy(x, np.array([0, 2, 1]), weight=w, label_smoothing=0.1)
    expected = [[f(mg.tensor(w)).item() for w in row] for row in weights]
    np.testing.assert_allclose(vmap(vmap(f))(mg.tensor(weights)).numpy(), expected, rtol=1e-14)
