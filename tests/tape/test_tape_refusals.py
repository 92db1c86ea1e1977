"""A compiled tape refuses what it could not repeat, and says what to do."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import modes
from minigrad.errors import TapeError


def arrays(*shapes, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(shape) * 0.5).astype(dtype) for shape in shapes]


def leaves(xs):
    return [mg.tensor(x, requires_grad=True) for x in xs]


def compiled(fn, xs, **options):
    tensors = leaves(xs)
    with mg.Tape() as tape:
        y = fn(*tensors)
    return tape.compile(y, tensors, tensors, **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.ones((2, 3))], "takes 2 inputs, got 1"),
        ([np.ones((3, 2)), np.ones((2, 2))], r"inputs\[0\] is float64 \(3, 2\), it was"),
        ([np.ones((2, 2), np.float32), np.ones((2, 2))], r"inputs\[0\] is float32"),
        ([[[1.0, 2.0]], np.ones((2, 2))], r"inputs\[0\]"),
    ],
)
def test_other_shapes_and_dtypes(given, message):
    program = compiled(lambda x, w: (x @ w).sum(), arrays((2, 2), (2, 2)))
    with pytest.raises(TapeError, match=message):
        program(*given)


def test_hooks_are_refused():
    (x,) = leaves([np.ones(2)])
    with mg.Tape() as tape:
        h = x * x
        y = h.sum()
    with h.register_hook(lambda g: None), pytest.raises(TapeError, match="hooks"):
        tape.compile(y, [x], wrt=x)
    tape.compile(y, [x], wrt=x)


def test_saved_tensor_hooks_are_refused():
    (x,) = leaves([np.ones(2)])
    with mg.Tape() as tape, mg.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = (x * x).sum()
    with pytest.raises(TapeError, match="saved_tensors_hooks"):
        tape.compile(y, [x], wrt=x)


class Twice(mg.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_call_of_a_function_is_refused_with_what_to_do():
    (x,) = leaves([np.ones(2)])
    with mg.Tape() as tape:
        h = Twice.apply(x * 3)
        y = (h * h).sum()
    with pytest.raises(TapeError, match=r"mg\.Function Twice.*Write it as an op \(mg\.primitive\)"):
        tape.compile(y, [x], wrt=x)


def test_what_comes_after_a_function_can_be_compiled_with_its_result_as_an_input():
    (x,) = leaves([np.ones(2)])
    h = Twice.apply(x).detach().requires_grad_()
    with mg.Tape() as tape:
        y = (h * h).sum()
    value, g = tape.compile(y, [h], wrt=h)(np.array([1.0, 3.0]))
    assert value == 10 and g.tolist() == [2, 6]


def test_a_function_that_the_outputs_do_not_need_is_no_hindrance():
    (x,) = leaves([np.ones(2)])
    with mg.Tape() as tape:
        y = (x * x).sum()
        Twice.apply(x)
    assert tape.compile(y, [x])(np.full(2, 3.0)) == 18


def test_writes_in_place_are_refused():
    x, c = mg.tensor([1.0], requires_grad=True), mg.tensor([1.0])
    with mg.Tape() as tape:
        c += 1
        y = x * c
        with pytest.raises(TapeError, match="written in place"):
            tape.compile(y, [x])
    with pytest.raises(TapeError, match="written in place"):
        tape.compile(y, [x])


@pytest.mark.parametrize("of_the_tape", [False, True])
def test_writes_of_another_thread_are_refused_where_the_tape_uses_the_memory(of_the_tape):
    (x,), c, other = leaves([[1.0, 2.0]]), mg.tensor([1.0, 1.0]), mg.tensor([1.0])
    memory = c[1:] if of_the_tape else other  # a view made before the tape

    def write():
        with mg.no_grad():
            memory[...] = 3.0

    with mg.Tape() as tape:
        y = (x * c).sum()
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    if of_the_tape:
        with pytest.raises(TapeError, match="written in place"):
            tape.compile(y, [x])
    else:
        assert tape.compile(y, [x])(np.array([3.0, 4.0])) == 7


def test_a_view_of_an_input_made_outside_is_refused():
    (x,) = leaves([np.ones((2, 2))])
    with mg.Tape() as tape:
        y = x * x.numpy()[0]
    with pytest.raises(TapeError, match=r"a view of inputs\[0\]"):
        tape.compile(y, [x])


def test_inputs_that_are_none():
    x, other = leaves([np.ones(2), np.ones(2)])
    with mg.Tape() as tape:
        h = x * 2
        y = h * 3
    with pytest.raises(TapeError, match=r"inputs\[1\].*was not used on the tape"):
        tape.compile(y, [x, other])
    with pytest.raises(TapeError, match="was made on the tape"):
        tape.compile(y, [h])
    with pytest.raises(TapeError, match="was not made on this tape"):
        tape.compile(other * 2, [x])


def test_a_gradient_that_does_not_exist():
    x, w = leaves([np.ones(2), np.ones(2)])
    with mg.Tape() as tape:
        y = (x * 2).sum()
        w * 2
    with pytest.raises(ValueError, match="allow_unused=True"):
        tape.compile(y, [x], wrt=[x, w])
    _, (_, gw) = tape.compile(y, [x], wrt=[x, w], allow_unused=True)(np.ones(2))
    assert gw is None


def test_shapes_that_depend_on_values():
    (x,) = leaves([np.array([1.0, -1.0, 2.0])])
    with mg.Tape() as tape:
        y = x[x > 0].sum()
    program = tape.compile(y, [x], wrt=x)
    assert program(np.array([-1.0, 3.0, 4.0]))[0] == 7.0
    with pytest.raises(TapeError, match="its shape depends on values"):
        program(np.array([1.0, 3.0, 4.0]))
    assert program(np.array([-1.0, 3.0, 4.0]))[0] == 7.0


def test_a_leaf_that_was_given_another_array():
    x, w = leaves([np.ones(2), np.ones(2)])
    with mg.Tape() as tape:
        y = x * w
    program = tape.compile(y, [x])
    w.data = np.zeros(2)
    with pytest.raises(TapeError, match="another array"):
        program(np.ones(2))


def test_nothing_stays_switched_on():
    compiled(lambda x, w: np.tanh(x @ w).sum(), arrays((2, 2), (2, 2)))
    assert modes.active == 0 and modes.state.tapes == ()
