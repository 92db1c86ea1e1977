"""mg.accelerate changes no result beyond rounding, and says the same of what it does not take."""

from functools import partial

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op

pytestmark = pytest.mark.promise(
    "compiled loops give NumPy's numbers and NaN, with the same bits for any number of "
    "threads. Off, every op has its own forward again"
)

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
launch = pytest.importorskip("minigrad.compiled.launch")

ROWS = (37, 65)
_rng = np.random.default_rng(3)


def values(*shape, dtype=np.float32):
    return _rng.normal(size=shape).astype(dtype)


def labels(n, classes):
    return _rng.integers(0, classes, n)


# name: the function, and the shapes of its arguments
OPS = {
    "exp": (mg.exp, [ROWS]),
    "tanh": (mg.tanh, [ROWS]),
    "sigmoid": (mg.sigmoid, [ROWS]),
    "relu": (mg.relu, [ROWS]),
    "gelu": (mg.gelu, [ROWS]),
    "gelu, tanh form": (lambda x: mg.gelu(x, approximate="tanh"), [ROWS]),
    "silu": (mg.silu, [ROWS]),
    "mish": (mg.mish, [ROWS]),
    "softplus": (mg.softplus, [ROWS]),
    "elu": (mg.elu, [ROWS]),
    "erf": (mg.erf, [ROWS]),
    "times": (lambda x, y: x * y, [ROWS, ROWS]),
    "times a row": (lambda x, y: x * y, [ROWS, ROWS[1:]]),
    "times a column": (lambda x, y: x * y, [ROWS, (37, 1)]),
    "over a channel": (lambda x, y: x / (3 + y * y), [(3, 5, 33), (5, 1)]),
    "a number beside it": (lambda x: 2.0 - x / 3, [ROWS]),
    "maximum": (mg.maximum, [ROWS, ROWS]),
    "where": (lambda x, y: mg.where(x > 0, x, y), [ROWS, ROWS]),
    "softmax": (mg.softmax, [ROWS]),
    "softmax of a vector": (mg.softmax, [(333,)]),
    "softmax down columns": (lambda x: mg.softmax(x, axis=0), [ROWS]),
    "log_softmax": (mg.log_softmax, [(2, 9, 65)]),
    "layer_norm": (lambda x, w, b: mg.layer_norm(x, 65, w, b), [ROWS, (65,), (65,)]),
    "layer_norm of two axes": (
        lambda x, w, b: mg.layer_norm(x, (4, 33), w, b), [(5, 4, 33), (4, 33), (4, 33)]),
    "layer_norm without weight": (lambda x: mg.layer_norm(x, 65), [ROWS]),
    "rms_norm": (lambda x, w: mg.rms_norm(x, 65, w), [ROWS, (65,)]),
    "batch_norm": (
        lambda x, w, b: mg.batch_norm(x, None, None, w, b, training=True),
        [ROWS, (65,), (65,)]),
    "batch_norm of images": (
        lambda x, w, b: mg.batch_norm(x, None, None, w, b, training=True),
        [(4, 3, 5, 9), (3,), (3,)]),
    "group_norm": (lambda x, w, b: mg.group_norm(x, 2, w, b), [(3, 4, 5, 9), (4,), (4,)]),
    "instance_norm": (lambda x: mg.instance_norm(x), [(3, 4, 5, 9)]),
    "sum down columns": (lambda x: mg.sum(x * x, axis=0), [ROWS]),
    "cross_entropy": (lambda x: mg.cross_entropy(x, np.arange(37) % 65), [ROWS]),
    "cross_entropy, one each": (
        lambda x: mg.cross_entropy(x, np.arange(37) % 65, reduction="none"), [ROWS]),
    "cross_entropy of ignored rows": (
        lambda x: mg.cross_entropy(x, np.full(37, -100)), [ROWS]),
}  # fmt: skip


def run(f, arrays, g=None):
    """The result and the gradients of all arguments."""
    xs = [mg.tensor(x, requires_grad=True) for x in arrays]
    y = f(*xs)
    g = np.cos(np.arange(y.size)).reshape(y.shape).astype(y.dtype) if g is None else g
    return [y.numpy(), *[x.numpy() for x in mg.grad(y, xs, grad_outputs=g)]]


def assert_close(found, expected, factor=32):
    """Within some units of the largest entry: sums are added in another order."""
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        finite = np.isfinite(b)
        size = float(abs(b[finite]).max(initial=1))
        np.testing.assert_allclose(a, b, rtol=0, atol=factor * np.finfo(b.dtype).eps * size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients_are_those_of_numpy(name, dtype, all_sizes):
    f, shapes = OPS[name]
    arrays = [values(*shape, dtype=dtype) for shape in shapes]
    found = run(f, arrays)
    with mg.accelerate(False):
        expected = run(f, arrays)
    assert_close(found, expected)


def test_the_ops_of_the_table_above_are_run_by_loops(all_sizes):
    before = launch.launches.stats()["misses"]
    for name in ("gelu", "softmax", "layer_norm", "cross_entropy"):
        f, shapes = OPS[name]
        run(f, [values(*shape) for shape in shapes])
    made = [x for x, _ in launch.launches._entries.values() if not isinstance(x, Exception)]
    assert made and launch.launches.stats()["misses"] >= before


@pytest.mark.parametrize("name", ["gelu", "tanh", "softmax", "layer_norm", "batch_norm of images"])
def test_the_second_derivative_is_that_of_numpy(name, all_sizes):
    f, shapes = OPS[name]
    arrays = [values(*shape, dtype=np.float64) for shape in shapes]

    def twice(*xs):
        y = f(*xs)
        c = np.cos(np.arange(y.size)).reshape(y.shape)
        gs = mg.grad((y * c).sum(), list(xs[:2]), create_graph=True)
        return mg.grad(sum((g * g).sum() for g in gs), list(xs[:2]))

    found = [g.numpy() for g in twice(*[mg.tensor(x, requires_grad=True) for x in arrays])]
    with mg.accelerate(False):
        expected = [g.numpy() for g in twice(*[mg.tensor(x, requires_grad=True) for x in arrays])]
    assert_close(found, expected, factor=256)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name, (_, shapes) in OPS.items() if shapes == [ROWS]])
def test_nan_and_infinity_come_out_where_numpy_has_them(name, dtype, all_sizes):
    f, _ = OPS[name]
    x = values(*ROWS, dtype=dtype)
    x[0, :9] = [0.0, -0.0, 700, -700, 3e38, -3e38, 1e-40, -1e-40, 90]
    x[1, 3], x[2, 4], x[3, 5], x[4] = np.nan, np.inf, -np.inf, -np.inf
    with np.errstate(all="ignore"):
        found = run(f, [x])
        with mg.accelerate(False):
            expected = run(f, [x])
    for a, b in zip(found, expected, strict=True):
        assert (np.isnan(a) == np.isnan(b)).all()
        assert (np.isinf(a) == np.isinf(b)).all()
        np.testing.assert_allclose(a, b, rtol=2e-3 if dtype is np.float32 else 1e-9, atol=1e-6)


@pytest.mark.parametrize("x", [
    np.zeros((0, 5), np.float32), np.float32(0.5), values(6, 40).T, values(6, 40)[:, ::3],
    values(6, 40).astype(np.float16), np.arange(40), values(40) + 1j * values(40),
    np.broadcast_to(np.float32(2), (5, 9)),
], ids="empty 0-d transposed strided float16 whole complex broadcast".split())  # fmt: skip
def test_any_layout_and_dtype_gives_what_it_gives_without(x, all_sizes):
    for f in (mg.tanh, lambda x: x * 3, lambda x: x + x):
        found = f(mg.tensor(x)).numpy()
        with mg.accelerate(False):
            expected = f(mg.tensor(x)).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("f", [
    mg.softmax, mg.log_softmax, lambda x: mg.logsumexp(x, axis=-1), lambda x: mg.softmax(x, axis=0),
    lambda x: mg.layer_norm(x, 65), lambda x: mg.rms_norm(x, 65), lambda x: mg.std(x, axis=-1),
    lambda x: mg.norm(x, axis=-1), lambda x: mg.cumsum(x, axis=-1), mg.tanh,
    lambda x: mg.cross_entropy(x, np.arange(37)),
], ids="softmax log_softmax logsumexp down layer rms std norm cumsum tanh ce".split())  # fmt: skip
@pytest.mark.parametrize("shape", [(), (1, 65), (37, 1)], ids="one row column".split())
def test_rows_of_one_number_are_as_long_as_they_are(f, shape, all_sizes):
    one, v = values(*shape, dtype=np.float64), values(*ROWS, dtype=np.float64)
    spread = lambda x: mg.broadcast_to(x, ROWS)

    def results():
        x = mg.tensor(one, requires_grad=True)
        y = f(spread(x))
        (g,) = mg.grad(y, [x], v[tuple(slice(n) for n in y.shape)] if y.ndim == 2 else y * 0 + 0.3)
        flat = f(spread(x).detach())
        return [y.numpy(), g.numpy(), flat.numpy()]

    found = results()
    with mg.accelerate(False):
        expected = results()
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_rows_of_one_number_have_the_bits_of_their_copy(all_sizes):
    x = np.broadcast_to(np.float32(0.7), ROWS)
    for f in (mg.softmax, mg.log_softmax):
        assert (f(mg.tensor(x)).numpy() == f(mg.tensor(x.copy())).numpy()).all()


def test_a_rule_that_reads_its_inputs_from_outside_is_run_as_it_is(all_sizes):
    scale = np.full(ROWS, 2.0)
    times = Primitive(lambda a, b: a * b, "times", ["a", "b"], kind="elementwise")
    times.vjp("a")(partial(lambda factor, g, b: g * b * factor, scale))
    times.vjp("b")(partial(lambda factor, g, a: g * a * factor, scale))
    x, y = (mg.tensor(values(*ROWS, dtype=np.float64), requires_grad=True) for _ in range(2))
    mg.sum(times(x, y)).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.numpy())
    np.testing.assert_allclose(y.grad.numpy(), 2 * x.numpy())


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm", "batch_norm", "cross_entropy",
                                  "batch_norm of images", "sum down columns"])  # fmt: skip
def test_no_bit_depends_on_the_number_of_threads(name, all_sizes, monkeypatch):
    monkeypatch.setattr(launch, "PIECE", 256)
    launch.launches.clear()
    f, shapes = OPS[name]
    arrays = [values(*shape) for shape in shapes]
    threads, results = mg.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            mg.set_num_threads(n)
            results.append(run(f, arrays))
    finally:
        mg.set_num_threads(threads)
        launch.launches.clear()
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))


def network(x, w, b):
    return (mg.gelu(mg.layer_norm(x, 65, w, b)) * mg.tanh(x) + x / 2).sum()


def test_the_engines_give_the_same_bits(all_sizes):
    arrays = [values(*ROWS), values(65), values(65)]
    results = []
    for engine in ("serial", "parallel"):
        xs = [mg.tensor(x, requires_grad=True) for x in arrays]
        network(*xs).backward(engine=engine)
        results.append([x.grad.numpy() for x in xs])
    xs = [mg.tensor(x, requires_grad=True) for x in arrays]
    with mg.Tape() as tape:
        y = network(*xs)
    tape.backward(y)
    results.append([x.grad.numpy() for x in xs])
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))


def test_transforms_are_those_of_numpy(all_sizes):
    x, t = values(*ROWS, dtype=np.float64), values(*ROWS, dtype=np.float64)
    f = lambda x: mg.gelu(mg.softmax(x)).sum()
    found = [mg.func.grad(f)(x), mg.func.jvp(f, (x,), (t,))[1], mg.func.vmap(mg.func.grad(f))(x)]
    with mg.accelerate(False):
        expected = [
            mg.func.grad(f)(x), mg.func.jvp(f, (x,), (t,))[1], mg.func.vmap(mg.func.grad(f))(x),
        ]  # fmt: skip
    assert_close([np.asarray(y) for y in found], [np.asarray(y) for y in expected])


def test_a_fused_function_is_one_loop_with_its_gradient(all_sizes):
    @mg.fuse
    def f(x, y):
        return x * mg.sigmoid(x) + mg.tanh(y) * mg.exp(-x * x)

    arrays = [values(*ROWS), values(*ROWS)]
    found = run(f, arrays)
    with mg.accelerate(False):
        expected = run(f, arrays)
    assert_close(found, expected)


def test_shapes_that_do_not_fit_are_the_op_s_own_error(all_sizes):
    with pytest.raises(ValueError, match="softmax_dx"):
        op.softmax_dx(values(5, 33), values(1, 33))
    with pytest.raises(ValueError, match="indices"):
        mg.cross_entropy(mg.tensor(values(3, 40)), np.array([0, 40, 1]))


@pytest.mark.parametrize("shape", [(64, 64, 48), (4096, 64)])
def test_a_running_variance_far_below_eps_keeps_its_digits(shape):
    x = values(*shape) * np.float32(1e-5)
    mean, var = np.zeros(64, np.float32), np.ones(64, np.float32)
    with mg.accelerate(process=False):
        mg.batch_norm(mg.tensor(x), mean, var, training=True, momentum=1.0, eps=1e-3)
    exact = x.astype(float).var((0, *range(2, x.ndim)), ddof=1)
    np.testing.assert_allclose(var, exact, rtol=1e-5)


def test_the_gradient_of_a_sum_stays_one_number_until_an_op_needs_all(all_sizes):
    x = mg.tensor(values(*ROWS), requires_grad=True)
    w = mg.tensor(values(*ROWS), requires_grad=True)
    ((x + 1) / 2 + x * w + w).sum().backward()
    with mg.accelerate(False):
        assert_close([x.grad.numpy(), w.grad.numpy()], [w.numpy() + 0.5, x.numpy() + 1])


def test_a_user_may_write_into_such_a_gradient(all_sizes):
    x, w = (mg.tensor(values(*ROWS), requires_grad=True) for _ in range(2))
    ((x + 1) / 2 + w).sum().backward()
    x.grad.data[0] = 7
    assert x.grad.numpy()[1:].tolist() == np.full(ROWS, 0.5)[1:].tolist()
    assert (w.grad.numpy() == 1).all()
