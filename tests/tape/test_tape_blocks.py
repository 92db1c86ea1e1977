"""A program makes elementwise calls on large arrays in blocks, with the bits of whole calls."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.expressions import blocks as expression_blocks
from minigrad.tape import blocks as tape_blocks

from .test_tape_replay import OPS, agree, arrays, compiled, eager, program_of


@pytest.fixture
def small_blocks(monkeypatch):
    """Every array is large, and blocks end within it. Yields the list of runs: pieces of each."""
    runs = []

    def noted(work, pieces):
        runs.append(len(pieces))
        share(work, pieces)

    share = expression_blocks.share
    monkeypatch.setattr(tape_blocks, "LEAST", 2)
    monkeypatch.setattr(tape_blocks, "BLOCK", 5)
    monkeypatch.setattr(expression_blocks, "share", noted)
    return runs


def bump(x, y):
    """Elementwise, with values that are read once, several times, and by the gradient."""
    a = np.tanh(x) * y
    b = (a + x / 2) / (a * a + 1)
    return (b * np.exp(-b)).sum()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("threads", [1, 3])
def test_replays_have_the_bits_of_the_eager_run(small_blocks, dtype, threads):
    before = mg.get_num_threads()
    mg.set_num_threads(threads)
    try:
        agree(lambda x, y: abs(bump(x, y)), [(7, 3), (7, 3)], dtype)
    finally:
        mg.set_num_threads(before)
    assert set(small_blocks) == {5}  # 21 elements


def test_so_have_replays_in_blocks_of_the_true_size():
    shape = (tape_blocks.LEAST // 100 + 1, 103)
    agree(bump, [shape, shape], np.float32)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, len(OPS) - 1), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=12,
    )
)
def test_so_have_random_programs(small_blocks, steps):
    with np.errstate(all="ignore"):
        agree(program_of(steps), [(3, 3)] * 3)


def test_a_nan_made_of_two_nans_stays_one_whatever_its_sign(small_blocks):
    def fn(x):
        return np.sqrt(x) + -np.sqrt(x) * 2  # of −1: NaN of both signs, added

    (x,) = arrays((7, 5))
    with mg.Tape() as tape, np.errstate(invalid="ignore"):
        t = mg.tensor(x)
        y = fn(t)
        seen = tape.compile(y, [t])(-x)
        wanted = fn(mg.tensor(-x)).data
    np.testing.assert_array_equal(seen, wanted)
    np.testing.assert_array_equal(np.isnan(seen), x > 0)


def test_calls_up_to_a_sum_are_one_run_and_those_behind_it_another(small_blocks):
    xs = arrays((7, 3), (7, 3))
    program = compiled(bump, xs)
    small_blocks.clear()
    program(*xs)
    assert small_blocks == [5, 5, 5]  # tanh's slope, a call of its own, parts those behind it
    assert len(program) < 10 < program.listing().count(" = ")  # a run is one call


def test_what_only_a_run_reads_has_no_buffer(small_blocks, monkeypatch):
    xs = arrays((7, 3), (7, 3))

    def compiled_forward():
        tensors = [mg.tensor(x) for x in xs]
        with mg.Tape() as tape:
            y = bump(*tensors)
        return tape.compile(y, tensors)

    in_blocks = compiled_forward()
    monkeypatch.setattr(tape_blocks, "LEAST", 1 << 60)
    assert in_blocks.nbytes == xs[0].nbytes < compiled_forward().nbytes  # what the sum reads
    assert "s2 = tanh(i0)" in in_blocks.listing()


def test_values_inside_a_run_that_are_asked_for_come_out(small_blocks):
    def fn(x):
        a = np.tanh(x)
        b = a * x
        return [a, b + a, b.T, (b * 3)[1]]

    (x,) = arrays((7, 3))
    t = mg.tensor(x, requires_grad=True)
    with mg.Tape() as tape:
        ys = fn(t)
    seen = tape.compile(ys, [t])(x + 1)
    for y, wanted in zip(seen, fn(mg.tensor(x + 1)), strict=True):
        np.testing.assert_array_equal(y, wanted.data)


def test_arrays_that_lie_otherwise_end_a_run(small_blocks):
    def fn(x):
        return (np.tanh(x) * x.T + x).sum()

    agree(fn, [(6, 6)])


SHAPES = [(8, 6, 5), (5,), (6, 1), (6, 5), (8, 1, 1), (8, 6, 1), (1, 6, 1), (8, 1, 5), ()]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_rows_columns_and_numbers_beside_large_arrays(small_blocks, data):
    """Whatever is broadcast against what: replays have the bits of the eager run."""
    shapes = [SHAPES[0], *data.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))]
    order = data.draw(st.permutations(range(3)))
    calls = data.draw(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=2, max_size=8))
    functions = [np.multiply, np.add, lambda a, b: np.tanh(a) - b, lambda a, b: a / (b * b + 1)]

    def fn(*xs):
        xs = [x.reshape((*(1,) * (3 - x.ndim), *x.shape)) for x in xs]
        values = [x.transpose(order) for x in xs]
        for i, j, k in calls:
            values.append(functions[i % 4](values[j % len(values)], values[k % len(values)]))
        return sum((y * 0.5).sum() for y in [*xs, *values[-3:]])

    agree(fn, shapes)


def test_an_argument_may_have_fewer_axes_and_as_many_elements(small_blocks):
    agree(lambda x, y: (np.tanh(x) * y + x).sum(), [(9,), (1, 9)])


def test_a_bias_and_the_mean_of_each_row_do_not_end_a_run(small_blocks):
    def fn(x, b):
        centred = x - x.mean(axis=1, keepdims=True)
        return [(np.tanh(centred + b) * x).sum()]

    xs = arrays((8, 6), (6,))
    tensors = [mg.tensor(x) for x in xs]
    with mg.Tape() as tape:
        y = fn(*tensors)
    program = tape.compile(y, tensors)
    small_blocks.clear()
    program(*xs)
    assert small_blocks in ([2, 8], [8])  # perhaps the 8 means; then all in one run, row by row


def test_short_rows_are_taken_together(small_blocks, monkeypatch):
    def fn(x, b):
        return (np.tan(x + b) * x).sum()

    monkeypatch.setattr(tape_blocks, "BLOCK", 24)
    for folded, pieces in ((120, 1), (12, 5), (3, 5)):  # 40 rows as 1, as 10 by two, as 40 by eight
        monkeypatch.setattr(tape_blocks, "FOLDED", folded)
        small_blocks.clear()
        agree(fn, [(40, 3), (3,)], np.float32)
        assert small_blocks[::2] == [pieces] * 3


def test_the_gradient_of_a_sum_is_a_number_in_a_run(small_blocks):
    def fn(x):
        return (x * x).sum()

    program = agree(fn, [(7, 3)])
    small_blocks.clear()
    program(*arrays((7, 3)))
    assert len(small_blocks) == 2


def test_results_of_other_calls_are_dropped_behind_the_run_that_reads_them_last(small_blocks):
    def fn(x):
        return (mg.gelu(x) * np.tanh(x) + x / 2).sum()

    program = agree(fn, [(7, 3)])
    cells = zip(program._runner.cells, program._runner.trace.fixed, strict=True)
    assert all(cell is None for cell, fixed in cells if not fixed)


def test_an_error_in_a_run_is_the_users_and_the_next_call_is_right(small_blocks):
    def fn(x):
        return np.log(x * 2).sum()

    xs = [np.arange(1.0, 22).reshape(7, 3)]
    program = compiled(fn, xs)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        program(np.zeros((7, 3)))
    value, _ = program(*xs)
    assert value == eager(fn, xs)[0]
