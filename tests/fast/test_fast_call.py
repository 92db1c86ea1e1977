"""The fast and the instrumented call of an op, generated for it, and `general`, for every call."""

import gc
import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import events, modes
from minigrad.engine.errors import RuleError
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op as registry
from minigrad.fast.codegen import compiled
from minigrad.fast.fast_call import fast_call, instrumented_call
from minigrad.tensor_api.tensor import Tensor
from minigrad.testing.case import Context
from minigrad.testing.run import load_samples
from minigrad.testing.spec import specs

load_samples()
PRIMITIVES = [entry for entry in registry if isinstance(entry, Primitive)]


DRAWN = {"drop", "attention_seeds", "empty_like"}  # other numbers, or unset ones, at every call


def same(a, b):
    """Whether two results of ops, or what nodes save, are the same to the bit."""
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray | np.generic):
        alike = a.dtype == b.dtype and a.shape == b.shape and type(a) is type(b)
        return alike and a.tobytes() == b.tobytes()
    return a is b or a == b


def difference(plain, general):
    """What tells the results of the two calls apart, or ""."""
    if type(plain) is not type(general):
        return f"{type(plain)} and {type(general)}"
    if not isinstance(plain, Tensor):
        return "" if same(plain, general) else "another result"
    mine, other = plain.node, general.node
    if (mine is None) != (other is None):
        return "a node in one of them"
    if not same(plain.data, general.data) or plain._grad is not general._grad:
        return "another value"
    if mine is None:
        return ""
    for name in ("op", "plan", "origin"):
        if getattr(mine, name) is not getattr(other, name):
            return name
    for name in ("parents", "shape", "dtype", "saved"):
        if not same(getattr(mine, name), getattr(other, name)):
            return name
    return "" if mine.number < other.number else "number"


def heard(call, args, params):
    """(result, events) of a call with a listener."""
    told = []
    hear = told.append
    events.listen(hear)
    try:
        return call(*args, **params), told
    finally:
        events.unlisten(hear)


def differently_heard(instrumented, general):
    """What tells apart what a listener hears of the two calls, or ""."""
    (y, mine), (z, other) = instrumented, general
    if differs := difference(y, z):
        return differs
    if [event[:2] for event in mine] != [event[:2] for event in other]:
        return "other events"
    for a, b in zip(mine, other, strict=True):
        if (a[4] is None) != (b[4] is None) or not 0 < a[2] <= a[3]:
            return "another node or time in the event"
        if not (same(a[5], b[5]) and same(a[6], b[6]) and same([*a[7].items()], [*b[7].items()])):
            return "other inputs, outputs or params in the event"
    return ""


@pytest.fixture
def both_ways():
    """Calls of ops are made in all ways: [(op, what differs)], and which ops had a fast call."""
    differences, calls = [], set()

    def twice(entry):
        plain, instrumented = fast_call(entry), instrumented_call(entry)

        def apply(*args, **params):
            y = plain(*args, **params)
            if plain != entry.general and not modes.active:
                calls.add(entry.name)
                differs = difference(y, entry.general(*args, **params))
                differs = differs or differently_heard(
                    heard(instrumented, args, params), heard(entry.general, args, params)
                )
                with mg.no_grad():
                    unrecorded = instrumented(*args, **params)
                    differs = differs or difference(unrecorded, entry.general(*args, **params))
                if differs:
                    differences.append((entry.name, differs))
            return y

        return apply

    for entry in PRIMITIVES:
        entry.apply = twice(entry)
    yield differences, calls
    for entry in PRIMITIVES:
        del entry.apply


def tensors(args, needs):
    """The arrays among args as tensors; those at the positions in `needs` require gradients."""
    arrays = [i for i, x in enumerate(args) if isinstance(x, np.ndarray) or i in needs]
    made = [mg.tensor(x) if i in arrays else x for i, x in enumerate(args)]
    for i in needs:
        made[i].requires_grad = True
    return made


def test_it_does_what_general_does_for_every_sample_and_every_pattern(both_ways):
    differences, calls = both_ways
    context = Context("fast", 0)
    for spec in specs.values():
        for case in context.doubles(spec):
            positions = case.function().positions
            for needs in ((), positions, *[(i,) for i in positions][: len(positions) - 1]):
                spec.call(*tensors(case.sample.args, needs), **case.sample.params)
    assert {name for name, _ in differences} <= DRAWN
    assert len(calls) > 300


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "bfloat16", "int64"])
def test_numbers_beside_a_tensor_do_the_same(both_ways, dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = mg.tensor([1.0, 2.0], dtype=dtype, requires_grad=dtype != "int64")
    for number in (2, 0.5, True, 1j, np.float32(3), None):
        for entry in (mg.add, mg.mul, mg.sub, mg.maximum):
            for args in ((x, number), (number, x)):
                try:
                    entry(*args)
                except TypeError:  # of None; of bfloat16 and 1j
                    assert number in (None, 1j)
    assert both_ways[0] == [] and {"add", "mul", "sub", "maximum"} <= both_ways[1]


@pytest.mark.parametrize("make", [np.float32, np.float64, np.int64])
def test_arrays_beside_a_tensor_do_the_same(both_ways, make):
    x = mg.tensor(np.array([1.0, 2.0], np.float32), requires_grad=True)
    array, mask = np.array([3, 4], make), np.array([True, False])
    for args in ((x, array), (array, x)):
        mg.mul.apply(*args)
        mg.where.apply(mask, *args)
    assert both_ways == ([], {"mul", "where"})


def test_arrays_alone_give_an_array(both_ways):
    array = np.array([3.0, 4.0])
    assert type(mg.mul.apply(array, array)) is np.ndarray
    assert type(mg.mul.apply(array, 2.0)) is np.ndarray
    assert both_ways[0] == []


def test_a_large_array_is_cut_into_blocks_all_the_same(both_ways):
    x = mg.tensor(np.full(1 << 21, 0.5, np.float32), requires_grad=True)
    mg.exp(x * x)
    assert both_ways == ([], {"exp", "mul"})


def test_under_a_mode_that_changes_more_than_recording_the_call_is_general(monkeypatch):
    seen, general = [], Primitive.general

    def noted(self, *args, **params):
        seen.append(self.name)
        return general(self, *args, **params)

    monkeypatch.setattr(Primitive, "general", noted)
    mg.mul.plans.clear()
    try:
        x = mg.tensor([1.0])
        x * x
        with mg.no_grad():
            x * x
        with mg.profile():
            x * x
        assert seen == []
        with mg.autocast(mg.float16):
            x * x
        assert seen.pop() == "mul"
        with mg.saved_tensors_hooks(lambda a: a, lambda a: a):
            x * x
        assert seen.pop() == "mul"
        mg.func.vmap(lambda x: x * x)(x)
        assert seen.count("mul") == 2  # of the transform, and of the arrays in it
    finally:
        mg.mul.plans.clear()


def test_it_is_written_anew_when_a_rule_or_the_forward_changes():
    triple = mg.primitive(lambda x: 3 * x, name="triple_of_test_fast_call")
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    triple.vjp("x")(lambda g: 3 * g)
    assert mg.grad(triple(x).sum(), x).tolist() == [3, 3]
    triple.vjp("x")(lambda g: 5 * g)
    assert mg.grad(triple(x).sum(), x).tolist() == [5, 5]
    triple.implementation("cpu")(lambda x: 4 * x)
    assert triple(x).tolist() == [4, 8]
    triple.remove_implementation("cpu")
    assert triple(x).tolist() == [3, 6]


def test_an_op_that_lacks_a_rule_says_so_only_where_a_gradient_is_asked_for():
    half = mg.primitive(lambda x, w: x * w, name="half_of_test_fast_call")
    half.vjp("x")(lambda g, w: g * w)
    x, w = mg.tensor([2.0], requires_grad=True), mg.tensor([3.0], requires_grad=True)
    assert mg.grad(half(x, w.detach()).sum(), x).tolist() == [3]
    with pytest.raises(RuleError, match="no derivative rule for its input 'w'"):
        half(x, w)


def test_a_static_parameter_may_have_any_name_that_the_text_uses():
    def scaled(x, *, data=2.0, new=1.0, node=0.5, weak=1.0):
        return x * data * new * node * weak

    scaled = mg.primitive(scaled, name="scaled_of_test_fast_call")
    scaled.vjp("x")(lambda g, data, new, node, weak: g * (data * new * node * weak))
    x = mg.tensor([1.0], requires_grad=True)
    assert mg.grad(scaled(x).sum(), x).tolist() == [1.0]
    assert mg.grad(scaled(x, weak=7.0, node=1).sum(), x).tolist() == [14.0]


def test_its_source_can_be_read():
    text = inspect.getsource(mg.mul.apply)
    assert text.startswith("def apply(x0, x1, /):\n    if modes.active:")
    assert "        node.saved = (v1, v0)" in text


def test_an_error_names_the_call():
    with pytest.raises(ValueError, match=r"mul\(a: float64 \(2,\), b: float64 \(3,\)\)"):
        mg.tensor([1.0, 2.0]) * mg.tensor([1.0, 2.0, 3.0])


def test_an_op_made_for_one_call_goes_with_it():
    entry = Primitive(np.exp, "once", ["x"], kind="elementwise")
    assert entry.plans == {}
    gc.disable()
    try:
        alive = entry.plans.op
        del entry
        assert alive() is None
    finally:
        gc.enable()


def test_generated_code_without_a_file_of_its_own_leaves_no_lines_behind():
    import linecache

    before = len(linecache.cache)
    compiled("f", ["def f():", " return 1"], {})
    assert len(linecache.cache) == before


class Brief:
    """A listener to which the short form of these ops is enough."""

    def __init__(self, *enough):
        self.enough, self.briefs, self.events = enough, [], []

    def brief(self, node, y, t0, t1):
        self.briefs.append((node.op.name, y.shape, t1 >= t0))
        return node.op.name in self.enough

    def hear(self, event):
        self.events.append(event[1])


def heard_by(*listeners):
    x = mg.tensor(np.ones((2, 3)), requires_grad=True)
    for listener in listeners:
        events.listen(listener)
    try:
        with mg.no_grad():
            mg.exp(x)
        mg.tanh(x) * x
    finally:
        for listener in listeners:
            events.unlisten(listener)


def test_a_listener_hears_a_call_whole_where_the_short_form_is_not_enough_or_it_is_not_recorded():
    listener = Brief("tanh")
    heard_by(listener)
    assert listener.briefs == [("tanh", (2, 3), True), ("mul", (2, 3), True)]
    assert listener.events == ["exp", "mul"]


def test_of_several_listeners_each_hears_every_call_whole():
    one, other = Brief("tanh"), Brief("mul")
    heard_by(one, other)
    assert one.events == other.events == ["exp", "tanh", "mul"]
    assert one.briefs == other.briefs == []


class Hostile(str):
    """A name that shows itself as Python that raises."""

    def __repr__(self):
        return "1 / 0"

    __str__ = __repr__

    def __format__(self, spec):
        return "1 / 0"

    def split(self, *args):
        return [Hostile(part) for part in super().split(*args)]


def test_names_enter_generated_source_as_plain_strings():
    entry = Primitive(
        lambda x, scale: x * scale, Hostile("twice\n'\""), [Hostile("x")],
        defaults={Hostile("scale"): 2.0},
    )  # fmt: skip
    entry.vjp("x")(lambda g, scale: g * scale)
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y, seen = heard(entry.instrumented, (x,), {"scale": 3.0})
    assert type(entry.name) is str and "1 / 0" not in inspect.getsource(entry.instrumented)
    assert seen[0][1] == entry.name == "twice\n'\""
    assert (mg.grad(y.sum(), [x])[0].numpy() == 3).all()


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match="a name must be a string, got 3"):
        Primitive(lambda x: x, 3, ["x"])


def test_while_somebody_listens_the_other_modes_still_hold():
    x = mg.tensor(np.ones((2, 2), np.float32), requires_grad=True)
    told = []
    hear = told.append
    events.listen(hear)
    try:
        with mg.no_grad():
            assert (x * x).node is None
        with mg.autocast():
            assert (x @ x).dtype.itemsize == 2
        assert (x * x).node is not None
    finally:
        events.unlisten(hear)
    assert [event[1] for event in told].count("mul") == 2


def test_the_count_of_listeners_is_that_of_those_who_listen():
    before = modes.listening
    with mg.profile(), mg.profile():
        assert modes.listening == before + 2
    assert modes.listening == before
