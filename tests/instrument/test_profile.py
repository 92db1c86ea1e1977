"""The aggregate profile: counts, times that do not count twice, and the table."""

import json
import re
import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import events, modes
from minigrad.instrument import profile, profile_table
from minigrad.instrument.cells import Row


def leaf(*shape):
    return mg.tensor(np.linspace(0.1, 1.0, int(np.prod(shape))).reshape(shape), requires_grad=True)


def calls(prof):
    return {(row.op, row.phase): row.calls for row in prof.rows()}


def train(steps=1):
    w, x = leaf(4, 4), leaf(3, 4)
    for _ in range(steps):
        mg.tanh(x @ w).sum().backward()


def hear(prof, *given):
    """Tell a profile events by hand: (kind, op, t0, t1)."""
    for kind, op, t0, t1 in given:
        prof.hear((kind, op, t0, t1, None, (), (np.zeros(2),), {}))


def test_every_op_is_counted_forward_and_backward():
    with profile() as prof:
        train(steps=3)
    assert calls(prof) == {
        (op, phase): 3 for op in ("matmul", "tanh", "sum") for phase in ("forward", "backward")
    }


def test_the_same_run_twice_gives_the_same_counts_and_bytes():
    seen = []
    for _ in range(2):
        with profile() as prof:
            train(steps=2)
        seen.append(sorted((row.op, row.phase, row.calls, row.bytes) for row in prof.rows()))
    assert seen[0] == seen[1]


def test_ops_under_no_grad_are_counted():
    with profile() as prof, mg.no_grad():
        leaf(2) * 2
    assert calls(prof) == {("mul", "forward"): 1}


def test_bytes_are_those_of_the_results():
    with profile() as prof:
        a, b = leaf(5), leaf(3, 1)
        (a * b).backward(np.ones((3, 5)))
    rows = {row.phase: row for row in prof.rows() if row.op == "mul"}
    assert rows["forward"].bytes == 15 * 8
    assert rows["backward"].bytes == 2 * 15 * 8  # one contribution for each input


def mixed(single, double, steps):
    """Calls with and without a promotion, of inputs that are recorded, constants and numbers."""
    for _ in range(steps):
        y = mg.tanh(single * single) * 2.0
        (y + double).sum().backward()
        z = mg.exp(double * double) - double.numpy()
        mg.split(z, 2)
    with mg.scope("part"):
        return double * double


@pytest.mark.parametrize("lines", [False, True])
def test_alone_a_profile_counts_as_it_does_among_others(lines):
    single, double = mg.tensor(np.ones(4, "float32"), requires_grad=True), leaf(4)
    seen = []
    for others in ([], [lambda event: None]):
        with profile(lines=lines) as prof:
            for other in others:
                events.listen(other)
            y = mixed(single, double, steps=3)
            for other in others:
                events.unlisten(other)
        found = [(r.op, r.phase, r.site, r.calls, r.bytes, r.promoted_at) for r in prof.rows()]
        seen.append((sorted(found), y.node.origin))
    assert seen[0] == seen[1] and any(promoted_at for *_, promoted_at in seen[0][0])


def test_no_call_is_lost_as_the_pending_ones_are_summed_up():
    x = leaf(2)
    with profile() as prof:
        for _ in range(10_001):
            x * x
    (row,) = prof.rows()
    assert (row.calls, row.bytes) == (10_001, 16 * 10_001)
    assert 0 < row.min_ns <= row.total_ns / row.calls <= row.max_ns


def test_what_is_called_again_after_a_reset_is_counted_again():
    x = leaf(2)
    with profile() as prof:
        for _ in range(3):
            prof.reset()
            for _ in range(5):
                x * x
    assert calls(prof) == {("mul", "forward"): 5}


def test_times_are_the_events_own():
    prof = profile()
    hear(prof, ("forward", "f", 10, 30), ("forward", "f", 40, 45), ("backward", "f", 50, 60))
    forward, backward = prof.rows()
    assert (forward.calls, forward.total_ns, forward.min_ns, forward.max_ns) == (2, 25, 5, 20)
    assert (backward.calls, backward.total_ns, backward.share) == (1, 10, 28.6)


def test_sums_do_not_depend_on_how_many_events_are_pending():
    prof = profile()
    hear(prof, *[("forward", "f", 0, n) for n in range(10_001)])
    (row,) = prof.rows()
    assert (row.calls, row.total_ns) == (10_001, sum(range(10_001)))
    assert (row.min_ns, row.max_ns, row.bytes) == (0, 10_000, 16 * 10_001)


def test_what_a_rule_records_is_counted_once_in_its_own_row():
    prof = profile()
    prof.graph_ready([], [])
    hear(prof, ("forward", "mul", 10, 14), ("forward", "mul", 15, 18), ("backward", "f", 5, 25))
    hear(prof, ("forward", "sum", 26, 30), ("backward", "g", 40, 50))
    prof.graph_done(None)
    times = {(row.op, row.phase): row.total_ns for row in prof.rows()}
    assert times["f", "backward"] == 20 - 4 - 3
    assert times["g", "backward"] == 10  # sum ran before it, not inside
    assert times["mul", "forward"] == 7 and times["sum", "forward"] == 4


def test_a_backward_inside_a_rule_is_counted_once():
    prof = profile()
    prof.graph_ready([], [])
    hear(prof, ("forward", "mul", 11, 14))
    prof.graph_ready([], [])
    hear(prof, ("backward", "mul", 15, 19))
    prof.graph_done(None)
    hear(prof, ("backward", "checkpoint", 10, 20))
    prof.graph_done(None)
    times = {(row.op, row.phase): row.total_ns for row in prof.rows()}
    assert times == {("mul", "forward"): 3, ("mul", "backward"): 4, ("checkpoint", "backward"): 3}


def test_events_of_another_thread_are_not_inside_a_rule():
    prof = profile()
    prof.graph_ready([], [])
    other = threading.Thread(target=hear, args=(prof, ("forward", "mul", 10, 14)))
    other.start()
    other.join()
    hear(prof, ("backward", "f", 5, 25))
    prof.graph_done(None)
    assert {row.op: row.total_ns for row in prof.rows()} == {"mul": 4, "f": 20}


def test_under_create_graph_own_times_are_never_negative_and_never_exceed_the_wall_time():
    with profile() as prof:
        x = leaf(50, 50)
        (g,) = mg.grad((mg.tanh(x) ** 3).sum(), [x], create_graph=True)
        (g * g).sum().backward()
    rows = prof.rows()
    assert all(0 <= row.min_ns <= row.max_ns for row in rows)
    assert 0 < sum(row.total_ns for row in rows) <= prof.wall_ns


def test_shares_add_to_100():
    with profile() as prof:
        train(steps=5)
    assert round(sum(row.share for row in prof.rows()), 6) == 100.0


def test_rows_stand_in_order_of_time():
    with profile() as prof:
        train(steps=2)
    totals = [row.total_ns for row in prof.rows()]
    assert totals == sorted(totals, reverse=True)


def test_profiles_nest_and_each_sees_its_own_part():
    with profile() as outer:
        leaf(2) + 1
        with profile() as inner:
            leaf(2) * 2
    assert calls(inner) == {("mul", "forward"): 1}
    assert calls(outer) == {("add", "forward"): 1, ("mul", "forward"): 1}


def test_a_profile_may_be_entered_twice_and_counts_once():
    prof = profile()
    with prof, prof:
        leaf(2) * 2
    with prof:
        leaf(2) * 2
    assert calls(prof) == {("mul", "forward"): 2}


def test_an_exception_leaves_the_profile_and_the_engine_in_order():
    before = modes.active
    with pytest.raises(KeyError), profile() as prof:
        leaf(2) * 2
        raise KeyError
    leaf(2) * 2
    assert calls(prof) == {("mul", "forward"): 1}
    assert modes.active == before and prof not in events.listeners


def test_a_failing_op_is_not_counted_and_its_error_passes():
    with profile() as prof, pytest.raises(ValueError):
        leaf(2) * leaf(3)
    assert prof.rows() == []


def test_threads_lose_no_call():
    def work():
        x = leaf(2)
        for _ in range(3000):
            x * 2

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert calls(prof) == {("mul", "forward"): 12_000}


def test_reset_forgets():
    with profile() as prof:
        leaf(2) * 2
        prof.reset()
        leaf(2) + 1
    assert calls(prof) == {("add", "forward"): 1}


def test_a_function_transform_is_counted_where_it_meets_arrays():
    with profile() as prof:
        mg.func.grad(lambda x: mg.tanh(x).sum())(mg.tensor([1.0, 2.0]))
    counted = calls(prof)
    assert counted["tanh", "forward"] == 1 and counted["tanh", "backward"] == 1


def test_the_table_fits_80_columns_whatever_the_numbers():
    prof = profile()
    hear(prof, ("forward", "a" * 300, 0, 10**13), ("backward", "b\x1b[31m\n", 0, 999_999_999))
    for _ in range(3):
        prof._forward.cells["a" * 300].row.calls += 10**9
    lines = prof.table().split("\n")
    assert all(len(line) <= 80 and line.isprintable() for line in lines)


def test_the_table_sums_what_it_does_not_show():
    prof = profile()
    hear(prof, *[("forward", f"op{n}", 0, 100 - n) for n in range(50)])
    table = prof.table(top=3)
    assert "op2" in table and "op3" not in table
    assert "(47 more rows)" in table and "100.0 %" in table


def test_the_table_tells_what_recording_cost():
    with profile() as prof:
        leaf(2) * 2
    assert "recording: at least" in prof.table()


def test_an_empty_profile_has_a_table_too():
    assert profile().table().startswith("minigrad profile: 0 calls")


def test_the_json_holds_the_rows():
    with profile() as prof:
        train()
    document = json.loads(prof.json())
    assert document["format"] == "minigrad.profile" and document["version"] == [1, 0]
    assert document["calls"] == sum(row["calls"] for row in document["rows"]) == 6
    assert document["total_ns"] == sum(row["total_ns"] for row in document["rows"])


def test_a_needless_float64_is_named():
    x = mg.tensor([1.0, 2.0], dtype="float32", requires_grad=True)
    with mg.profile() as prof:
        ((x * np.float64(3.0)) + 1).sum().backward()
    table = prof.table()
    assert "float64 was made of narrower floats" in table and "mul (forward)" in table
    assert "add (forward)" not in table.split("in:")[1]


def test_pure_float32_and_pure_float64_raise_no_such_line():
    for dtype in ("float32", "float64"):
        x = mg.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        with mg.profile() as prof:
            (x * 3 + x).sum().backward()
        assert "float64 was made" not in prof.table()


@pytest.mark.parametrize("options", [{"every": 0}, {"every": "a"}, {"every": 2.5}, {"stack": -1}])
def test_a_count_that_is_none_is_refused(options):
    with pytest.raises(ValueError, match=f"profile: {[*options][0]} must be an integer"):
        profile(**options)


def test_one_row_with_its_line_is_enough_for_a_column_of_lines():
    rows = [Row("mul", "forward", 1, 10, site="a.py:3"), Row("sin", "forward", 1, 5)]
    shown = profile_table.text(rows, 20, 0.0, None, 10)
    assert "a.py:3 mul" in shown and shown.splitlines()[1].startswith("line")


def test_scopes_are_counted_with_their_time():
    with mg.profile() as prof:
        for _ in range(3):
            with mg.scope("outer"), mg.scope("inner"):
                mg.ones(3) * 2
    (outer, (times, spent)), (inner, (_, within)) = prof.scopes().items()
    assert (outer, inner, times) == ("outer", "outer/inner", 3) and 0 < within <= spent
    assert [row["scope"] for row in prof.as_dict()["scopes"]] == ["outer", "outer/inner"]
    assert re.search(r"^outer/inner +3 ", prof.table(), re.MULTILINE)
    prof.reset()
    assert prof.scopes() == {}


def test_without_scopes_the_table_has_no_part_for_them():
    with mg.profile() as prof:
        mg.ones(3) * 2
    assert "of wall" not in prof.table().replace("of wall time", "")


def test_the_lines_of_a_notebook_are_told_by_cell():
    IPython = pytest.importorskip("IPython.core.interactiveshell")
    try:
        shell = IPython.InteractiveShell.instance()
        shell.run_cell("import minigrad as mg")
        shell.run_cell("x = mg.ones(3)", store_history=True)
        shell.run_cell("with mg.profile(lines=True) as prof:\n    x * 2", store_history=True)
        (row,) = shell.user_ns["prof"].rows()
    finally:
        IPython.InteractiveShell.clear_instance()
    assert re.fullmatch(r"In\[\d+\]:2", row.site)
