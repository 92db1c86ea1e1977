"""A compiled tape runs the recorded program on new inputs, with the bits of the eager run."""

import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.engine import graph
from minigrad.engine.primitive import Primitive

pytestmark = pytest.mark.promise(
    "a replay has the eager bits and makes no tensor, or refuses (K13)"
)


def arrays(*shapes, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(shape) * 0.5).astype(dtype) for shape in shapes]


def leaves(xs):
    return [mg.tensor(x, requires_grad=True) for x in xs]


def eager(fn, xs):
    """(value, gradients) as arrays."""
    tensors = leaves(xs)
    y = fn(*tensors)
    return y.detach().data, [g.data for g in mg.grad(y, tensors)]


def compiled(fn, xs, **options):
    tensors = leaves(xs)
    with mg.Tape() as tape:
        y = fn(*tensors)
    return tape.compile(y, tensors, tensors, **options)


def agree(fn, shapes, dtype=np.float64):
    """Replays on three other inputs give the bits of eager runs; returns the program."""
    program = compiled(fn, arrays(*shapes, dtype=dtype))
    for seed in (1, 2, 3):
        xs = arrays(*shapes, seed=seed, dtype=dtype)
        value, gs = program(*xs)
        wanted, wanted_gs = eager(fn, xs)
        assert value.tobytes() == wanted.tobytes() and value.dtype == wanted.dtype
        for g, wanted_g in zip(gs, wanted_gs, strict=True):
            assert g.tobytes() == wanted_g.tobytes() and g.dtype == wanted_g.dtype
            assert type(g) is np.ndarray
    return program


def products(x, b):
    for _ in range(100):
        x = x * b
    return x.sum()


def layers(x, w):
    for _ in range(10):
        x = np.tanh(x @ w)
    return x.sum()


# -- the same bits -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex128])
def test_chains_of_small_ops(dtype):
    with np.errstate(all="ignore"):  # 100 products overflow in float16: the same bits all the same
        agree(lambda x, b: abs(products(x, b)), [(8, 8), (8, 8)], dtype)
        agree(lambda x, w: abs(layers(x, w)), [(8, 8), (8, 8)], dtype)


def test_numbers_without_axes():
    """NumPy's scalars have a ** of their own, whose last bit is not that of its arrays."""
    for x in np.random.default_rng(0).uniform(0.1, 2.0, (300, 2)):
        agree_at(lambda a, b: (a * a + 1.0) ** b, list(x))
        agree_at(lambda a, b: (a * a.sum() + 1.0) ** (b * b), list(x))


def test_sums_of_gradients_keep_the_layout_of_the_first():
    """A sum over all of a gradient adds in the order in which it lies in memory."""

    def mixed(x):
        a = x.T * 2.0 + np.tanh(x).sum()  # in Fortran's order
        rows = [a[0], a[1]]  # their gradients are in C's order, and come after that of sin
        return np.sin(a).sum() + sum(np.sin(row).sum() for row in rows)

    for seed in range(40):
        agree_at(mixed, arrays((4, 5), seed=seed))


def agree_at(fn, xs):
    xs = [np.asarray(x) for x in xs]
    value, gs = compiled(fn, xs)(*xs)
    wanted, wanted_gs = eager(fn, xs)
    assert [y.tobytes() for y in (value, *gs)] == [y.tobytes() for y in (wanted, *wanted_gs)]


def test_bfloat16():
    agree(lambda x, w: layers(x * 2.0, w), [(8, 8), (8, 8)], mg.bfloat16)


def test_a_network_with_a_loss():
    labels = np.array([0, 2, 1, 1])

    def fn(x, w, b, gamma):
        h = mg.layer_norm(mg.linear(x, w, b), (3,), gamma)
        h = mg.softmax(h) * mg.gelu(h) + mg.logsumexp(h, axis=-1, keepdims=True)
        return mg.cross_entropy(h, labels)

    agree(fn, [(4, 5), (3, 5), (3,), (3,)])


def test_convolution_pooling_indexing_and_linear_algebra():
    def fn(x, w):
        h = mg.max_pool2d(mg.conv2d(x, w, padding=1), 2)
        u, s, vt = mg.linalg.svd(h[0, 0])
        return (s * np.flip(s)).sum() + mg.concatenate([u, vt]).sum() + h[:, [1, 0]].mean()

    agree(fn, [(1, 2, 8, 8), (2, 2, 3, 3)])


def test_several_outputs_in_the_form_that_was_asked_for():
    x, w = leaves(arrays((3,), (3,)))
    with mg.Tape() as tape:
        a, b = x * w, np.exp(x).sum()
    new = arrays((3,), (3,), seed=1)
    first, second = tape.compile([a, b], [x, w])(*new)
    np.testing.assert_array_equal(first, new[0] * new[1])
    np.testing.assert_array_equal(second, np.exp(new[0]).sum())
    value, g = tape.compile(b, [x], wrt=x)(new[0])
    np.testing.assert_array_equal(g, np.exp(new[0]))
    np.testing.assert_array_equal(value, second)


def test_gradients_of_inner_tensors_and_of_parameters_that_are_no_inputs():
    x, w = leaves(arrays((3,), (3,)))
    with mg.Tape() as tape:
        h = x * w
        y = (h * h).sum()
    program = tape.compile(y, [x], wrt=[h, w])
    (new,) = arrays((3,), seed=4)
    for _ in range(2):
        _, (gh, gw) = program(new)
        np.testing.assert_array_equal(gh, 2 * (new * w.data))
        np.testing.assert_array_equal(gw, gh * new)
        w.data *= 2  # a step of an optimizer, in place: the next call sees it


def test_cotangents_may_be_inputs():
    x, v = leaves(arrays((3,)))[0], mg.tensor(np.ones(3))
    with mg.Tape() as tape:
        y = np.exp(x) + 0 * v
    program = tape.compile(y, [x, v], wrt=x, grad_outputs=[v])
    new, cotangent = arrays((3,), (3,), seed=5)
    np.testing.assert_array_equal(program(new, cotangent)[1], cotangent * np.exp(new))


def test_inputs_without_a_gradient_and_detached_values():
    (x,) = leaves(arrays((4,)))
    data = mg.tensor(np.arange(4.0))
    with mg.Tape() as tape:
        scale = np.sqrt(data + 1)
        y = (x * scale * x.detach()).sum()
    program = tape.compile(y, [x, data], wrt=x)
    new, other = arrays((4,), seed=6)[0], np.arange(4.0)[::-1].copy()
    np.testing.assert_array_equal(program(new, other)[1], new * np.sqrt(other + 1))


def test_an_index_that_was_computed_is_computed_again():
    def fn(x):
        return (x[np.argsort(x)] * mg.tensor(np.arange(5.0))).sum()

    agree(fn, [(5,)])


def test_checkpoints_and_transforms():
    def fn(x):
        h = mg.checkpoint(lambda x: np.tanh(np.exp(x) * x), x)
        return (mg.func.grad(lambda h: (h**3).sum())(h) * h).sum()

    agree(fn, [(4,)])


def test_the_casts_of_autocast_are_on_the_tape():
    def fn(x, w):
        with mg.autocast(dtype="bfloat16"):
            h = np.tanh(x @ w)
        return (h.astype("float32") ** 2).sum()

    agree(fn, [(4, 4), (4, 4)], np.float32)


def test_it_can_be_compiled_after_the_graph_was_released():
    x, w = leaves(arrays((3, 3), (3, 3)))
    with mg.Tape() as tape:
        y = layers(x, w)
    y.backward()
    value, g = tape.compile(y, [x, w], wrt=w)(x.data, w.data)
    assert value.tobytes() == y.detach().data.tobytes() and g.tobytes() == w.grad.data.tobytes()


def test_random_ops_draw_anew_and_leave_the_generators_to_the_user():
    (x,) = leaves([np.ones(200)])
    with mg.Tape() as tape:
        y = mg.dropout(x, 0.5)
        loss = (y * y).sum()
    before = mg.generator().bit_generator.state
    program = tape.compile([y, loss], [x], wrt=x, grad_outputs=[np.ones(200), np.ones(())])
    assert mg.generator().bit_generator.state == before
    mg.manual_seed(3)
    (first, _), g = program(x.data)
    (second, _), _ = program(x.data)
    assert (first != second).any()
    mg.manual_seed(3)
    wanted = mg.dropout(x, 0.5)
    assert first.tobytes() == wanted.detach().data.tobytes()
    assert ((g != 0) == (first != 0)).all()


OPS = [
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: np.tanh(a) - b,
    lambda a, b: a @ b,
    lambda a, b: a.T,
    lambda a, b: a / (b * b + 1.0),
    lambda a, b: a**2 + 1.0,
    lambda a, b: mg.concatenate([a[:1], b[1:]]),
    lambda a, b: mg.linalg.qr(a + 3 * np.eye(3))[0] * b,
    lambda a, b: a.detach() * b.sum(axis=0),
    lambda a, b: np.where(a > b, a, b * 0.5),
    lambda a, b: mg.softmax(a) * b.mean(),
    lambda a, b: np.real(a) * b[0, 1],
]


def program_of(steps):
    def fn(*xs):
        values = list(xs)
        for op, i, j in steps:
            values.append(OPS[op](values[i % len(values)], values[j % len(values)]))
        return sum(value.sum() for value in [*xs, *values[-3:]])

    return fn


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, len(OPS) - 1), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=12,
    )
)
def test_random_programs(steps):
    with np.errstate(all="ignore"):
        agree(program_of(steps), [(3, 3)] * 3)


# -- what it leaves alone ----------------------------------------------------------------------


def test_no_tensor_and_no_node_is_made_while_it_runs():
    xs = arrays((8, 8), (8, 8))
    program = compiled(layers, xs)
    made = []

    def note_makers(frame, event, argument):
        if event == "c_call" and argument is object.__new__:
            made.append("a tensor")
        called, self = frame.f_code.co_name, frame.f_locals.get("self")
        if event == "call" and (
            called in ("general", "__init__") or (called, self) == ("apply", None)
        ):
            made.append(self or frame.f_code)

    def made_by(call):
        made.clear()
        number = graph.next_number()
        sys.setprofile(note_makers)
        try:
            call()
        finally:
            sys.setprofile(None)
        return made, graph.next_number() - number

    assert made_by(lambda: program(*xs)) == ([], 1)
    w = mg.tensor(xs[1], requires_grad=True)
    assert "a tensor" in made_by(lambda: w * w)[0]  # which it would have seen


def test_results_are_the_users_own():
    xs = arrays((4, 4), (4, 4))
    program = compiled(lambda x, w: x @ w, xs, grad_outputs=[np.ones((4, 4))])
    value, gs = program(*xs)
    kept = [value.copy(), *[g.copy() for g in gs]]
    program(*arrays((4, 4), (4, 4), seed=9))
    for mine, before in zip([value, *gs], kept, strict=True):
        np.testing.assert_array_equal(mine, before)
    held = [value, *gs, *xs]
    for i, a in enumerate(held):
        assert all(not np.may_share_memory(a, b) for b in held[i + 1 :])
    again = program(*xs)[0]
    value[:] = gs[0][:] = 7  # writing into results spoils nothing
    assert program(*xs)[0].tobytes() == again.tobytes()


def test_without_copies_the_buffers_themselves_come_out():
    xs = arrays((4, 4), (4, 4))
    program = compiled(lambda x, w: x @ w, xs, grad_outputs=[np.ones((4, 4))], copy=False)
    value, _ = program(*xs)
    other, _ = program(*arrays((4, 4), (4, 4), seed=9))
    assert value is other


def test_a_gradient_that_is_an_input_or_a_constant_is_a_copy_all_the_same():
    x, w = leaves(arrays((3,), (3,)))
    with mg.Tape() as tape:
        y = (x * w).sum()
    for copy in (True, False):
        _, (gx, gw) = tape.compile(y, [x], wrt=[x, w], copy=copy)(x.data)
        gx[:] = 100
        assert (w.data != 100).all() and gw.tobytes() == x.data.tobytes()


def test_an_op_that_returns_an_array_it_keeps_can_be_replayed():
    zeros, ones = np.zeros(3), np.ones(3)
    stairs = Primitive(lambda x: ones, "stairs", ["x"])
    stairs.vjp("x")(lambda g, x: zeros)
    x, w = leaves(arrays((3,), (3,)))
    with mg.Tape() as tape:
        y = (stairs(x) * w).sum()
    value, (gx, gw) = tape.compile(y, [x, w], wrt=[x, w])(x.data, w.data)
    assert value == w.data.sum()
    assert gx.tolist() == [0, 0, 0] and gw.tolist() == [1, 1, 1]


def test_buffers_are_used_again():
    def fn(x):
        for _ in range(50):
            x = x + 1.0
        return x

    (x,) = leaves(arrays((100,)))
    with mg.Tape() as tape:
        y = fn(x)
    program = tape.compile(y, [x])
    assert len(program) == 50 and program.nbytes <= 3 * 800


def test_the_calls_can_be_read():
    program = compiled(lambda x, w: np.tanh(x @ w).sum(), arrays((2, 2), (2, 2)))
    text = str(program)
    assert "b0 = matmul(i0, i1)" in text and "b1 = tanh(b0)" in text
    assert f"{len(program)} calls" in repr(program)


def test_threads_take_turns():
    xs = arrays((16, 16), (16, 16))
    program = compiled(layers, xs)
    wanted = [eager(layers, arrays((16, 16), (16, 16), seed=i))[0] for i in range(4)]
    wrong = []

    def run(i):
        mine = arrays((16, 16), (16, 16), seed=i)
        for _ in range(50):
            if program(*mine)[0].tobytes() != wanted[i].tobytes():
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
