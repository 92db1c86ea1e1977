"""Fusion in a program: which steps become one, and that the numbers stay those of the ops."""

from threading import Thread

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.fusion import launch
from minigrad.replay import fusing

OFF = 2e-5  # of the largest number: a fused float32 chain rounds as a compiled loop does


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def gradients(fn, *arrays, calls=3):
    """(what fn of leaves gave, their gradients) in the last of some calls under mg.compile, the
    same without it, and the steps of the program.
    """

    def step(*xs):
        for x in xs:
            x.grad = None
        y = fn(*xs)
        y.backward()
        return y

    found = []
    compiled = mg.compile(step)
    for run in (step, compiled):
        xs = [mg.tensor(x, requires_grad=True) for x in arrays]
        for _ in range(calls):
            y = run(*xs)
        found.append([y.data, *[x.grad.data for x in xs]])
    program = next(iter(compiled.stores.values())).segments[0][0]
    assert program.runner is not None, program.why
    return *found, program.runner.steps


def assert_close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=OFF * max(1, np.abs(b).max()))


def names(steps):
    return [[part.name for part in step.fused] for step in steps if step.fused]


def test_a_chain_and_its_derivative_become_one_step(loops):
    plain, compiled, steps = gradients(
        lambda x: (mg.gelu(x) * mg.tanh(x) + x / 2).sum(), values(64, 48)
    )
    assert_close(compiled, plain)
    (one,) = names(steps)
    assert {"gelu", "tanh", "mul", "div", "add"} <= set(one)
    others = [step.name for step in steps if step.kind != "view" and not step.fused]
    assert {*others} <= {"sum", "add", "div"}  # of all elements, and what comes of one number


@pytest.mark.parametrize("power", [lambda x: x * x, lambda x: (x + 1) * (x + 1) * x, np.square])
def test_a_value_that_one_op_takes_twice_fuses_too(loops, power):
    plain, compiled, steps = gradients(lambda x: (power(mg.tanh(x)) + x).sum(), values(64, 48))
    assert_close(compiled, plain)
    (one,) = names(steps)
    assert {"tanh", "add"} <= set(one)
    others = [step.name for step in steps if step.kind != "view" and not step.fused]
    assert {*others} <= {"sum", "add"}


def test_a_value_that_two_groups_read_joins_them(loops):
    def fn(x, y):
        a, b = mg.exp(x), mg.tanh(y)
        return (a * b).sum()

    plain, compiled, steps = gradients(fn, values(32, 32), values(32, 32, seed=1))
    assert_close(compiled, plain)
    assert len(names(steps)) == 1


def test_what_needs_a_result_of_the_group_stays_behind_it(loops):
    def fn(x, w):
        h = mg.tanh(x) * 2  # before the product
        return mg.tanh(mg.matmul(h, w) + h).sum()  # and after it, which reads h too

    plain, compiled, steps = gradients(fn, values(32, 32), values(32, 32, seed=1))
    assert_close(compiled, plain)
    assert len(names(steps)) >= 2


def test_rows_fuse_with_their_neighbours(loops):
    def fn(x, y):
        return (mg.softmax(x * 2, -1) * y).sum()

    plain, compiled, steps = gradients(fn, values(40, 96), values(40, 96, seed=1))
    assert_close(compiled, plain)
    assert any("softmax" in group for group in names(steps))


@pytest.mark.parametrize("shape", [(1, 48), (64, 1), (48,), ()])
def test_a_smaller_argument_is_broadcast(loops, shape):
    plain, compiled, _ = gradients(
        lambda x, b: (mg.tanh(x + b) * x).sum(), values(64, 48), values(*shape, seed=1)
    )
    assert_close(compiled, plain)


def test_running_statistics_move_once_a_call(loops):
    def trained(decorate):
        mg.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 4))

        @decorate
        def step(x):
            model.zero_grad()
            y = (mg.tanh(model(x)) * 2 + 1).sum()
            y.backward()
            return y

        for i in range(4):
            step(mg.tensor(values(8, 16, seed=i)))
        return [b.data for b in model.buffers()]

    assert_close(trained(mg.compile), trained(lambda fn: fn))


def test_without_loops_no_step_is_fused():
    plain, compiled, steps = gradients(lambda x: (mg.gelu(x) * mg.tanh(x)).sum(), values(64, 48))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(plain, compiled, strict=True))
    assert names(steps) == []


def test_a_kernel_that_cannot_be_made_leaves_the_program_as_it_is(loops, monkeypatch):
    joined, made = fusing._joined, []

    def failing(*args):
        if made:
            raise RuntimeError("no compiler today")
        made.append(joined(*args))
        return made[-1]

    monkeypatch.setattr(fusing, "_joined", failing)

    def fn(x, w):
        return mg.tanh(mg.matmul(mg.tanh(x) * 2, w) + x).sum()

    plain, compiled, steps = gradients(fn, values(32, 32), values(32, 32, seed=1))
    assert_close(compiled, plain)
    assert made[0] is not None and names(steps) == []


# -- small arrays, which eager ops compute without loops -----------------------------------------

SHAPES = [(4, 4), (8, 8), (32, 32), (64, 256), (100,)]


def chain(x):
    return (mg.gelu(x) * mg.tanh(x) + x / 2).sum()


def step_names(fn, *xs):
    """The names of the steps of fn's program, and the fused groups among them."""
    compiled = mg.compile(fn)
    for _ in range(3):
        compiled(*xs)
    program = next(iter(compiled.stores.values())).segments[0][0]
    return [step.name for step in program.runner.steps], program.fused


@pytest.mark.parametrize("shape", SHAPES)
def test_a_small_chain_and_its_derivative_become_one_step(accelerated, shape):
    plain, compiled, steps = gradients(chain, values(*shape))
    assert_close(compiled, plain)
    (one,) = names(steps)
    assert {"gelu", "tanh", "multiply", "divide", "add"} <= {*one}


def test_the_neighbours_of_a_small_softmax_fuse(accelerated):
    def fn(x, y):
        return (mg.softmax(x * 2, -1) * y).sum()

    plain, compiled, steps = gradients(fn, values(8, 16), values(8, 16, seed=1))
    assert_close(compiled, plain)
    assert any("multiply" in group for group in names(steps))


def test_a_small_step_alone_stays_as_it_is(accelerated):
    x, w = mg.tensor(values(8, 8)), mg.tensor(values(8, 8, seed=1))
    steps, fused = step_names(lambda x, w: mg.matmul(mg.tanh(x), w), x, w)
    assert "tanh" in steps and not fused


def test_few_small_steps_stay_as_they_are_and_many_fuse(accelerated):
    x = mg.tensor(values(8, 8))
    assert not step_names(lambda x: x * 2 + 1, x)[1]
    assert step_names(lambda x: ((x * 2 + 1) * x - 3) * x, x)[1]


def test_steps_that_stay_small_and_alone_compile_nothing(accelerated, monkeypatch):
    from minigrad.compiled import launch as loops

    def refused(source):
        raise AssertionError("compiled")

    monkeypatch.setattr(loops, "compiled", refused)
    x, w = mg.tensor(values(8, 8)), mg.tensor(values(8, 8, seed=1))
    _, fused = step_names(lambda x, w: mg.matmul(mg.gelu(x), w), x, w)
    assert not fused


@pytest.mark.parametrize("shape", SHAPES)
def test_without_accelerate_a_small_chain_has_the_bits_of_its_ops(shape):
    plain, compiled, steps = gradients(chain, values(*shape))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(plain, compiled, strict=True))
    assert names(steps) == []


def test_a_loop_reads_the_present_numbers_of_a_transposed_leaf(accelerated):
    x, y = mg.tensor(values(6, 9)), mg.tensor(values(9, 6, seed=1))

    def fn(y):
        return mg.tanh(mg.gelu(x.T + y) * y + x.T)

    compiled = mg.compile(fn)
    for _ in range(3):
        assert_close([compiled(y).data], [fn(y).data])
        x[...] = x * 2
    program = next(iter(compiled.stores.values())).segments[0][0]
    assert program.fused


def test_a_gradient_handed_out_is_not_written_by_the_next_replay(accelerated):
    x = mg.tensor(values(8, 8), requires_grad=True)

    @mg.compile
    def step():
        x.grad = None
        chain(x).backward()

    step()
    step()
    first, before = x.grad, x.grad.data.copy()
    with mg.no_grad():
        x[...] = x * 2
    step()
    np.testing.assert_array_equal(first.data, before)
    assert not np.array_equal(x.grad.data, before)


def test_a_constant_gradient_is_not_computed_in_each_replay():
    x = mg.tensor(values(8, 8), requires_grad=True)

    def fn():
        x.grad = None
        (x * 3).sum().backward()
        return x.grad

    assert step_names(fn) == ([], [])  # 3 at every place, whatever x is
    compiled = mg.compile(fn)
    for _ in range(3):
        g = compiled().data
        np.testing.assert_array_equal(g, np.full((8, 8), 3, "float32"))
        g[...] = 0  # a result is the caller's own


def test_while_a_thread_looks_at_its_launches_others_compute(accelerated):
    x, found = values(1 << 16), []
    thread = Thread(target=lambda: found.append(mg.exp(mg.tensor(x)).data))
    with launch.watching() as seen:
        thread.start()
        thread.join()
    np.testing.assert_allclose(found[0], np.exp(x), rtol=1e-6)
    assert seen == []
