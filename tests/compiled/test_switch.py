"""mg.accelerate: on, off, inside a block, from the environment, and without numba."""

import os
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.optional import optional
from minigrad.engine.registry import op
from tests.modes.test_interrupts import interrupted

pytestmark = pytest.mark.promise(
    "compiled loops give NumPy's numbers and NaN, with the same bits for any number of "
    "threads. Off, every op has its own forward again"
)

needs_numba = pytest.mark.skipif(
    optional("numba") is None, reason="mg.accelerate compiles with numba"
)


def ran(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240,
        env={**os.environ, **environment},
    )  # fmt: skip


@needs_numba
def test_off_every_op_has_its_own_forward_again():
    ops = [entry for entry in op if hasattr(entry, "plans")]
    before = {entry.name: (entry.reference, entry.variants) for entry in ops}
    with mg.accelerate(process=False):
        assert mg.is_accelerated() and mg.gelu.variants != before["gelu"][1]
    assert not mg.is_accelerated()
    assert before == {entry.name: (entry.reference, entry.variants) for entry in ops}


@needs_numba
def test_a_plain_call_holds_until_the_next_and_a_block_restores():
    mg.accelerate(process=False)
    try:
        with mg.accelerate(False):
            assert not mg.is_accelerated()
        assert mg.is_accelerated()
    finally:
        mg.accelerate(False)
    assert not mg.is_accelerated()


@needs_numba
def test_a_user_s_implementation_for_the_cpu_stays_the_one_that_runs():
    calls = []
    mg.cbrt.implementation("cpu")(lambda x: calls.append(1) or np.cbrt(x))
    try:
        with mg.accelerate(process=False):
            mg.cbrt(mg.tensor(np.ones(1 << 16, np.float32)))
        mg.cbrt(mg.tensor([1.0]))
    finally:
        mg.cbrt.remove_implementation("cpu")
    assert calls == [1, 1]


def test_importing_minigrad_imports_no_numba():
    done = ran("import sys, minigrad; print('numba' in sys.modules)", MINIGRAD_ACCELERATE="")
    assert done.stdout.strip() == "False", done.stderr


@needs_numba
def test_the_environment_switches_on():
    done = ran("import minigrad as mg; print(mg.is_accelerated())", MINIGRAD_ACCELERATE="1")
    assert done.stdout.strip() == "True", done.stderr


WITHOUT = "import sys; sys.modules['numba'] = None; import minigrad as mg\n"


def test_without_numba_the_error_says_how_to_install_it():
    done = ran(WITHOUT + "mg.accelerate()")
    assert "ImportError" in done.stderr and "/path/to/the/checkout[fast]" in done.stderr


def test_without_numba_the_environment_costs_one_line():
    done = ran(WITHOUT + "print(mg.is_accelerated())", MINIGRAD_ACCELERATE="1")
    assert done.stdout.strip() == "False"
    assert (
        len(done.stderr.strip().splitlines()) == 1 and "/path/to/the/checkout[fast]" in done.stderr
    )


@needs_numba
@pytest.mark.parametrize("name", ["compiled loops", "launches of compiled loops"])
def test_its_caches_are_listed_and_bounded(name):
    with mg.accelerate(process=False):
        mg.tanh(mg.tensor(np.ones(1 << 16, np.float32)))
    stats = mg.cache_stats()[name]
    assert stats["entries"] >= 1 and stats["max_entries"]


HITS = """
import numpy as np, minigrad as mg
from minigrad.compiled import launch
with mg.accelerate():
    mg.tanh(mg.tensor(np.ones(1 << 16, np.float32)))
(loop,) = [loop for loop, _ in launch.loops._entries.values()]
print(sum(loop.stats.cache_hits.values()))
"""


@needs_numba
def test_a_loop_is_kept_on_disk_for_the_next_program(tmp_path):
    for hits in ("0", "1"):
        done = ran(HITS, XDG_CACHE_HOME=str(tmp_path))
        assert done.stdout.strip() == hits, done.stderr


@needs_numba
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_loop_whose_file_was_damaged_is_compiled_and_kept_anew(kind, tmp_path):
    ran(HITS, XDG_CACHE_HOME=str(tmp_path))
    files = list(tmp_path.rglob(f"*.{kind}"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:20])
    for hits in ("0", "1"):
        done = ran(HITS, XDG_CACHE_HOME=str(tmp_path))
        assert done.stdout.strip() == hits, done.stderr


@needs_numba
def test_where_nothing_can_be_written_loops_stay_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    code = """
import numpy as np, minigrad as mg
with mg.accelerate():
    print(mg.tanh(mg.tensor(np.zeros(1 << 16, np.float32))).numpy().sum())
"""
    done = ran(code, XDG_CACHE_HOME=str(tmp_path / "file"))
    assert done.stdout.strip() == "0.0", done.stderr


def test_ctrl_c_between_the_entry_and_the_block_or_as_it_ends_switches_off():
    from minigrad.compiled import switch

    for at in range(1, 1000):
        block = mg.accelerate(compiled=False)  # from here on, until the block is entered

        def run(block=block):
            with block:
                pass

        where = interrupted(at, run)
        if switch._tuned:
            assert where in ("run", "__get__", "__enter__") and not block.is_entered
            mg.accelerate(False, compiled=False)
        if where is None:
            break
    assert at > 10


@pytest.mark.parametrize("mode", [True, False])
def test_ctrl_c_as_it_is_switched_leaves_nothing_half_done(mode):
    from minigrad.backends import heap, processors
    from minigrad.compiled import switch

    def parts():
        on = switch._tuned
        return on, heap._kept == on or not kept, (processors._processor_number is not None) == on

    with mg.accelerate(compiled=False):
        kept = heap._kept
    for at in range(1, 1000):
        mg.accelerate(not mode, compiled=False)
        where = interrupted(at, lambda: mg.accelerate(mode, compiled=False))
        assert parts()[1:] == (True, True), where
        if where is None:
            break
    assert at > 10 and parts()[0] == mode
    mg.accelerate(False, compiled=False)
