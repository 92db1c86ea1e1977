"""The switches of the event log and the memory, in the environment and in code."""

import json
import multiprocessing
import os
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.instrument import switches
from minigrad.instrument.formats import EventReader
from minigrad.instrument.records import Allocation, Event
from tests.instrument.test_environment import TRAIN, run


def test_memory_adds_a_line_to_the_table(tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE_MEMORY="1")
    assert "memory at its peak: " in err and "input" in err


def test_stack_tells_lines_apart_and_goes_into_the_log(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    code = "import runpy; runpy.run_path('train.py')"
    _, err = run(code, tmp_path, MINIGRAD_PROFILE_STACK="3")
    assert "train.py:6 matmul" in err
    run(
        code,
        tmp_path,
        MINIGRAD_PROFILE_STACK="3",
        MINIGRAD_PROFILE_MEMORY="1",
        MINIGRAD_PROFILE_OUT="run.jsonl",
    )
    with EventReader(str(tmp_path / "run.jsonl")) as reader:
        records = list(reader.records())
    assert reader.header["stack"] == 3 and reader.header["memory"] is True
    assert any(isinstance(record, Allocation) for record in records)
    assert all(len(r.stack) in (0, 2, 3) for r in records if isinstance(r, Event))


def test_sync_costs_nothing_where_there_is_no_device(tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE_SYNC="1")
    assert "minigrad profile: 18 calls" in err


def test_device_times_without_a_device_are_one_line_and_the_profile_goes_on(tmp_path):
    if mg.cuda.is_available():
        pytest.skip("there is a GPU here")
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE="1", MINIGRAD_PROFILE_DEVICE="1")
    assert "minigrad: MINIGRAD_PROFILE_DEVICE needs" in err and "goes without" in err
    assert "minigrad profile: 18 calls" in err


def test_a_bad_stack_is_one_line_and_ignored(tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE_STACK="deep")
    assert err.splitlines() == [
        "minigrad: MINIGRAD_PROFILE_STACK='deep' is ignored: it should be a number of frames, "
        "from 0 on"
    ]


def work():
    x = mg.tensor(np.ones((2, 2)), requires_grad=True)
    mg.tanh(x @ x).sum().backward()


def test_a_profile_in_code_writes_what_it_is_asked_for(tmp_path):
    wanted = ["table", "json", "events", "chrome", "speedscope", "folded"]
    with mg.profile(out=tmp_path / "p.txt", format=wanted, memory=True, stack=2):
        work()
    assert sorted(os.listdir(tmp_path)) == [
        "p.folded", "p.json", "p.jsonl", "p.speedscope.json", "p.trace.json", "p.txt",
    ]  # fmt: skip
    assert json.loads((tmp_path / "p.json").read_text())["memory"]["peak"] > 0


def test_a_profile_in_code_reports_every_n_ops(capsys):
    with mg.profile(every=4):
        work()
    assert capsys.readouterr().err.count("minigrad profile:") == 2


def test_formats_that_do_not_exist_or_need_a_file_are_refused():
    with pytest.raises(ValueError, match="there are table, json"):
        mg.profile(format="pdf")
    with pytest.raises(ValueError, match="needs a file"):
        mg.profile(format="chrome")


def test_lines_are_told_apart_and_a_promotion_names_its_line():
    x = mg.tensor(np.ones(3, "float32"), requires_grad=True)
    with mg.profile(lines=True) as prof:
        y = x * 2
        z = y * np.float64(2.0)
        (z + y).sum().backward()
    multiplied = [row for row in prof.rows() if (row.op, row.phase) == ("mul", "forward")]
    assert len({row.site for row in multiplied}) == 2
    (promoting,) = [row for row in multiplied if row.promoted]
    assert promoting.promoted_at == (promoting.site,) and "test_switches.py:" in promoting.site
    assert "mul (forward) at " in prof.table()


def test_a_profile_without_lines_names_the_promoting_line_too():
    x = mg.tensor(np.ones(3, "float32"), requires_grad=True)
    with mg.profile() as prof:
        x * np.float64(2.0)
    (row,) = prof.rows()
    assert row.promoted and row.promoted_at[0].partition("test_switches.py:")[1]


def single(shape=3, grad=True):
    return mg.tensor(np.ones(shape, "float32"), requires_grad=grad)


WIDE = np.ones(3)


class Widened(mg.Function):
    """Its backward makes float64 of vectors of five numbers."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g.astype("float64") if g.shape == (5,) else g


# name: (an op's ordinary call, the call that promotes, its op)
PROMOTING = {
    "a NumPy float64": (lambda x: x * 2.0, lambda x: x * np.float64(2.0), "mul"),
    "an array": (lambda x: x + x, lambda x: x + WIDE, "add"),
    "a wide parameter": (
        lambda x: x * x,
        lambda x: x * mg.tensor(WIDE, requires_grad=True),
        "mul",
    ),
    "a narrow parameter": (
        lambda x: mg.tensor(WIDE, requires_grad=True) * mg.tensor(WIDE, requires_grad=True),
        lambda x: mg.tensor(WIDE, requires_grad=True) * single(),
        "mul",
    ),
    "narrow data": (
        lambda x: mg.tensor(WIDE, requires_grad=True) * WIDE,
        lambda x: mg.tensor(WIDE, requires_grad=True) * single(grad=False),
        "mul",
    ),
    "integers": (lambda x: x * 1, lambda x: x * np.arange(3), "mul"),
    "a list": (
        lambda x: mg.concatenate([x, x]),
        lambda x: mg.concatenate([x, WIDE]),
        "concatenate_arrays",
    ),
    "three arguments": (
        lambda x: mg.where(WIDE > 0, x, x),
        lambda x: mg.where(WIDE > 0, x, WIDE),
        "where",
    ),
    "complex": (lambda x: x * 1j, lambda x: x * np.complex128(1j), "mul"),
}


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", PROMOTING)
def test_one_promotion_is_told_whichever_call_it_is(name, recorded, lines):
    ordinary, promoting, op = PROMOTING[name]
    for at in (0, 1, 2, 63, 64, 65, 66):
        with mg.profile(lines=lines) as prof, mg.set_grad_enabled(recorded):
            x = single()
            for i in range(70):
                (promoting if i == at else ordinary)(x)
        told = {row.op for row in prof.rows() if row.promoted}
        assert told == {op}, f"call {at}"
        assert "test_switches.py:" in prof.table().partition("float64 was made")[2], f"call {at}"


@pytest.mark.parametrize("at", [0, 1, 64, 65, 69])
def test_one_promotion_in_a_backward_is_told_whichever_call_it_is(at):
    with mg.profile() as prof:
        for i in range(70):
            Widened.apply(single(5 if i == at else 3)).sum().backward()
    assert {(row.op, row.phase) for row in prof.rows() if row.promoted} == {("Widened", "backward")}


class Saving(mg.Function):
    """Its call holds an array for the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = np.ones(3)
        return x * ctx.kept

    @staticmethod
    def backward(ctx, g):
        return g * ctx.kept


def test_a_profile_keeps_no_array_of_a_function_alive():
    x = mg.tensor(WIDE, requires_grad=True)
    with mg.profile():
        y = Saving.apply(x)
        alive = weakref.ref(y.node.plan.ctx.kept)
        del y
        assert alive() is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_a_program_of_one_dtype_promotes_nothing(dtype):
    x = mg.tensor(np.linspace(0.5, 1, 6).astype(dtype).reshape(2, 3), requires_grad=True)
    with mg.profile() as prof:
        for _ in range(2):
            parts = mg.split(mg.concatenate([x * 2, x + x, 1 - x]), 3)
            y = parts[0] @ parts[1].T + mg.where(np.eye(2) > 0, 0, parts[2][:, :2])
            y.abs().sum().backward()
            mg.astype(y, "complex128")
    assert not any(row.promoted for row in prof.rows())


def test_bytes_are_those_of_every_call():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 50, 200)
    with mg.profile() as prof, mg.no_grad():
        for size in sizes:
            mg.tanh(mg.zeros(int(size)))
    (row,) = [row for row in prof.rows() if row.op == "tanh"]
    assert (row.calls, row.bytes) == (200, 8 * sizes.sum())


def test_ops_inside_transforms_are_heard():
    def f(x):
        return (mg.exp(x) * x).sum()

    x = mg.tensor(np.ones(3))
    for run_it, expected in (
        (lambda: mg.func.jvp(f, (x,), (x,)), {"exp", "mul", "sum"}),
        (lambda: mg.func.jvp(f, (np.ones(3),), (np.ones(3),)), {"exp", "mul", "sum"}),
        (lambda: mg.func.vmap(f)(np.ones((4, 3))), {"exp", "mul", "sum"}),
        (lambda: mg.func.vmap(mg.func.grad(f))(np.ones((4, 3))), {"exp", "mul", "sum"}),
    ):
        with mg.profile() as prof:
            run_it()
        assert {row.op for row in prof.rows()} >= expected


def test_a_conversion_that_fails_loses_no_events(tmp_path):
    code = "import sys; sys.modules['minigrad_profiler'] = None\n" + TRAIN
    _, err = run(code, tmp_path, MINIGRAD_PROFILE_OUT="run.html")
    assert "/path/to/the/checkout[profile]" in err and "the events are kept in" in err
    (kept,) = [name for name in os.listdir(tmp_path) if name.endswith(".jsonl")]
    assert len(list(EventReader(str(tmp_path / kept)))) == 21


@pytest.mark.parametrize("wanted", ["table", "json", "events", "chrome"])
def test_the_file_lies_where_the_program_began(tmp_path, wanted):
    code = f"import os; os.mkdir('sub')\n{TRAIN}\nos.chdir('sub')"
    run(code, tmp_path, MINIGRAD_PROFILE_OUT="p", MINIGRAD_PROFILE_FORMAT=wanted)
    assert sorted(os.listdir(tmp_path)) == ["p", "sub"] and os.listdir(tmp_path / "sub") == []


def test_the_graph_lies_where_the_program_began(tmp_path):
    code = f"import os, minigrad; os.mkdir('sub'); os.chdir('sub')\n{TRAIN}"
    run(code, tmp_path, MINIGRAD_GRAPH_OUT="g.json")
    assert sorted(os.listdir(tmp_path)) == ["g.json", "sub"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork of POSIX")
def test_a_forked_child_writes_no_tables(tmp_path):
    code = TRAIN + "import os\nchild = os.fork()\nif child: os.wait()\n" + TRAIN
    _, err = run(code, tmp_path, MINIGRAD_PROFILE_EVERY="18")
    assert err.count("minigrad profile:") == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork of POSIX")
def test_a_forked_child_writes_no_graphs(tmp_path):
    code = f"{TRAIN}import os\nchild = os.fork()\nif child: os.wait()\nelse: exec({TRAIN!r})"
    run(code, tmp_path, MINIGRAD_GRAPH_OUT="g{n}.json")
    assert sorted(os.listdir(tmp_path)) == ["g1.json", "g2.json", "g3.json"]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("MINIGRAD_PROFILE_OUT", "run{}.jsonl"),
        ("MINIGRAD_PROFILE_OUT", "run{}.speedscope.json"),
        ("MINIGRAD_GRAPH_OUT", "run{}.json"),
    ],
)
def test_a_spawned_process_writes_files_of_its_own(tmp_path, name, written):
    (tmp_path / "train.py").write_text(
        f"def train():\n    exec({TRAIN!r})\n"
        "if __name__ == '__main__':\n"
        "    import multiprocessing\n"
        "    train()\n"
        "    child = multiprocessing.get_context('spawn').Process(target=train)\n"
        "    child.start(); child.join(); print(child.pid)\n",
        encoding="utf-8",
    )
    code = "import subprocess, sys; subprocess.run([sys.executable, 'train.py'], check=True)"
    out, err = run(code, tmp_path, **{name: written.format("")})
    child = written.format(f".process-{out.strip()}")
    assert sorted(os.listdir(tmp_path)) == sorted(["train.py", written.format(""), child]), err


def test_a_device_stays_the_file_of_a_spawned_process(monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "name", "SpawnProcess-1")
    assert switches._of_this_process(os.devnull) == os.devnull
    assert switches._of_this_process(".run") == f".run.process-{os.getpid()}"


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_where_the_disk_is_full_the_events_are_kept_and_their_file_is_named(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    code = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{limit}" + 40 * TRAIN
    _, err = run(code, tmp_path, MINIGRAD_PROFILE_OUT="p", MINIGRAD_PROFILE_FORMAT="chrome")
    (kept,) = os.listdir(tmp_path)
    assert f"the events are kept in {tmp_path / kept}" in err
    with EventReader(str(tmp_path / kept), salvage=True) as reader:
        assert len(list(reader)) > 20 and reader.cut


@pytest.mark.parametrize("value", ["1e308", "1e999", "nan", "-1"])
def test_a_shortest_time_that_no_clock_tells_is_one_line_and_ignored(tmp_path, value):
    given = {"MINIGRAD_PROFILE_OUT": "run.jsonl", "MINIGRAD_PROFILE_MIN_US": value}
    _, err = run(TRAIN, tmp_path, **given)
    assert err == (
        f"minigrad: MINIGRAD_PROFILE_MIN_US={value!r} is ignored: it should be a number of "
        "microseconds\n"
    )
    assert os.listdir(tmp_path) == ["run.jsonl"]
