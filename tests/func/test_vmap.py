"""vmap: where the batch axes are, what random ops mean, which ops run one example at a time."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.custom.reload import registering_module
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op as ops
from minigrad.errors import TransformError
from minigrad.func import VmapWarning, associative_scan, grad, jacrev, root, vmap

pytestmark = pytest.mark.promise("vmap: axes, random draws, which ops fall back")

# Registered ops that vmap runs one example at a time. This list may only become shorter.
ONE_BY_ONE = {
    "argwhere",  # the number of results differs from example to example
    "array_equal",  # no derivative, and a Python truth value
    "bin_sums",
    "isclose",
    "unique_places",  # the number of results differs from example to example
}


def test_the_ops_without_a_batch_rule_are_these_and_no_others():
    without = {
        entry.name
        for entry in ops
        if isinstance(entry, Primitive)
        and entry.batch_rule is None
        and entry.kind != "elementwise"
        and registering_module(entry.name).startswith("minigrad.")
    }
    assert without <= ONE_BY_ONE


def test_an_op_without_a_rule_works_and_says_so():
    op = Primitive(lambda x: np.sort(x), "sorted_by_hand", ["x"])
    with pytest.warns(VmapWarning, match="sorted_by_hand has no batch rule"):
        y = vmap(op)(mg.tensor([[2.0, 1.0], [3.0, 4.0]]))
    assert y.tolist() == [[1, 2], [3, 4]]


def test_in_dims_is_a_tree_that_begins_like_the_arguments():
    x, y = mg.tensor(np.arange(6.0).reshape(2, 3)), mg.tensor(np.arange(3.0))
    f = lambda p, k: (p["x"] * p["y"]).sum() + k
    whole = vmap(f, in_dims=({"x": 0, "y": None}, None))({"x": x, "y": y}, 1.0)
    np.testing.assert_array_equal(whole.data, x.data @ y.data + 1)
    turned = vmap(f, in_dims=({"x": -1, "y": 0}, None))({"x": x, "y": y}, 1.0)
    np.testing.assert_array_equal(turned.data, x.data.sum(0) * y.data + 1)
    one_for_all = vmap(f, in_dims=(1, None))({"x": x, "y": x}, 0.0)
    np.testing.assert_array_equal(one_for_all.data, (x.data**2).sum(0))


def test_out_dims_is_a_tree_that_begins_like_the_results():
    x, w = mg.tensor(np.ones((4, 2, 3))), mg.ones(3)
    f = lambda x: {"whole": (x, [x.sum(0)]), "shared": w}
    y = vmap(f, out_dims={"whole": (2, -1), "shared": None})(x)
    assert y["whole"][0].shape == (2, 3, 4) and y["whole"][1][0].shape == (3, 4)
    assert y["shared"].shape == (3,)
    assert vmap(f)(x)["shared"].shape == (4, 3)
    with pytest.raises(TransformError, match="differs from example to example"):
        vmap(f, out_dims=None)(x)


def test_jax_names_of_the_axes_are_understood():
    x = mg.tensor(np.ones((2, 3)))
    assert vmap(lambda x, k: x * k, in_axes=(1, None), out_axes=1)(x, 2.0).shape == (2, 3)


WEIGHT = np.ones((4, 2, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("f", "shape", "of_result"),
    [
        (grad(lambda x: (x**2).sum()), (3,), (3,)),
        (lambda x: mg.conv2d(x, WEIGHT), (5, 2, 6, 6), (5, 4, 4, 4)),
        (lambda x: mg.conv_transpose2d(x, WEIGHT), (5, 4, 6, 6), (5, 2, 8, 8)),
        (lambda x: x.reshape(2, -1).reshape(-1), (3, 4), (12,)),
        (lambda x: x.reshape((-1, 2), order="F"), (3, 4), (6, 2)),
        (lambda x: mg.cumsum(x), (3, 4), (12,)),
        (lambda x: x.take(mg.tensor([5, 1])), (3, 4), (2,)),
        (lambda x: associative_scan(mg.add, x), (5,), (5,)),
        (lambda x: root(lambda y, a: y - a, mg.zeros(3), x), (3,), (3,)),
        (lambda x: mg.ctc_loss(x, [[1, 2]], [4], [2], reduction="none"), (4, 1, 3), (1,)),
    ],
)
def test_no_examples_give_no_results_of_the_right_shape(f, shape, of_result):
    assert vmap(f)(np.zeros((0, *shape), np.float32)).shape == (0, *of_result)


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 7])
def test_chunks_change_nothing(chunk_size):
    x, w = mg.tensor(np.random.default_rng(0).normal(size=(3, 5))), mg.ones(3)
    f = lambda x, w: {"a": np.tanh(x) * w, "b": [x.sum()], "c": w}
    arguments = {"in_dims": (1, None), "out_dims": {"a": 1, "b": 0, "c": None}}
    whole, chunked = vmap(f, **arguments)(x, w), vmap(f, **arguments, chunk_size=chunk_size)(x, w)
    np.testing.assert_array_equal(chunked["a"].data, whole["a"].data)
    np.testing.assert_array_equal(chunked["b"][0].data, whole["b"][0].data)
    assert chunked["c"].shape == (3,)


RANDOM = {
    "randn": lambda x: x + mg.randn(3),
    "rand": lambda x: x + mg.rand(3),
    "randint": lambda x: x + mg.randint(1000, size=3),
    "dropout": lambda x: mg.dropout(x, 0.5),
    "attention": lambda x: mg.scaled_dot_product_attention(*[mg.diag(x)] * 3, dropout_p=0.5)[0],
}
random_ops = pytest.mark.parametrize("f", RANDOM.values(), ids=RANDOM)


@random_ops
def test_random_draws_are_refused_unless_it_is_said_what_they_mean(f):
    with pytest.raises(TransformError, match='randomness="different"'):
        vmap(f)(mg.ones(4, 3))


@random_ops
def test_draws_are_the_same_or_different(f):
    mg.manual_seed(0)
    same = vmap(f, randomness="same")(mg.ones(50, 3)).data
    assert (same == same[0]).all()
    different = vmap(f, randomness="different")(mg.ones(50, 3)).data
    assert not (different == different[0]).all()


@random_ops
def test_draws_of_one_example_are_those_without_vmap(f):
    mg.manual_seed(3)
    one = f(mg.ones(3))
    after = mg.randn(2)
    for chunk_size in (None, 1, 2):
        mg.manual_seed(3)
        y = vmap(f, randomness="same", chunk_size=chunk_size)(mg.ones(5, 3))
        np.testing.assert_array_equal(y.data, np.broadcast_to(one.data, (5, 3)))
        assert mg.randn(2).tolist() == after.tolist()  # and the generator goes on from there


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (0, None, None), (None, None, 0)])
@pytest.mark.parametrize("outer", ["same", "different"])
@pytest.mark.parametrize("inner", ["same", "different"])
def test_the_weights_that_attention_drops_are_drawn_as_each_vmap_of_a_nest_says(
    in_dims, outer, inner
):
    def f(q, k, v):
        return mg.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    x = mg.ones(4, 3, 6, 2)
    arguments = [x if axis == 0 else x[0, 0] for axis in in_dims]
    rows = vmap(f, in_dims, randomness=inner)
    y = vmap(rows, in_dims, randomness=outer)(*arguments).data
    assert (y == y[:1]).all() == (outer == "same") and (y == y[:, :1]).all() == (inner == "same")


def test_each_vmap_of_a_nest_has_its_own_say():
    inner = lambda randomness: vmap(lambda x: x + mg.randn(2), randomness=randomness)
    y = vmap(inner("different"), randomness="same")(mg.zeros(3, 4, 2)).data
    assert (y == y[0]).all() and not (y[0] == y[0, 0]).all()
    z = vmap(inner("same"), randomness="different")(mg.zeros(3, 4, 2)).data
    assert (z == z[:, :1]).all() and not (z == z[0]).all()


def test_the_policy_ends_with_an_exception():
    def fails(x):
        raise KeyError

    with pytest.raises(KeyError):
        vmap(fails, randomness="error")(mg.ones(2))
    assert mg.randn(2).shape == (2,)
    with pytest.raises(TransformError, match="randomness is one of"):
        vmap(fails, randomness="sometimes")


@pytest.mark.parametrize(
    "use", [bool, int, float, complex, lambda x: x.item(), lambda x: x.tolist(),
            lambda x: x.numpy(), np.asarray, lambda x: [1, 2][x]],
)  # fmt: skip
def test_a_value_of_many_examples_is_no_python_number(use):
    with pytest.raises(TransformError, match="inside vmap"):
        vmap(lambda x: use(x))(mg.tensor([1.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: vmap(lambda x: x, in_dims=2)(x), "no such axis"),
        (lambda x: vmap(lambda x: x, in_dims=(0, 0))(x), "2 entries for 1"),
        (lambda x: vmap(lambda x, y: x)(x, x[:1]), r"\[1, 2\]"),
        (lambda x: vmap(lambda x: x, in_dims=None)(x), "got none"),
        (lambda x: vmap(lambda x, k: x)(x, 1.0), "None shares a value"),
        (lambda x: vmap(lambda x: x, chunk_size=0)(x), "chunk_size"),
    ],
)
def test_what_does_not_fit_is_said(call, message):
    with pytest.raises(TransformError, match=message):
        call(mg.ones(2, 3))


def test_derivatives_of_a_model_run_as_one_batch():
    layer = mg.nn.Sequential(
        mg.nn.Conv2d(1, 2, 3), mg.nn.ReLU(), mg.nn.Flatten(), mg.nn.Linear(8, 3)
    )
    loss = lambda x: mg.cross_entropy(layer(x[None]), np.array([1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", VmapWarning)
        g = vmap(grad(loss))(mg.ones(5, 1, 4, 4))
        j = jacrev(lambda x: layer(x[None]))(mg.ones(1, 4, 4))
    assert g.shape == (5, 1, 4, 4) and j.shape == (1, 3, 1, 4, 4)


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_copy_by_tensor_is_a_constant_of_each_example(dtype):
    def f(x):
        y = mg.tensor(x, dtype=dtype)
        assert y.shape == (3,)
        return (x * y).sum()

    xs = mg.arange(6.0).reshape(2, 3)
    assert func.vmap(f)(xs).tolist() == [5.0, 50.0]
    assert func.vmap(func.grad(f))(xs).tolist() == xs.tolist()
    assert func.jvp(f, (xs[1],), (xs[0],))[1].item() == 14.0
    assert func.grad(lambda xs: func.vmap(f)(xs).sum())(xs).tolist() == xs.tolist()
    assert not func.hessian(f)(xs[1]).any()


def test_a_cast_by_as_tensor_is_that_of_each_example_and_keeps_its_derivative():
    def f(x):
        return (mg.as_tensor(x, dtype=mg.float32) ** 2).sum()

    xs = mg.arange(6.0).reshape(2, 3)
    assert func.vmap(f)(xs).tolist() == [5.0, 50.0]
    assert func.vmap(func.grad(f))(xs).tolist() == (2 * xs).tolist()


def test_what_holds_one_value_is_not_made_of_one_for_each_example():
    xs = mg.ones(2, 3)
    for make in (mg.Tensor, mg.nn.Parameter):
        with pytest.raises(TransformError, match=r"float64 \(3,\), has a value for each example"):
            func.vmap(make)(xs)
    for transform in (func.vmap, func.grad, lambda f: lambda x: func.jvp(f, (x,), (x,))):
        with pytest.raises(TypeError, match=r"drop their history; use mg.stack"):
            transform(lambda x: mg.tensor([x[0], x[1]]))(xs)


def own_op(x, w):
    return OWN_OUTER(x, w)


OWN_OUTER = Primitive(np.outer, "outer one by one", ["a", "b"])
OF_NONE = {
    "conv2d": (lambda x, w: mg.conv2d(x, w), (2, 3, 5, 5), (4, 3, 2, 2), (2, 4, 4, 4)),
    "conv2d with a bias": (
        lambda x, w: mg.conv2d(x, w, w[:, 0, 0, 0]), (2, 3, 5, 5), (4, 3, 2, 2), (2, 4, 4, 4),
    ),
    "conv_transpose1d": (lambda x, w: mg.conv_transpose1d(x, w), (2, 3, 5), (3, 4, 2), (2, 4, 6)),
    "interp": (lambda x, f: np.interp(x, f, f), (4,), (3,), (4,)),
    "searchsorted": (lambda x, f: np.searchsorted(f, x), (4,), (3,), (4,)),
    "windowed_sums": (lambda x, w: mg.windowed_sums(x, w), (4,), (3, 4), (3,)),
    "no batch rule": (own_op, (2,), (3,), (2, 3)),
    "solve_sylvester": (lambda a, q: mg.linalg.solve_sylvester(a, a, q), (2, 2), (2, 2), (2, 2)),
    "sqrtm": (lambda a, b: mg.linalg.sqrtm(a), (2, 2), (2, 2), (2, 2)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::minigrad.func.VmapWarning")
@pytest.mark.parametrize("name", OF_NONE)
def test_ops_that_go_by_example_or_group_take_a_batch_of_none(name):
    f, *shapes, of_result = OF_NONE[name]
    assert vmap(f)(*[mg.ones(0, *shape) for shape in shapes]).shape == (0, *of_result)


def test_axes_may_be_whole_numbers_of_numpys():
    x = mg.ones((2, 3))
    y = vmap(lambda x: 2 * x, in_dims=(np.int64(1),), out_dims=np.int64(1))(x)
    assert y.shape == (2, 3)


@pytest.mark.parametrize(("shift", "axis"), [((1, -2), (0, 0)), (1, (0, -1)), ((1, 2), -1)])
def test_an_axis_may_be_rolled_several_times(shift, axis):
    x = np.arange(8.0).reshape(2, 4)
    y = func.vmap(lambda row: mg.roll(row, shift, axis=axis))(mg.tensor(x))
    assert np.array_equal(y.numpy(), [np.roll(row, shift, axis) for row in x])


def test_an_axis_that_the_result_does_not_have_is_refused():
    with pytest.raises(TransformError, match="out_dims puts the examples on axis 2 of a result"):
        vmap(lambda row: row, out_dims=2)(mg.ones(3, 4))


OF_TWO = {
    "one cotangent for both": lambda x, y: (x + y).sum(),
    "views of one": lambda x, y: (x.T + y.reshape(3, 2)).sum() * 2,
    "each other": lambda x, y: (x * y).sum(),
    "of a product": lambda x, y: (x.T @ y).sum(),
    "joined": lambda x, y: (mg.concatenate([x, y]) ** 2).sum(),
    "itself": lambda x, y: (x * x).sum() + (y * 3).sum(),
}


@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.parametrize("levels", [1, 2])
def test_gradients_of_examples_share_no_memory_with_each_other_or_the_arguments(name, levels):
    fn = mg.func.grad(OF_TWO[name], argnums=(0, 1))
    lead = (4, 5)[:levels]
    for _ in lead:
        fn = mg.func.vmap(fn)
    x, y = (mg.tensor(np.random.default_rng(i).standard_normal((*lead, 2, 3))) for i in range(2))
    arrays = [x.data, y.data, *[g.data for g in fn(x, y)]]
    assert not any(np.shares_memory(a, b) for a in arrays for b in arrays if a is not b)


def test_a_cotangent_that_the_caller_keeps_is_not_handed_out():
    x, g = mg.tensor(np.ones((4, 3))), mg.tensor(np.arange(12.0).reshape(4, 3))
    (gx,) = mg.func.vmap(lambda x, g: mg.func.vjp(lambda x: x.reshape(3), x)[1](g))(x, g)
    np.testing.assert_array_equal(gx.data, g.data)
    assert not np.shares_memory(gx.data, g.data)
