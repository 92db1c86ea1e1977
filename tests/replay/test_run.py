"""One call of a compiled function: what is replayed, and what is right where it cannot be."""

import gc
import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.replay.run import Run


def replays(compiled) -> int:
    return sum(store.replays for store in compiled.stores.values())


def reasons(compiled) -> str:
    return compiled.explain()


def batch(n=4, seed=0):
    draw = np.random.default_rng(seed)
    return mg.tensor(draw.standard_normal((n, 3))), mg.tensor(draw.integers(0, 2, n))


def test_a_number_that_python_changes_is_never_stale():
    count = iter(range(100))

    @mg.compile
    def scaled(x):
        return x * next(count)

    x = mg.tensor([1.0])
    assert [scaled(x).item() for _ in range(20)] == list(range(20))
    assert "8 programs were recorded" in reasons(scaled)


def test_a_branch_that_comes_back_is_replayed():
    def fn(x, flag):
        y = mg.exp(x)
        return y + 1 if flag[0] else mg.tanh(y)

    compiled, x = mg.compile(fn), mg.tensor([0.5])
    flags = [[k] for k in (0, 1, 0, 1, 1, 0)]
    assert [compiled(x, f).item() for f in flags] == [fn(x, f).item() for f in flags]
    assert replays(compiled) == 4


def test_two_arguments_may_be_one_tensor_in_some_calls():
    def fn(x, y, flag):
        z = x * y + y
        return z + 1 if flag[0] else mg.tanh(z)

    compiled, a, b = mg.compile(fn), mg.tensor([1.0, 2.0]), mg.tensor([3.0, 4.0])
    for x, y, flag in ((a, b, 0), (a, a, 1), (a, b, 1), (b, a, 1), (a, a, 0), (a, a, 1), (b, b, 0)):
        assert compiled(x, y, [flag]).tolist() == fn(x, y, [flag]).tolist()
    assert replays(compiled) == 4


def test_two_leaves_may_be_one_in_some_calls():
    def fn(x, y):
        (mg.exp(x) * y + mg.sin(y) * x + x * x * y).sum().backward()
        return x.grad, y.grad

    compiled, draw = mg.compile(fn), np.random.default_rng(0)
    for is_one in (0, 0, 0, 1, 1, 0, 1):
        x, y = (mg.tensor(draw.standard_normal(5), requires_grad=True) for _ in range(2))
        y = x if is_one else y
        expected = [g.data.tobytes() for g in fn(x, y)]
        x.grad = y.grad = None
        assert [g.data.tobytes() for g in compiled(x, y)] == expected
    assert replays(compiled) == 4


def test_another_tensor_from_outside_is_seen():
    bag = {"w": mg.tensor([2.0])}
    compiled = mg.compile(lambda x: x * bag["w"])
    x = mg.tensor([3.0])
    assert compiled(x).item() == 6
    bag["w"].data[0] = 5.0
    assert compiled(x).item() == 15
    for value in (7.0, 8.0, 9.0):
        bag["w"] = mg.tensor([value])
        assert compiled(x).item() == 3 * value
    assert replays(compiled) == 3  # one of the first array, two of the array as an input


def test_random_draws_are_those_of_the_plain_function():
    def fn(x):
        y = mg.dropout(x, 0.5)
        noise = mg.rand(8)
        return mg.dropout(y + noise, 0.5)

    def drawn(function):
        mg.manual_seed(3)
        return [function(mg.ones(8)).tolist() for _ in range(5)], mg.rand(2).tolist()

    assert drawn(mg.compile(fn)) == drawn(fn)


def test_draws_between_the_ops_of_a_recording_end_its_segment():
    def fn(x):
        y = mg.dropout(x, 0.5)
        return mg.dropout(y * mg.rand(8), 0.5) * 2

    def drawn(function):
        mg.manual_seed(3)
        return [function(mg.ones(8)).tolist() for _ in range(5)]

    compiled = mg.compile(fn)
    assert drawn(compiled) == drawn(fn)
    assert (
        replays(compiled) == 7
    )  # four of the first; the noise becomes an input in the second call


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_a_program_that_gives_other_numbers_than_its_recording_is_not_used(p):
    times = iter(range(1, 1000))

    @mg.primitive
    def drifting(x):
        return x * next(times)

    @mg.compile
    def fn(x):
        return drifting(x) + (mg.dropout(x, p) if p else x)

    for _ in range(4):
        fn(mg.ones(8))
    assert replays(fn) == 0
    assert "its replay gave other numbers" in reasons(fn)


def test_running_statistics_move_once_a_call():
    def moved(decorate):
        norm = nn.BatchNorm1d(3)
        step = decorate(lambda x: (norm(x) ** 2).sum().backward())
        for i in range(5):
            step(batch(seed=i)[0].astype("float32"))
        return [b.data.tobytes() for b in norm.buffers()], norm.weight.grad.tolist(), step

    plain, compiled = moved(lambda fn: fn), moved(mg.compile)
    assert compiled[:2] == plain[:2]
    assert replays(compiled[2]) == 3  # the second call is another: there is a gradient to add to


def test_gradients_add_up_over_calls():
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    compiled = mg.compile(lambda x: (w * x).sum().backward())
    for _ in range(4):
        compiled(mg.tensor([1.0, 3.0]))
    assert w.grad.tolist() == [4, 12]


def test_a_gradient_that_was_kept_does_not_change():
    w, kept = mg.tensor([1.0], requires_grad=True), []

    @mg.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    for value in (1.0, 2.0, 3.0, 4.0):
        kept.append(step(mg.tensor([value])))
    assert [g.item() for g in kept] == [1, 2, 3, 4]


def test_the_gradient_of_an_argument_goes_to_that_argument():
    compiled = mg.compile(lambda x: (x * x).sum().backward())
    for value in (1.0, 2.0, 3.0):
        x = mg.tensor([value], requires_grad=True)
        compiled(x)
        assert x.grad.tolist() == [2 * value]
    assert replays(compiled) == 1  # the second call shows that it is another one each time


def test_a_parameter_that_is_frozen_gets_no_gradient():
    a, b = (mg.tensor([2.0], requires_grad=True) for _ in range(2))
    compiled = mg.compile(lambda x: (x * a * b).sum().backward())
    for frozen in (False, True, False, True):
        a.grad = b.grad = None
        b.requires_grad_(not frozen)
        compiled(mg.tensor([3.0]))
        assert a.grad.item() == 6 and (b.grad is None) is frozen


def test_a_result_with_its_graph_can_be_differentiated_outside():
    w = mg.tensor([3.0], requires_grad=True)
    compiled = mg.compile(lambda x: w * x)
    for i in range(3):
        w.grad = None
        (compiled(mg.tensor([float(i)])) * 2).sum().backward()
        assert w.grad.item() == 2 * i


def test_a_graph_that_was_used_up_is_refused_as_ever():
    w = mg.tensor([3.0], requires_grad=True)

    @mg.compile
    def step(x):
        loss = (w * w * x).sum()
        loss.backward()
        return loss

    for _ in range(3):
        loss = step(mg.tensor([1.0]))
        assert loss.requires_grad
        with pytest.raises(mg.errors.GraphReleasedError):
            loss.backward()


def test_a_write_in_place_comes_after_the_ops_that_read_before():
    buffer = mg.tensor([1.0])

    @mg.compile
    def step(x):
        y = x + buffer
        buffer[0] = 9.0
        z = x + buffer
        buffer[0] = 1.0
        return y, z

    for _ in range(4):
        y, z = step(mg.tensor([1.0]))
        assert (y.item(), z.item()) == (2, 10)


def test_a_view_of_an_argument_is_still_one():
    @mg.compile
    def step(x):
        row = x[0]
        again = row.reshape(1, -1)
        again[...] = 7.0
        return row

    for _ in range(4):
        x = mg.zeros(2, 3)
        row = step(x)
        assert x.tolist() == [[7, 7, 7], [0, 0, 0]]
        row[0] = 1.0
        assert x[0, 0].item() == 1
    assert replays(step) > 0


def test_results_that_share_memory_share_it_in_each_call():
    @mg.compile
    def fn(x):
        y = mg.exp(x)
        return y, y[1:], y.detach()

    for _ in range(4):
        y, tail, same = fn(mg.zeros(3))
        y[2] = 5.0
        assert tail.tolist() == [1, 5] and same.tolist() == [1, 1, 5]
    assert replays(fn) == 3


def test_an_array_that_is_set_between_two_ops_is_seen_by_the_second():
    w = mg.tensor([1.0])

    @mg.compile
    def fn(x):
        y = x * w
        w.data = np.array([5.0])
        z = x * w
        w.data = np.array([1.0])
        return y, z

    for _ in range(4):
        y, z = fn(mg.tensor([1.0]))
        assert (y.item(), z.item()) == (1, 5)


def test_a_leaf_that_is_frozen_after_the_backward_keeps_its_gradient():
    a, b = (mg.tensor([2.0], requires_grad=True) for _ in range(2))

    @mg.compile
    def step(x):
        a.grad = b.grad = None
        (x * a * b).sum().backward()
        a.requires_grad_(False)
        found = a.grad.item(), b.grad.item()
        a.requires_grad_(True)
        return found

    assert [step(mg.tensor([3.0])) for _ in range(4)] == [(6, 6)] * 4


def test_an_op_s_own_error_is_that_of_the_plain_call():
    compiled = mg.compile(lambda x: mg.exp(x) @ x)
    for _ in range(2):
        with pytest.raises(ValueError, match="matmul") as error:
            compiled(mg.ones(2, 3))
        assert "Awaited" not in str(error.value)


def test_a_hook_is_called_each_time():
    w, called = mg.tensor([1.0], requires_grad=True), []
    w.register_hook(lambda g: called.append(g.item()))
    compiled = mg.compile(lambda x: (w * x).sum().backward())
    for i in range(3):
        compiled(mg.tensor([float(i)]))
    assert called == [0, 1, 2]


def test_a_hook_that_comes_later_is_called_too():
    w, called = mg.tensor([1.0], requires_grad=True), []
    compiled = mg.compile(lambda x: (w * x).sum().backward())
    for i in range(6):
        if i == 3:
            hook = w.register_hook(lambda g: called.append(g.item()))
        if i == 5:
            hook.remove()
        w.grad = None
        compiled(mg.tensor([float(i)]))
        assert w.grad.item() == i
    assert called == [3, 4]


@pytest.mark.parametrize("options", [{"retain_graph": True}, {"create_graph": True}])
def test_a_backward_with_options_runs_as_it_stands(options):
    def fn(x):
        w.grad = None
        (w * w * x).sum().backward(**options)
        return w.grad

    w = mg.tensor([3.0], requires_grad=True)
    compiled = mg.compile(fn)
    for i in range(3):
        assert compiled(mg.tensor([float(i)])).item() == 6 * i


def test_second_derivatives_inside_are_right():
    @mg.compile
    def fn(x):
        (g,) = mg.grad((x**3).sum(), [x], create_graph=True)
        return mg.grad(g.sum(), x)

    for value in (1.0, 2.0, 3.0):
        assert fn(mg.tensor([value], requires_grad=True)).item() == 6 * value


def test_a_program_keeps_no_array_of_its_recording():
    x = mg.tensor(np.ones((200, 200)), requires_grad=True)

    @mg.compile
    def step():
        x.grad = None
        y = x
        for _ in range(20):
            y = mg.tanh(y) * x
        y.sum().backward()

    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(3):
            step()
        gc.collect()
        kept = (tracemalloc.get_traced_memory()[0] - before) / x.nbytes
    finally:
        tracemalloc.stop()
    (program,) = next(iter(step.stores.values())).segments[0]
    own = program.runner.nbytes / x.nbytes
    assert kept < own + 4  # its buffers and the gradient; the recording made over a hundred


def test_a_call_leaves_nothing_to_the_garbage_collector():
    def fn(x, case):
        y = mg.exp(x) * w
        if case[0] == "error":
            raise KeyError
        return y.detach() if case[0] == "constant" else y.sum()

    w, x = mg.tensor([1.0], requires_grad=True), mg.tensor([2.0])
    compiled = mg.compile(fn)
    gc.collect()
    gc.disable()
    try:
        for case in ["constant", "graph", "error"] * 3:
            try:
                result = compiled(x, [case])
            except KeyError:
                continue
            if case == "graph":
                result.backward()
            del result
        assert not [y for y in gc.get_objects() if isinstance(y, Run)]
    finally:
        gc.enable()


def test_a_backward_through_what_came_before_the_segment_reaches_all_leaves_at_once():
    """A look in some calls cuts the graph in two; no gradient may be told late or in part."""

    def trained(decorate):
        w = mg.tensor(np.ones(3), requires_grad=True)
        v = mg.tensor(np.full(3, 2.0), requires_grad=True)
        calls = []

        @decorate
        def fn(h):
            calls.append(h)
            if len(calls) == 1:
                return (h.detach() * 2).sum().item()
            (h * v).sum().backward()
            return w.grad.data.tolist()

        return [fn(w * (i + 1.0)) for i in range(6)]

    assert trained(mg.compile) == trained(lambda fn: fn)
