"""Errors hold what they speak of, for programs; and keep it on the way between processes."""

import inspect
import pickle
import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import errors as error_types
from minigrad import nn
from minigrad.backends.device import DeviceError, ErrorAbout, OperandError
from minigrad.nn.state import PathError

pytestmark = pytest.mark.promise(
    "every error of the engine holds what it speaks of, also when it comes from another process"
)


def leaf(*shape, dtype="float64"):
    return mg.tensor(np.ones(shape, dtype), requires_grad=True)


def raised(kind, call):
    with pytest.raises(kind) as caught:
        call()
    again = pickle.loads(pickle.dumps(caught.value))
    kept = {k: v for k, v in vars(caught.value).items() if k not in ("sessions", "inside")}
    assert str(again) == str(caught.value)
    assert {k: vars(again)[k] for k in kept} == kept, "they are pickled with it"
    return caught.value


def about(error, *names):
    return tuple([getattr(error, name) for name in names])


ALL = [
    kind
    for kind in [*vars(error_types).values(), DeviceError, OperandError, PathError]
    if inspect.isclass(kind) and issubclass(kind, ErrorAbout)
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_can_be_made_of_a_message_alone_and_refuses_other_attributes(kind):
    error = kind("vmap: a message")
    assert str(error) == "vmap: a message"
    documented = [name for base in kind.__mro__ for name in getattr(base, "__annotations__", ())]
    if kind is not error_types.AnomalyError:
        assert all(getattr(error, name) is None for name in documented)
        with pytest.raises(AttributeError):
            kind("a message", mistaken=3)


def test_a_seed_that_does_not_fit():
    x = leaf(2, 3)
    error = raised(mg.errors.SeedError, lambda: (x * 2).backward(np.ones(3, "float32")))
    assert about(error, "shape", "dtype", "given_shape", "given_dtype") == (
        (2, 3), np.float64, (3,), np.float32,
    )  # fmt: skip
    error = raised(mg.errors.SeedError, lambda: (x * 2).backward())
    assert about(error, "shape", "given_shape") == ((2, 3), None)


def test_a_graph_that_was_released():
    y = (leaf(2) * 2).sum()
    y.backward()
    error = raised(mg.errors.GraphReleasedError, y.backward)
    assert (error.op, error.shape) == ("sum", ()) and error.number == y.node.number


def test_a_rule_that_returns_another_shape():
    class Wrong(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return mg.ones(7)

    y = Wrong.apply(leaf(2)).sum()
    error = raised(mg.errors.RuleError, y.backward)
    assert about(error, "op", "argument", "shape", "given_shape") == ("Wrong", "x", (2,), (7,))


def test_an_op_without_a_rule():
    @mg.primitive(name="an_op_without_a_rule_for_errors")
    def forward(a, b):
        return a + b

    forward.vjp("a")(lambda g: g)
    error = raised(mg.errors.RuleError, lambda: forward(leaf(2), leaf(2)))
    assert about(error, "op", "argument") == ("an_op_without_a_rule_for_errors", "b")


def test_memory_that_was_changed():
    x = leaf(3)
    y = mg.exp(x)
    z = y * y
    with mg.no_grad():
        y *= 2
    error = raised(mg.errors.InPlaceError, lambda: z.sum().backward())
    assert error.op in ("exp", "mul") and error.shape == (3,) and error.dtype == np.float64
    before, now = error.versions
    assert before < now and error.site["file"] == __file__


def test_a_leaf_that_is_changed():
    x = leaf(3)

    def change():
        x[0] = 1.0

    error = raised(mg.errors.InPlaceError, change)
    assert about(error, "argument", "shape") == ("x", (3,))


def test_a_hook_that_returns_no_gradient():
    x = leaf(3)
    x.register_hook(lambda g: np.ones(2))
    error = raised(mg.errors.HookError, (x * 2).sum().backward)
    assert about(error, "shape", "given_shape") == ((3,), (2,))
    assert raised(mg.errors.HookError, lambda: mg.ones(4).register_hook(print)).shape == (4,)


def test_the_two_sessions():
    a, b = mg.Session(), mg.Session()
    x, y = a.tensor([1.0]), b.tensor([1.0])
    error = raised(mg.errors.SessionMismatch, lambda: x * y)
    assert error.sessions == (a, b) and error.ids == (a.id, b.id)
    assert about(error, "op", "arguments") == ("mul", ("a", "b"))
    assert pickle.loads(pickle.dumps(error)).sessions is None
    error = raised(mg.errors.SessionMismatch, lambda: a.track(y))
    assert error.sessions == (b, a) and error.op == "track"


def test_two_threads_on_one_graph():
    x, started, end, seen = leaf(1), threading.Event(), threading.Event(), []
    y = mg.exp(x)
    y.register_hook(lambda g: (started.set(), end.wait(10)) and None)
    other = threading.Thread(target=y.sum().backward)
    other.start()
    started.wait(10)
    try:
        seen.append(raised(mg.errors.GraphInUseError, lambda: mg.backward(y.sum())))
    finally:
        end.set()
        other.join()
    assert seen[0].ops == ("exp",) and seen[0].threads == (threading.get_ident(), other.ident)


def test_an_op_without_a_forward_for_the_device():
    @mg.extension
    def an_op_without_forward_for_errors(x):
        """y = x"""

    error = raised(mg.errors.ImplementationError, lambda: an_op_without_forward_for_errors(leaf(2)))
    assert about(error, "op", "device", "devices") == (
        "an_op_without_forward_for_errors",
        "cpu",
        (),
    )


def test_what_is_no_operand():
    assert raised(OperandError, lambda: mg.exp(mg.ones(1)) * "text").given_type == "str"


def test_a_solver_that_stops():
    error = raised(
        mg.errors.ConvergenceError,
        lambda: mg.func.root(lambda x: x * x + 1.0, mg.tensor(0.3), max_steps=7),
    )
    assert error.steps == 7 and error.residual > 0.5 and 0 < error.tol < 1e-3


def test_a_state_that_does_not_fit():
    net = nn.Linear(3, 2)
    state = {"weight": np.ones((5, 5), "float32"), "other": np.ones(1)}
    error = raised(mg.errors.StateError, lambda: net.load_state_dict(state))
    assert about(error, "missing", "unexpected", "unfit") == (("bias",), ("other",), ("weight",))
    optimizer = mg.optim.SGD(net.parameters(), lr=0.1)
    error = raised(mg.errors.StateError, lambda: optimizer.load_state_dict({"state": {}}))
    assert error.missing == ("param_groups",)


def test_a_path_that_is_not_there():
    error = raised(PathError, lambda: nn.Sequential(nn.Linear(1, 1)).get_parameter("0.wait"))
    assert error.path == "0.wait" and error.known == ("0.weight", "0.bias")


def test_a_checkpoint_that_does_something_else():
    times = iter([2.0, 3.0])
    y = mg.checkpoint(lambda x: mg.exp(x * mg.tensor(next(times))), leaf(2)).sum()
    assert raised(mg.errors.CheckpointError, y.backward).op in ("mul", "exp")


def test_a_program_for_other_shapes():
    with mg.Tape() as tape:
        x = leaf(2)
        y = (x * 2).sum()
    program = tape.compile(y, inputs=[x])
    error = raised(mg.errors.TapeError, lambda: program(np.ones(3)))
    assert about(error, "shape", "given_shape") == ((2,), (3,))
    z = mg.exp(leaf(4))
    error = raised(mg.errors.TapeError, lambda: tape.backward(z, np.ones(4)))
    assert about(error, "op", "shape") == ("exp", (4,))


def test_a_tangent_that_does_not_fit():
    error = raised(
        mg.errors.TransformError,
        lambda: mg.func.jvp(lambda x: x, (mg.ones(3),), (mg.ones(2),)),
    )
    assert about(error, "call", "shape", "given_shape") == ("jvp", (3,), (2,))


def test_a_file_that_is_damaged(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"\x10\0\0\0\0\0\0\0{}              ")
    path.write_bytes((14).to_bytes(8, "little") + b'{"a": 1}      ')
    error = raised(mg.errors.FormatError, lambda: mg.load(path))
    assert str(path) in str(error)


@pytest.mark.parametrize(
    "message, call",
    [
        ("vmap: in_dims has 3 entries", "vmap"),
        ("median(x: float64 (3,)): it has", "median"),
        ("nn.init: inside vmap", "nn.init"),
        ("inside vmap the truth", None),
        ("", None),
    ],
)
def test_the_call_that_a_message_begins_with(message, call):
    assert mg.errors.TransformError(message).call == call


def test_attributes_stay_on_an_error_that_is_told_again():
    error = raised(OperandError, lambda: mg.std(mg.stack([mg.ones(2)]) * object()))
    assert error.given_type == "object"
