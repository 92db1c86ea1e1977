"""mg.compile: the same numbers as without it, replayed where a program can stand for the ops."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


def replays(compiled) -> int:
    return sum(store.replays for store in compiled.stores.values())


def reasons(compiled) -> str:
    return compiled.explain()


def batch(n=4, seed=0):
    draw = np.random.default_rng(seed)
    return mg.tensor(draw.standard_normal((n, 3))), mg.tensor(draw.integers(0, 2, n))


def trained(decorate, steps=6, **options):
    """(the losses, the weights) of a small network, and the step."""
    mg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    optimizer = mg.optim.Adam(model.parameters(), lr=0.1)

    @decorate
    def step(x, target):
        optimizer.zero_grad()
        loss = mg.cross_entropy(model(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    losses = [step(*batch(seed=i)).item() for i in range(steps)]
    return losses, [p.data.tobytes() for p in model.parameters()], step


def test_a_training_step_gives_the_bits_of_the_plain_one():
    plain, compiled = trained(lambda fn: fn), trained(mg.compile)
    assert compiled[:2] == plain[:2]
    assert replays(compiled[2]) == 5


def test_python_runs_at_each_call_and_the_ops_once():
    ran = []

    @mg.primitive
    def doubled(x):
        ran.append("op")
        return x * 2

    doubled.vjp("x")(lambda g: g * 2)

    @mg.compile
    def fn(x):
        ran.append("python")
        return doubled(x)

    for value in (1.0, 2.0, 3.0):
        ran.clear()
        assert fn(mg.tensor([value])).item() == 2 * value
    assert ran == ["python"]


def test_fn_may_be_a_module_and_keeps_its_attributes():
    model = nn.Linear(3, 2)
    compiled = mg.compile(model)
    x, _ = batch()
    with mg.no_grad():
        for _ in range(3):
            assert compiled(x).data.tobytes() == model(x).data.tobytes()
    assert compiled.weight is model.weight and replays(compiled) == 2


def test_a_method_is_compiled_for_each_object():
    class Scaled:
        def __init__(self, c):
            self.c = c

        @mg.compile
        def times(self, x):
            return x * self.c

    x = mg.tensor([1.0, 2.0])
    two, three = Scaled(2.0), Scaled(3.0)
    for _ in range(3):
        assert two.times(x).tolist() == [2, 4] and three.times(x).tolist() == [3, 6]


def test_another_shape_and_dtype_is_another_program():
    compiled = mg.compile(lambda x: mg.exp(x).sum())
    for n in (2, 3, 2, 3):
        for dtype in ("float32", "float64"):
            x = mg.ones(n, dtype=dtype)
            assert compiled(x).data == mg.exp(x).sum().data
            assert compiled(x).dtype == x.dtype
    assert len(compiled.stores) == 4


def test_accelerated_forms_have_programs_of_their_own():
    pytest.importorskip("numba")
    compiled, x = mg.compile(lambda x: mg.softmax(x, axis=-1)), mg.ones(300, 300, dtype="float32")
    compiled(x)
    with mg.accelerate(process=False):
        compiled(x)
    assert len(compiled.stores) == 2


def test_an_error_in_the_function_leaves_the_numbers_of_before():
    seen = []

    @mg.compile
    def step(x, fail):
        seen.append(x * 2)
        if fail[0]:
            raise KeyError("planted")

    step(mg.tensor([1.0]), [0])
    with pytest.raises(KeyError, match="planted"):
        step(mg.tensor([2.0]), [1])
    step(mg.tensor([3.0]), [0])
    assert [y.item() for y in seen] == [2, 4, 6]
    assert type(seen[1]) is mg.Tensor and not mg.engine.modes.active


def test_a_compiled_function_in_a_compiled_one_is_part_of_it():
    inner = mg.compile(lambda x: mg.exp(x))
    outer = mg.compile(lambda x: inner(x) + 1)
    assert [outer(mg.tensor([0.0])).item() for _ in range(3)] == [2, 2, 2]
    assert replays(outer) == 2 and replays(inner) == 0


@pytest.mark.parametrize(
    "block, said",
    [
        (lambda: mg.Tape(), "a tape"),
        (lambda: mg.detect_anomaly(), "anomaly mode"),
        (lambda: mg.autocast("cpu", dtype="float16"), "autocast"),
        (lambda: mg.profile(memory=True), "a listener"),
        (lambda: mg.record_backward(), "a listener"),
    ],
    ids=["tape", "anomaly", "autocast", "profile", "recorder"],
)
def test_a_mode_that_looks_at_every_op_gets_every_op(block, said):
    compiled = mg.compile(lambda x: x * 2)
    with block():
        assert compiled(mg.tensor([1.5])).item() == 3
    assert said in reasons(compiled)


def test_inside_a_transform_the_function_runs_as_it_stands():
    compiled = mg.compile(lambda x: (x * x * x).sum())
    assert mg.func.grad(compiled)(mg.tensor([2.0])).tolist() == [12]
    assert "transform" in reasons(compiled)


def test_fullgraph_makes_a_fall_back_an_error():
    @mg.compile(fullgraph=True)
    def fn(x):
        y = w * x
        return y if y.item() > 0 else -y

    w = mg.tensor([1.0], requires_grad=True)
    with pytest.raises(mg.errors.CompileError, match="leaves the segment with its graph"):
        fn(mg.tensor([1.0]))
    assert not mg.engine.modes.active and mg.engine.modes.state.pending is None


def test_threads_have_calls_of_their_own():
    compiled, found = mg.compile(lambda x: mg.exp(x) * 2), {}

    def work(i):
        found[i] = [compiled(mg.tensor([float(i)])).item() for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [(mg.exp(mg.tensor([float(i)])) * 2).item()] * 20 for i in range(4)}


def test_the_log_says_what_is_recorded_and_why_not(monkeypatch, capsys):
    monkeypatch.setenv("MINIGRAD_COMPILE_LOG", "1")
    w = mg.tensor([1.0], requires_grad=True)
    mg.compile(lambda x: x + 1)(mg.tensor([1.0]))
    mg.compile(lambda x: x * w)(mg.tensor([1.0])).item()
    said = capsys.readouterr().err
    assert "recorded as a program" in said and "leaves the segment with its graph" in said


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="takes a function or a module"):
        mg.compile(3)
