"""A profile of a compiled function: its replays, call by call, with their lines."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.instrument.cells import IN_GRAPH, REPLAY
from minigrad.replay.fusing import _belonging
from minigrad.replay.heard import ReplayedCall, op_of
from minigrad.tape.trace import Source, Step

LARGE = 1 << 18  # elements from which NumPy's calls go block by block


def chain(x):
    y = mg.tanh(x) * x  # FIRST
    y = y / 2 + mg.exp(-x)  # SECOND
    loss = y.sum()
    loss.backward()
    return loss


FIRST = chain.__code__.co_firstlineno + 1


def profiled(step, x, lines=True, calls=3):
    for _ in range(3):
        x.grad = None
        step(x)
    with mg.profile(lines=lines) as prof:
        for _ in range(calls):
            x.grad = None
            step(x)
    return prof


def test_each_replayed_call_is_a_row_with_its_op_and_its_line():
    x = mg.tensor(np.linspace(0, 1, 12), requires_grad=True)
    prof = profiled(mg.compile(chain), x)
    rows = {row.op: row for row in prof.rows()}
    assert {row.phase for row in rows.values()} == {REPLAY}
    assert {"tanh", "exp", "sum", "tanh.backward", "mul: multiply"} <= {*rows}
    assert rows["tanh"].site == f"{__file__}:{FIRST}"
    assert rows["exp"].site == rows["exp.backward: multiply"].site == f"{__file__}:{FIRST + 1}"
    assert all(row.calls % 3 == 0 and row.total_ns > 0 for row in rows.values())
    assert rows["exp"].bytes == 3 * x.numpy().nbytes


def test_calls_made_as_one_name_all_their_ops_and_lines():
    x = mg.tensor(np.linspace(0, 1, LARGE), requires_grad=True)
    prof = profiled(mg.compile(chain), x)
    row = next(row for row in prof.rows() if row.op.startswith("blocks(tanh+mul"))
    assert row.site == f"{__file__}:{FIRST},{FIRST + 1}"
    said = " ".join(prof.table().split())
    assert "replayed calls of several ops: blocks(tanh + mul + div + neg + exp + add), " in said
    assert f"test_heard.py:{FIRST},{FIRST + 1}" in said


def test_a_fused_loop_names_all_its_ops_and_lines(loops):
    x = mg.tensor(np.linspace(0, 1, 64).reshape(8, 8), requires_grad=True)
    prof = profiled(mg.compile(chain), x)
    row = next(row for row in prof.rows() if row.op.startswith("fused("))
    assert {"tanh", "exp", "exp.backward", "tanh.backward"} <= {*row.op[6:-1].split("+")}
    assert row.site == f"{__file__}:{FIRST},{FIRST + 1}" and row.calls == 3


def test_lines_are_those_of_the_first_call_where_a_later_one_repeats_it():
    x = mg.tensor(np.linspace(0, 1, 12), requires_grad=True)
    step = mg.compile(chain)
    step(x)  # x has no gradient here, and has one in the later calls: another program
    for _ in range(2):
        step(x)
    with mg.profile(lines=True) as prof:
        step(x)
    assert next(r.site for r in prof.rows() if r.op == "tanh") == f"{__file__}:{FIRST}"


def test_without_lines_a_profile_has_no_lines_and_the_results_are_the_same():
    x = mg.tensor(np.linspace(0, 1, 12), requires_grad=True)
    step = mg.compile(chain)
    prof = profiled(step, x, lines=False)
    assert not any(row.site for row in prof.rows())
    assert "op " in prof.table().split("\n")[1]
    with mg.profile():
        heard = step(x).item(), x.grad.tolist()
    x.grad = None
    assert heard[0] == step(x).item()
    prof.reset()
    assert not prof.rows()


def test_the_recording_is_heard_op_by_op_and_its_comparison_is_not():
    x = mg.tensor(np.linspace(0, 1, 12), requires_grad=True)
    with mg.profile() as prof:
        mg.compile(chain)(x)
    assert {row.phase for row in prof.rows()} == {"forward", "backward"}
    assert all(row.calls == 1 for row in prof.rows() if row.op == "tanh")


@pytest.mark.parametrize("options", [{"memory": True}, {"sections": True}, {"every": 5}])
def test_a_profile_that_needs_every_op_gets_every_op(options, capsys):
    x = mg.tensor(np.linspace(0, 1, 12), requires_grad=True)
    step = mg.compile(chain)
    step(x)
    with mg.profile(**options):
        x.grad = None
        step(x)
    assert "a listener (an event log, a profile of memory) hears every op" in step.explain()


def test_a_part_of_an_op_that_is_another_kernel_has_its_own_name():
    whole, bias, rest = (Step("call", abs, (), {}, name) for name in ("linear", "bias", "linear"))
    whole.source = Source("linear", "forward", ())
    assert [op_of(_belonging(part, whole)) for part in (rest, bias)] == ["linear", "bias"]


def test_calls_in_a_cuda_graph_are_listed_without_times():
    prof = mg.profile()
    inside = ReplayedCall("matmul", [], 8), ReplayedCall("fused(mul+add)", [], 8)
    graph = ReplayedCall("CUDA graph of 2 calls", [], 16, inside)
    prof.replayed(graph, 0, 1000)
    prof.replayed(graph, 0, 2000)
    rows = {row.op: row for row in prof.rows()}
    assert rows["CUDA graph of 2 calls"].total_ns == 3000
    assert [(rows[c.name].phase, rows[c.name].calls) for c in inside] == [(IN_GRAPH, 2)] * 2
    said = prof.table()
    assert "fused(mul + add)" in said
    assert said.endswith("a CUDA graph runs as one: the calls in it have no times of their own")
