"""The tape: a flat list of what ran; its backward gives the bits of the serial engine."""

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.engine import modes
from minigrad.engine.errors import GraphReleasedError, InPlaceError
from minigrad.engine.graph import Leaf, backward_order
from minigrad.errors import TapeError

pytestmark = pytest.mark.promise(
    "the tape gives the serial engine's bits, order and hooks; it can be read, bounded (K13)"
)


def leaf(*values, shape=None, seed=0):
    if shape is not None:
        values = np.random.default_rng(seed).standard_normal(shape)
    return mg.tensor(values, requires_grad=True)


def network(x, w):
    """Several consumers, several outputs, residuals, a view, a constant."""
    h = np.tanh(x @ w)
    u, s, vt = mg.linalg.svd(h)
    p = mg.max_pool2d(h.reshape(1, 1, 4, 4), 2).reshape(-1)
    return (u * s).sum() + (vt[0] * h[1]).sum() + (p * 2.0).sum() + (h**2).mean()


def same(a, b):
    a, b = ([p if p is None else p.data.tobytes() for p in ps] for ps in (a, b))
    return a == b


def recorded(fn, *xs):
    with mg.Tape() as tape:
        return tape, fn(*xs)


# -- the same bits -----------------------------------------------------------------------------


def test_the_gradients_have_the_bits_of_the_serial_engine():
    x, w = leaf(shape=(4, 4)), leaf(shape=(4, 4), seed=1)
    tape, y = recorded(network, x, w)
    serial = mg.grad(y, [x, w], retain_graph=True)
    assert same(serial, tape.grad(y, [x, w], retain_graph=True))
    assert same(serial, mg.grad(y, [x, w], engine="tape", retain_graph=True))
    assert same(serial, mg.grad(y, [x, w], engine=tape))


def test_the_order_is_that_of_the_graph_walk():
    x, w = leaf(shape=(4, 4)), leaf(shape=(4, 4), seed=1)
    tape, y = recorded(network, x, w)
    assert tape.order({y.node: None}) == backward_order([y.node])


def test_backward_adds_to_grad_and_accumulates():
    x = leaf(1.0, 2.0)
    tape, y = recorded(lambda x: (x * x).sum(), x)
    tape.backward(y, retain_graph=True)
    y.backward(engine="tape")
    assert x.grad.tolist() == [4.0, 8.0]


def test_several_roots_and_cotangents():
    x = leaf(1.0, 2.0)
    tape, (a, b) = recorded(lambda x: (x * x, np.exp(x)), x)
    seeds = [np.array([1.0, 3.0]), np.array([2.0, 5.0])]
    serial = mg.grad([a, b], [x], seeds, retain_graph=True)
    assert same(serial, tape.grad([a, b], [x], seeds))


def test_inner_tensors_unused_ones_and_leaf_roots():
    x, w, unused = leaf(1.0), leaf(2.0), leaf(3.0)
    with mg.Tape() as tape:
        h = x * w
        y = (h * h).sum()
    serial = mg.grad(y, [h, x, unused], allow_unused=True, retain_graph=True)
    assert same(serial, tape.grad(y, [h, x, unused], allow_unused=True, retain_graph=True))
    with pytest.raises(ValueError, match=r"inputs\[0\]"):
        tape.grad(y, [unused], retain_graph=True)
    tape.backward([x, y], [np.ones(1), np.ones(())])
    assert x.grad.item() == 1 + 8 and unused.grad is None


def deposits(engine):
    """In which order leaves that are roots themselves receive their gradients."""
    heard = []
    xs = [leaf(float(i)) for i in range(4)]
    with mg.Tape() as tape:
        y = (xs[1] * 2).sum()
    for i, x in enumerate(xs):
        x.register_post_accumulate_grad_hook(lambda x, i=i: heard.append(i))
    roots = [xs[2], y, xs[0], xs[3]]
    mg.backward(roots, [np.ones(1), None, np.ones(1), np.ones(1)], engine=engine or tape)
    return heard


def test_leaves_that_are_roots_come_in_the_same_order():
    assert deposits("serial") == deposits("tape") == deposits(None)


def test_only_the_named_leaves_receive_a_gradient():
    x, w = leaf(1.0), leaf(2.0)
    tape, y = recorded(lambda x, w: (x * w).sum(), x, w)
    tape.backward(y, inputs=[w])
    assert x.grad is None and w.grad.item() == 1.0


def test_gradients_maps_every_tensor():
    x = leaf(1.0, 2.0)
    with mg.Tape() as tape:
        h = x * x
        y = h.sum()
    found = mg.gradients(y, engine=tape)
    assert found[h].tolist() == [1, 1] and found[x].tolist() == [2, 4]


def test_derivatives_of_derivatives_are_recorded_too():
    x = leaf(0.5, 2.0)
    with mg.Tape() as tape:
        y = (np.sin(x) * x**3).sum()
    g = tape.grad(y, x, create_graph=True)
    with tape:
        s = g.sum()
    plain = mg.grad(mg.grad((np.sin(x) * x**3).sum(), x, create_graph=True).sum(), x)
    assert same([plain], [tape.grad(s, x)])


def heard_hooks(engine):
    heard = []
    x, w = leaf(1.0), leaf(2.0)
    with mg.Tape():
        h = x * w
        y = (h * x).sum()
        h.register_hook(lambda g: (heard.append(("h", g.item())), g * 3)[1])
        h.retain_grad()
        h.grad_fn.register_hook(lambda into, out: heard.append(("node", out[0].item())))
        x.register_hook(lambda g: heard.append(("x", g.item())))
        x.register_leaf_ready_hook(lambda leaf: heard.append(("ready", leaf.grad.item())))
        w.register_post_accumulate_grad_hook(lambda leaf: heard.append(("w", leaf.grad.item())))
        y.backward(engine=engine)
    return [*heard, ("retained", h.grad.item())]


def test_hooks_run_with_the_same_values_in_the_same_order():
    heard = heard_hooks("tape")
    assert heard == heard_hooks("serial") and len(heard) == 6
    assert dict(heard)["x"] == 2 + 3 * 2.0


def test_recorded_changes_in_place_are_ops_on_the_tape():
    x = leaf(1.0, 2.0, 3.0)
    with mg.Tape() as tape:
        h = x * 2
        h[1] = x[0]
        h += x
        y = (h * h).sum()
    assert [entry.op.name for entry in tape] == ["mul", "getitem", "setitem", "add", "mul", "sum"]
    assert same(mg.grad(y, [x], retain_graph=True), tape.grad(y, [x]))


def test_checkpoints_and_saved_tensor_hooks():
    x, w = leaf(shape=(4, 4)), leaf(shape=(4, 4), seed=1)

    def fn(x, w):
        h = mg.checkpoint(lambda x: np.tanh(np.exp(x) @ w), x)
        with mg.saved_tensors_hooks(lambda t: t.numpy().copy(), mg.tensor):
            return (h * np.sin(h)).sum()

    plain = mg.grad(fn(x, w), [x, w])
    tape, y = recorded(fn, x, w)
    length = len(tape)
    with tape:  # what a checkpoint computes again is not recorded
        assert same(plain, tape.grad(y, [x, w]))
    assert len(tape) == length


# -- refusals ----------------------------------------------------------------------------------


def test_a_second_backward_says_so():
    x = leaf(1.0)
    tape, y = recorded(lambda x: (x * x).sum(), x)
    tape.backward(y)
    with pytest.raises(GraphReleasedError, match="retain_graph=True"):
        tape.backward(y)


def test_a_released_branch_does_not_hinder_another():
    x = leaf(2.0)
    with mg.Tape() as tape:
        a, b = (x * x).sum(), (x * 3.0).sum()
    tape.backward(a)
    tape.backward(b)
    assert x.grad.item() == 7.0


def test_a_changed_saved_array_is_an_error():
    x, c = leaf(1.0), mg.tensor([2.0])
    tape, y = recorded(lambda x: (x * c).sum(), x)
    c += 1
    with pytest.raises(InPlaceError, match="mul"):
        tape.backward(y)


def test_a_result_that_no_tape_recorded():
    x = leaf(1.0)
    with pytest.raises(TapeError, match="with mg.Tape"):
        (x * x).sum().backward(engine="tape")
    with mg.Tape() as tape:
        pass
    with pytest.raises(TapeError, match="root of this backward"):
        tape.backward((x * x).sum())


def test_a_forward_that_began_before_the_tape():
    x = leaf(1.0)
    h = x * 2
    with mg.Tape() as tape:
        y = (h * h).sum()
    with pytest.raises(TapeError, match="which the result depends on"):
        tape.backward(y)
    assert x.grad is None


def test_unknown_engines_are_named():
    with pytest.raises(ValueError, match="'tape'"):
        leaf(1.0).sum().backward(engine="band")


# -- recording ---------------------------------------------------------------------------------


def test_a_tape_is_a_sequence_of_entries():
    x = leaf(1.0, 2.0)
    c = mg.tensor([3.0, 4.0])
    with mg.Tape() as tape:
        a = x * c
        b = np.exp(c)
        (a + b).sum(axis=0, keepdims=True)
    assert len(tape) == 4 and tape[-1].params["keepdims"] is True
    assert [entry.op.name for entry in tape] == ["mul", "exp", "add", "sum"]
    first, second, third, _ = tape
    assert first.inputs[0].tensor is x and first.inputs[1].tensor is None
    assert third.inputs == (first.outputs[0], second.outputs[0])
    assert (first.node, second.node) == (a.node, None) and first.pattern == 1
    assert first.outputs[0].shape == (2,) and first.site["file"] == __file__


def test_nothing_is_recorded_outside_or_by_another_thread():
    x = leaf(1.0)
    with mg.Tape() as tape:
        other = threading.Thread(target=lambda: x * 2)
        other.start()
        other.join()
    x * 3
    assert len(tape) == 0 and tape and modes.active == 0 and modes.state.tapes == ()


def test_it_ends_with_an_exception_and_goes_on_when_entered_again():
    x, tape = leaf(1.0), mg.Tape()
    with pytest.raises(KeyError), tape:
        x * 2
        raise KeyError
    with tape:
        x * 3
        with pytest.raises(TapeError, match="records already"), tape:
            pass
    assert len(tape) == 2 and modes.state.tapes == ()
    tape.clear()
    assert len(tape) == 0


def test_nested_tapes_both_record():
    x = leaf(1.0)
    with mg.Tape() as outer:
        h = x * 2
        with mg.Tape() as inner:
            y = h.detach().requires_grad_() * 3
    assert (len(outer), len(inner)) == (2, 1)
    assert y.node in {entry.node for entry in inner}


def test_under_no_grad_ops_are_written_down_without_a_node():
    with mg.Tape() as tape, mg.no_grad():
        y = leaf(1.0) * 2
    assert tape[0].node is None and not y.requires_grad


def test_transforms_inside_are_recorded_where_they_meet_arrays():
    x = leaf(0.5, 1.5)
    fn = mg.func.grad(lambda x: (np.sin(x) * x).sum())
    tape, y = recorded(lambda x: (fn(x) * 2).sum(), x)
    assert same(mg.grad(y, [x], retain_graph=True), tape.grad(y, [x]))


def test_memory_goes_with_the_backward_and_the_rest_with_the_tape():
    x = leaf(shape=(10,))
    with mg.Tape() as tape:
        h = np.exp(x)
        y = (h * h).sum()
    array, node = weakref.ref(h.data), weakref.ref(y.node)
    del h
    tape.backward(y)
    assert array() is None
    del y, tape
    gc.disable()
    try:
        assert node() is None  # no reference cycle
    finally:
        gc.enable()


def test_an_array_in_the_place_of_a_dead_one_is_not_mistaken_for_it():
    with mg.Tape() as tape:
        for _ in range(50):
            (mg.tensor(np.ones(3)) * 2).sum()  # memory and ids are used again and again
    for mul, total in zip(tape[::2], tape[1::2], strict=True):
        assert total.inputs[0] is mul.outputs[0]
        assert type(mul.inputs[0]).__name__ == "Outside"


DEEP = """
import minigrad as mg
x = mg.tensor([1.0], requires_grad=True)
with mg.Tape() as tape:
    y = x
    for _ in range(200_000):
        y = y + 1.0
    y = y.sum()
text = str(tape)
assert len(text) < 20_000
tape.backward(y)
assert x.grad.tolist() == [1.0]
del y, tape
print("done")
"""


def test_a_tape_of_two_hundred_thousand_ops():
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-500:]


# -- random programs ---------------------------------------------------------------------------

OPS = [
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: np.tanh(a) - b,
    lambda a, b: a @ b,
    lambda a, b: mg.concatenate([a[:1], b[1:]]),
    lambda a, b: mg.linalg.qr(a)[0] * b,
    lambda a, b: mg.checkpoint(lambda a: np.sin(a) * np.cos(a), a) + b,
    lambda a, b: a.detach() * b.T,
    lambda a, b: np.where(a > b, a, b * 0.5),
]


def program(steps, xs):
    values = list(xs)
    for op, i, j in steps:
        values.append(OPS[op](values[i % len(values)], values[j % len(values)]))
    return sum(value.sum() for value in values[-3:])


steps = st.lists(
    st.tuples(st.integers(0, len(OPS) - 1), st.integers(0, 50), st.integers(0, 50)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(steps)
def test_random_programs_have_the_bits_of_the_serial_engine(steps):
    xs = [leaf(shape=(3, 3), seed=i) for i in range(3)]
    with np.errstate(all="ignore"):
        tape, y = recorded(program, steps, xs)
        if not y.requires_grad:
            return
        assert tape.order({y.node: None}) == backward_order([y.node])
        serial = mg.grad(y, xs, retain_graph=True, allow_unused=True)
        assert same(serial, tape.grad(y, xs, allow_unused=True))


def test_every_leaf_stands_behind_its_last_consumer():
    x, w = leaf(1.0), leaf(2.0)
    with mg.Tape() as tape:
        a = x * 2
        b = a * w
        y = (b * w).sum()
    order = tape.order({y.node: None})
    assert [vertex.__class__ is Leaf for vertex in order].index(True) == order.index(b.node) + 1
