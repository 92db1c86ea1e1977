"""A replay has the bits of the eager run: writes in place, 16-bit numbers, other branches."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import blas
from minigrad.engine.primitive import Primitive

pytestmark = pytest.mark.promise(
    "a replay has the bits of the eager run: writes in place, 16-bit numbers, small recorded inputs"
)


def writes_in_place(write):
    def written(x):
        y = x * 1.0
        write(y, x)
        return y

    return Primitive(written, "written", ["x"])  # an op of nobody's table


WRITES = {
    "copyto": lambda y, x: np.copyto(y, 0, where=x < 0),
    "putmask": lambda y, x: np.putmask(y, x < 0, 0),
    "place": lambda y, x: np.place(y, x < 0, [0]),
    "put": lambda y, x: np.put(y, [0, 1], [7.0, 8.0]),
    "put_along_axis": lambda y, x: np.put_along_axis(y, np.array([[0], [1]]), 5.0, 1),
    "fill_diagonal": lambda y, x: np.fill_diagonal(y, 3.0),
    "nan_to_num": lambda y, x: np.nan_to_num(y, copy=False),
}


@pytest.mark.parametrize("name", WRITES)
def test_functions_that_write_in_place_do_so_in_a_replay(name):
    written = writes_in_place(WRITES[name])
    first, other = np.array([[1.0, -2.0], [np.nan, 4.0]]), np.array([[-5.0, 6.0], [7.0, np.inf]])
    x = mg.tensor(first)
    with mg.Tape() as tape:
        y = written(x)
    program = tape.compile(y, inputs=[x])
    for values in (first, other):
        np.testing.assert_array_equal(program(values), written(mg.tensor(values)).numpy())


def test_smoothed_targets_are_replayed():
    values, target = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]]), np.array([0, 2])
    x = mg.tensor(values, requires_grad=True)
    with mg.Tape() as tape:
        y = mg.cross_entropy(x, target, label_smoothing=0.1)
    value, g = tape.compile(y, inputs=[x], wrt=x)(values)
    y.backward()
    np.testing.assert_array_equal(value, y.numpy())
    np.testing.assert_array_equal(g, x.grad.numpy())


def test_a_number_beside_16_bit_floats_has_16_bits_in_the_replayed_backward():
    values = np.array([1.5, 2.0, 3.0], mg.bfloat16)
    x, g = mg.tensor(values, requires_grad=True), mg.tensor(np.array([1.6, 0.53, 1.7], mg.bfloat16))
    with mg.Tape() as tape:
        y = x * 0.35 * np.ones(3, mg.bfloat16)  # an array from outside, too
    program = tape.compile(y, inputs=[x], wrt=x, grad_outputs=g)
    y.backward(g)
    np.testing.assert_array_equal(program(values)[1], x.grad.numpy())


@pytest.mark.parametrize("operand", [[1.0, 2.0, 3.0], (4, 5, 6), range(3)])
def test_a_list_beside_a_tensor_is_what_it_was_when_it_was_recorded(operand):
    x, given = mg.tensor([1.5, 2.0, 3.0], requires_grad=True), operand
    expected = mg.grad((x * operand).sum(), x).numpy()
    with mg.Tape() as tape:
        y = (x * given).sum()
    if isinstance(given, list):
        given[0] = 100.0
    value, g = tape.compile(y, inputs=[x], wrt=x)(x)
    np.testing.assert_array_equal(value, y.numpy())
    np.testing.assert_array_equal(g, expected)


@pytest.mark.parametrize("name", ["elu", "softplus", "logsigmoid", "sigmoid", "softmax"])
def test_a_small_recorded_input_does_not_choose_the_bits_of_others(name):
    rng, fn = np.random.default_rng(0), getattr(mg, name)
    for a, b in rng.standard_normal((20, 2, 2, 3)).astype(np.float32):
        x = mg.tensor(a, requires_grad=True)
        with mg.Tape() as tape:
            y = (fn(x) * x).sum()
        value, g = tape.compile(y, inputs=[x], wrt=x)(b)
        z = mg.tensor(b, requires_grad=True)
        eager = (fn(z) * z).sum()
        eager.backward()
        np.testing.assert_array_equal(value, eager.numpy())
        np.testing.assert_array_equal(g, z.grad.numpy())


def test_a_replay_rounds_several_scalar_results_as_the_serial_backward_does():
    """NumPy rounds products of complex scalars and of arrays of no axes apart."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
        x = mg.tensor(a, requires_grad=True)
        with mg.Tape() as tape:
            sign, size = mg.linalg.slogdet(x)
            y = 0.3 * sign.real + 0.7 * sign.imag + size
        _, (g,) = tape.compile(y, [x], [x])(a)
        assert g.tobytes() == mg.grad(y, [x])[0].numpy().tobytes()


@pytest.mark.parametrize("shapes", [((16, 784), (128, 784)), ((48, 256), (96, 256))])
def test_products_in_blocks_are_replayed_so_though_ones_would_not_show_it(shapes, monkeypatch):
    """What is traced on ones has the same sums in any order; on other numbers it would not."""
    monkeypatch.setattr(blas, "packs_no_small_factors", lambda: True)

    def f(x, w):
        return (mg.linear(x, w) ** 2).sum()

    def leaves(values):
        return [mg.tensor(values(shape), requires_grad=True) for shape in shapes]

    ones = leaves(lambda shape: np.ones(shape, np.float32))
    with mg.Tape() as tape:
        y = f(*ones)
    program = tape.compile(y, inputs=ones, wrt=ones)
    rng = np.random.default_rng(0)
    xs = leaves(lambda shape: rng.standard_normal(shape, np.float32))
    value, gradients = program(*xs)
    y = f(*xs)
    np.testing.assert_array_equal(value, y.numpy())
    for g, eager in zip(gradients, mg.grad(y, xs), strict=True):
        np.testing.assert_array_equal(g, eager.numpy())


def test_sums_of_many_short_rows_are_replayed_as_they_are():
    x = mg.tensor(np.ones((4096, 10), np.float32), requires_grad=True)
    with mg.Tape() as tape:
        y = (mg.sum(x, axis=0) ** 2).sum()
    program = tape.compile(y, inputs=[x], wrt=x)
    values = np.random.default_rng(0).standard_normal((4096, 10), np.float32)
    t = mg.tensor(values, requires_grad=True)
    y = (mg.sum(t, axis=0) ** 2).sum()
    value, g = program(values)
    np.testing.assert_array_equal(value, y.numpy())
    np.testing.assert_array_equal(g, mg.grad(y, t).numpy())


@pytest.mark.parametrize("rows_first", [True, False])
@pytest.mark.parametrize("size", [(6, 7), (20, 24)])  # of few places, and of a notable number
def test_images_of_both_memory_orders_are_added_up_in_the_order_of_the_eager_run(rows_first, size):
    """Sums of a result go through memory, so they tell in which order it lies."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(shape, dtype=np.float32)
        for shape in ((16, 24, *size), (24, 24, 3, 3), (16, 24, *size))
    ]

    def sums(x, w, rows):
        turned = mg.conv2d(x, w, None, 1, 1)
        y = rows + turned if rows_first else turned + rows
        return (mg.relu(y) * rows).sum((0, 2, 3))

    leaves = [mg.tensor(a, requires_grad=True) for a in arrays]
    values = sums(*leaves)
    expected = [values.numpy(), *[g.numpy() for g in mg.grad(values.sum(), leaves)]]
    with mg.Tape() as tape:
        again = sums(*leaves)
        loss = again.sum()
    found = tape.compile(again, inputs=leaves)(*arrays)
    _, gradients = tape.compile(loss, inputs=leaves, wrt=leaves)(*arrays)
    for one, other in zip([found, *gradients], expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shapes", [((4,), (4, 5)), ((2, 3), (3,)), ((4, 1), (1, 5))])
def test_products_of_complex_matrices_are_replayed_with_the_eager_bits(shapes):
    """Of one column np.matmul and dot round apart, which some values show and others do not."""
    rng = np.random.default_rng(0)

    def loss(a, b, g):
        y = (a @ b) * g
        return (y.real + y.imag).sum()

    def drawn():
        of = [*shapes, (np.ones(shapes[0]) @ np.ones(shapes[1])).shape]
        return [rng.standard_normal(n) + 1j * rng.standard_normal(n) for n in of]

    # recorded with values of which both round alike
    ones = [np.ones_like(x) for x in drawn()]
    xs = [mg.tensor(x, requires_grad=i < 2) for i, x in enumerate(ones)]
    with mg.Tape() as tape:
        y = loss(*xs)
    replay = tape.compile(y, xs, xs[:2])
    for _ in range(40):
        values = drawn()
        _, replayed = replay(*values)
        leaves = [mg.tensor(x, requires_grad=i < 2) for i, x in enumerate(values)]
        eager = mg.grad(loss(*leaves), leaves[:2])
        for one, other in zip(replayed, eager, strict=True):
            assert one.tobytes() == other.numpy().tobytes()


VIEWS = {
    "reversed": lambda x: x[..., ::-1],
    "reversed rows": lambda x: x[::-1],
    "every second": lambda x: x[..., ::2],
    "rows of a wider": lambda x: x[..., 1:],
    "transposed": lambda x: x.T,
    "transposed and reversed": lambda x: x.T[..., ::-1],
    "one row in every row": lambda x: mg.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (5, 7), (7,)])
@pytest.mark.parametrize("view", VIEWS)
def test_products_of_views_are_replayed_with_the_eager_bits(view, shape):
    """dot copies what BLAS does not take; np.matmul multiplies it by itself, and rounds apart."""
    rng = np.random.default_rng(0)
    n = VIEWS[view](mg.ones(shape)).shape

    def results(a, b, c, d, e):
        seen = VIEWS[view](a)
        ys = [b @ seen, seen @ c]
        return [*ys, mg.linear(d, seen), mg.linear(e, seen)] if seen.ndim == 2 else ys

    def drawn():
        of = [shape, n[:1], n[-1:], n[-1:], (2, 3, n[-1])]
        return [rng.standard_normal(s) for s in of]

    xs = [mg.tensor(x, requires_grad=True) for x in drawn()]
    with mg.Tape() as tape:
        ys = results(*xs)
    used = xs if len(n) == 2 else xs[:3]
    seeds = [mg.tensor(rng.standard_normal(y.shape)) for y in ys]
    replay = tape.compile(ys, used, used, seeds)
    for _ in range(20):
        values = drawn()
        found, gradients = replay(*values[: len(used)])
        leaves = [mg.tensor(x, requires_grad=True) for x in values]
        eager = results(*leaves)
        expected = [*eager, *mg.grad(eager, leaves[: len(used)], seeds)]
        for i, (one, other) in enumerate(zip([*found, *gradients], expected, strict=True)):
            assert one.tobytes() == other.numpy().tobytes(), i
