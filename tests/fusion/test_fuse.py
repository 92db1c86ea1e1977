"""mg.fuse: one op that gives what the function gives, with derivatives of every order."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.expressions.trace import NotFusible, trace

pytestmark = pytest.mark.promise(
    "a fused function gives what the function gives, with derivatives of every order, also "
    "when what it reads from outside changes"
)


def gelu_tanh(x):
    return mg.gelu(x) * mg.tanh(x) + x / 2


def mixed(x, w, b):
    return mg.where(x * w > b, mg.exp(-x * x), mg.log1p(w * w)) * mg.maximum(x, b)


def row_softmax(x):
    e = mg.exp(x - mg.max(x, axis=-1, keepdims=True))
    return e / mg.sum(e, axis=-1, keepdims=True)


def values(*shape, dtype=np.float64):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def both(fn, *arrays, weights=None):
    """[(result, gradients)] of the function and of its fused form."""
    found = []
    for f in (fn, mg.fuse(fn)):
        xs = [mg.tensor(a, requires_grad=True) for a in arrays]
        y = f(*xs)
        w = values(*y.shape).astype(y.dtype) if weights is None else weights
        found.append((y.detach().numpy(), [g.numpy() for g in mg.grad((y * w).sum(), xs)]))
    return found


@pytest.mark.parametrize("fn", [gelu_tanh, row_softmax])
@pytest.mark.parametrize("shape", [(7, 33), (300, 200), (5,), (1, 1), (0, 3), (2, 3, 4)])
def test_a_function_of_one_array_is_what_it_was_and_so_is_its_gradient(fn, shape):
    if fn is row_softmax and 0 in shape:
        pytest.skip("the maximum of nothing")
    (y, (g,)), (fused, (fused_g,)) = both(fn, values(*shape))
    np.testing.assert_allclose(fused, y, rtol=1e-13)
    np.testing.assert_allclose(fused_g, g, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, "bfloat16"])
def test_dtypes_stay_and_sixteen_bits_are_rounded_once(dtype):
    x = mg.tensor(values(40, 7), dtype=dtype)
    wide = gelu_tanh(x.astype(np.float64)).numpy()
    y = mg.fuse(gelu_tanh)(x)
    assert y.dtype == x.dtype
    eps = 2**-7 if dtype == "bfloat16" else np.finfo(dtype).eps
    error = np.abs(y.numpy().astype(np.float64) - wide)
    assert (
        error <= (0.51 if dtype != np.float32 else 30) * eps * np.maximum(abs(wide), 0.06)
    ).all()


@pytest.mark.parametrize(
    "shapes", [((4, 5, 6), (6,), (5, 1)), ((3,), (), (1,)), ((2, 1), (1, 3), (2, 3)), ((), (), ())]
)
def test_arguments_broadcast_and_gradients_have_their_shapes(shapes):
    arrays = [values(*shape) for shape in shapes]
    (y, gs), (fused, fused_gs) = both(mixed, *arrays)
    np.testing.assert_allclose(fused, y, rtol=1e-13)
    for g, fused_g, shape in zip(gs, fused_gs, shapes, strict=True):
        assert fused_g.shape == shape
        np.testing.assert_allclose(fused_g, g, rtol=1e-11, atol=1e-13)


@settings(max_examples=25)
@given(st.lists(st.sampled_from("etslmqad"), min_size=1, max_size=8), st.integers(1, 50))
def test_random_chains_agree(steps, n):
    step = {
        "e": lambda x: mg.exp(-mg.abs(x)), "t": mg.tanh, "s": lambda x: mg.sin(x) * x,
        "l": lambda x: mg.log(1 + x * x), "m": lambda x: mg.maximum(x, 0.1),
        "q": lambda x: mg.sqrt(1 + x * x), "a": lambda x: x + 1, "d": lambda x: 1 / (2 + x * x),
    }  # fmt: skip

    def chain(x):
        for name in steps:
            x = step[name](x)
        return x

    (y, (g,)), (fused, (fused_g,)) = both(chain, values(n))
    np.testing.assert_allclose(fused, y, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(fused_g, g, rtol=1e-10, atol=1e-13)


def test_second_and_third_derivatives_are_those_of_the_function():
    found = []
    for f in (gelu_tanh, mg.fuse(gelu_tanh)):
        x = mg.tensor(np.linspace(-2, 2, 9), requires_grad=True)
        y, orders = f(x), []
        for _ in range(3):
            y = mg.grad(y.sum(), x, create_graph=True)
            orders.append(y.detach().numpy())
        found.append(orders)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("size", [100, 5_000, 600_000])
def test_variants_for_large_arrays_do_not_keep_a_chain_from_being_fused(size):
    y = mg.fuse(gelu_tanh)(mg.tensor(values(size, dtype=np.float32), requires_grad=True))
    assert y.node.op.name == "gelu_tanh"


def test_a_fused_function_is_one_node_and_saves_its_arguments_alone():
    x = mg.tensor(values(5, 6), requires_grad=True)
    y = mg.fuse(gelu_tanh)(x)
    assert y.grad_fn.op.name == "gelu_tanh"
    assert y.grad_fn.parents == (x.node,)
    kept = [v for v in y.grad_fn.saved if isinstance(v, np.ndarray)]
    assert len(kept) == 1 and kept[0] is x.data


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[0] * x,
        lambda x: x * 2 if float(x.sum()) > 0 else x,
        lambda x: x.sum(axis=0, keepdims=True) * x,
        lambda x: x @ x,
        lambda x: x.reshape((-1, 3)) * 2,
    ],
    ids=["index", "branch", "other axis", "product", "reshape"],
)
def test_what_cannot_be_fused_runs_as_it_stands(fn):
    with pytest.raises(NotFusible):
        trace(fn, [np.dtype("float64")])
    (y, (g,)), (fused, (fused_g,)) = both(fn, values(3, 3))
    np.testing.assert_allclose(fused, y)
    np.testing.assert_allclose(fused_g, g)


def test_numbers_and_arrays_are_arguments_too():
    f = mg.fuse(lambda x, a: mg.tanh(x * a))
    x = values(4, 3)
    np.testing.assert_allclose(f(x, 2.0), np.tanh(x * 2))
    t = mg.tensor(x, requires_grad=True)
    np.testing.assert_allclose(mg.grad(f(t, 2.0).sum(), t).numpy(), 2 / np.cosh(2 * x) ** 2)


def test_python_numbers_are_weak():
    f = mg.fuse(lambda x, a: x * a + 1)
    for dtype in (np.float16, np.float32):
        assert f(mg.ones(3, dtype=dtype), 2.5).dtype == dtype
        x = mg.ones(3, dtype=dtype).requires_grad_()
        assert mg.grad(f(x, 2.5).sum(), x).dtype == dtype


def test_inside_transforms_the_function_itself_runs():
    f = mg.fuse(gelu_tanh)
    x = mg.tensor(values(6))
    for transform in (
        lambda f: mg.func.vmap(f)(x),
        lambda f: mg.func.grad(lambda x: f(x).sum())(x),
        lambda f: mg.func.jvp(f, (x,), (mg.ones_like(x),))[1],
        lambda f: mg.func.hessian(lambda x: f(x).sum())(x),
    ):
        np.testing.assert_allclose(transform(f).numpy(), transform(gelu_tanh).numpy(), rtol=1e-12)


def test_the_number_of_threads_does_not_show():
    x = values(400, 300, dtype=np.float32)
    before, results = mg.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            mg.set_num_threads(threads)
            t = mg.tensor(x, requires_grad=True)
            y = mg.fuse(row_softmax)(t)
            results.append((y.detach().numpy(), mg.grad((y * x).sum(), t).numpy()))
    finally:
        mg.set_num_threads(before)
    for y, g in results[1:]:
        np.testing.assert_array_equal(y, results[0][0])
        np.testing.assert_array_equal(g, results[0][1])


def test_its_programs_are_bounded_and_reported():
    mg.fuse(gelu_tanh)(mg.ones(3))
    stats = mg.cache_stats()["fused programs"]
    assert stats["entries"] >= 1 and stats["max_entries"] == 512


def row_mean(x):
    return mg.mean(x, axis=-1, keepdims=True)


ANY_SHAPE = {
    "length of an axis": (lambda x: x * x.shape[0] / x.shape[-1], [(4, 5)]),
    "number of axes": (lambda x: x * x.ndim, [(2, 3, 4)]),
    "branch on the number of axes": (lambda x: x * 2 if x.ndim == 3 else x * 3, [(2, 3, 4)]),
    "branch on a shape": (lambda x: x * 2 if x.shape[0] > 3 else x, [(4, 5)]),
    "an axis that is the last of two": (
        lambda x: x - mg.mean(x, axis=1, keepdims=True),
        [(2, 3, 4)],
    ),
    "values of rows alone": (row_mean, [(4, 5)]),
    "mean of means": (lambda x: x + row_mean(row_mean(x)), [(4, 5)]),
    "an argument of shorter rows": (lambda x, z: x + row_mean(z), [(4, 5), (4, 1)]),
    "a row that all rows share": (lambda x, z: x * row_mean(z), [(4, 5), (5,)]),
    "an argument that is not used": (lambda x, z: z * 2, [(4, 5), (4, 1)]),
}


@pytest.mark.parametrize("name", ANY_SHAPE)
def test_a_fused_function_has_the_shapes_that_the_function_has(name):
    fn, shapes = ANY_SHAPE[name]
    arrays = [values(*shape) for shape in shapes]
    found = []
    for called in (fn, mg.fuse(fn)):
        xs = [mg.tensor(x, requires_grad=True) for x in arrays]
        y = called(*xs)
        gs = mg.grad(mg.sin(y).sum(), xs, allow_unused=True)
        found.append(
            [y.numpy(), *[np.zeros(s) if g is None else g.numpy() for g, s in zip(gs, shapes)]]
        )
    for expected, y in zip(*found, strict=True):
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_an_argument_without_influence_has_a_gradient_of_zeros_where_blocks_cannot_be_read():
    arrays = [values(2, 3, 4), values(3, 1), values(2, 3, 4)]  # (3, 1) is no row and no line
    xs = [mg.tensor(x, requires_grad=True) for x in arrays]
    gs = mg.grad(mg.fuse(lambda x, z, unused: x * z)(*xs).sum(), xs)
    np.testing.assert_allclose(gs[1].numpy(), arrays[0].sum((0, 2))[:, None])
    assert not gs[2].numpy().any()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mg.float_power(x, 2.5) + 1,
        lambda x: np.float_power(x, x),
        lambda x: x * np.float64(2.0),  # of NumPy's own scalars none is weak
        lambda x: mg.maximum(x, np.float64(0.5)) - 1,
        lambda x: x * np.float32(2.0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_result_that_is_wider_than_its_arguments_is_so_when_fused(function, dtype):
    x = mg.tensor(np.linspace(0.5, 2, 9), dtype=dtype, requires_grad=True)
    plain, fused = function(x), mg.fuse(function)(x)
    assert fused.dtype == plain.dtype
    np.testing.assert_allclose(fused.detach(), plain.detach(), rtol=1e-6)
    for y in (plain, fused):
        assert mg.grad(y.sum(), x).dtype == dtype


WHOLE = {
    "bool": np.array([True, False, True]),
    "int8": np.array([-3, 0, 100], np.int8),
    "uint8": np.array([3, 0, 200], np.uint8),
    "int16": np.array([-3, 0, 300], np.int16),
    "int64": np.array([-3, 2, 7]),
}


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: np.exp(x), lambda x: np.floor(x), lambda x: x**2, lambda x: x % 2,
        lambda x: np.sqrt(np.abs(x)), lambda x: x + 2, lambda x: x * 2.5, lambda x: x / 3,
        lambda x: np.fmax(x, 2), lambda x: np.isnan(x), lambda x: x < 1000, lambda x: np.square(x),
        lambda x: np.where(x > 1, x, 0.5), lambda x: np.where(x > 1, x, np.float64(0.5)),
        lambda x: np.clip(x, 0, 2.5), lambda x: np.maximum(x, np.int16(2)),
        lambda x: x - np.sum(x, axis=-1, keepdims=True),
        lambda x: x - np.mean(x, axis=-1, keepdims=True),
    ],
)  # fmt: skip
def test_integers_and_truth_values_give_the_dtype_and_numbers_of_numpy(fn, dtype):
    x = WHOLE[dtype]
    try:
        expected = fn(x)
    except TypeError:  # x − y of truth values
        with pytest.raises(TypeError):
            mg.fuse(fn)(x)
        return
    found = mg.fuse(fn)(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_scalar_of_numpys_is_not_weak_in_where():
    x = np.array([1.0, -1.0], np.float32)
    y = mg.fuse(lambda x: np.where(x > 0, x, np.float64(0.1)))(x)
    assert y.dtype == np.float64 and y[1] == 0.1


def test_what_is_no_one_result_of_arrays_runs_as_it_stands_or_says_what_is_wrong():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    doubled, tripled = mg.fuse(lambda x: (x * 2, x * 3))(x)
    (doubled * tripled).sum().backward()
    np.testing.assert_array_equal(x.grad, 12 * x.data)
    assert mg.fuse(lambda x: None)(x) is None
    assert mg.fuse(lambda: 3)() == 3
    np.testing.assert_array_equal(mg.fuse(functools.partial(np.multiply, 2))(x).data, [2, 4])
    times = mg.fuse(lambda x, y: x * y)
    with pytest.raises(ValueError, match=r"mul\(a: float64 \(2,\), b: float64 \(3,\)\)"):
        times(x, np.ones(3))
    np.testing.assert_array_equal(times(x, [1, 2]).data, [1, 4])
    np.testing.assert_array_equal(times(x, y=x).data, [1, 4])
    with pytest.raises(TypeError, match="fuse takes a function of arrays, got 3"):
        mg.fuse(3)


@pytest.mark.parametrize(
    "watched",
    [
        mg.Tape, mg.detect_anomaly, mg.record_backward, mg.profile, mg.save_on_cpu,
        lambda: mg.profile(memory=True),
    ],
)  # fmt: skip
def test_a_gradient_first_made_while_something_watches_has_the_same_bits(watched):
    def gradient():  # a new fused function: the first use of each is what records its program
        f = mg.fuse(lambda a, b: a * mg.tanh(b) + mg.exp(-a * a) * b)
        x = mg.tensor(np.random.default_rng(0).uniform(-1, 1, 50), requires_grad=True)
        return mg.grad(f(x, x).sum(), x).numpy()

    plain = gradient()
    with watched():
        found = gradient()
    np.testing.assert_array_equal(found, plain)


def test_no_listener_hears_of_the_symbols_that_a_program_is_recorded_on():
    x = mg.tensor(np.linspace(-1, 1, 5), requires_grad=True)
    with mg.profile() as profile:
        mg.fuse(lambda a: a * mg.tanh(a))(x).sum().backward()
    assert "tanh" not in {row.op for row in profile.rows()}
