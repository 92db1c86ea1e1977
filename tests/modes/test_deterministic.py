"""Results repeat bit for bit: always on the CPU, on a GPU while the switch is on."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.engine import modes
from minigrad.ops.index.in_order import sum_in_order

pytestmark = pytest.mark.promise("results repeat; on a GPU an ordered form or an error")

PROGRAM = """
import hashlib, numpy as np, minigrad as mg
rng = np.random.default_rng(0)
x = mg.tensor(rng.standard_normal((4, 3, 16, 16)).astype("float32"), requires_grad=True)
w = mg.tensor(rng.standard_normal((5, 3, 3, 3)).astype("float32"), requires_grad=True)
index = rng.integers(0, 7, 500)
v = mg.tensor(rng.standard_normal(500).astype("float32"), requires_grad=True)
table = mg.tensor(rng.standard_normal((7, 64)).astype("float32"), requires_grad=True)
loss = (
    (mg.conv2d(x, w, padding=1) ** 2).sum()
    + (mg.scatter_add(mg.zeros(7, dtype="float32"), 0, mg.tensor(index), v) ** 2).sum()
    + (mg.bincount(index, weights=v) ** 3).sum()
    + (mg.index_put(mg.ones(7, dtype="float32"), index, v, accumulate=True) ** 2).sum()
    + (mg.embedding(mg.tensor(index), table) ** 2).sum()
)
loss.backward()
parts = [loss, x.grad, w.grad, v.grad, table.grad]
print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in parts)).hexdigest())
"""


def test_scatters_and_convolutions_repeat_from_run_to_run():
    digests = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1, digests


def test_scatters_repeat_within_a_run_also_beside_other_threads():
    values = np.random.default_rng(1).standard_normal(20_000).astype("float32")
    index = np.random.default_rng(2).integers(0, 50, 20_000)

    def run(into):
        x = mg.tensor(values, requires_grad=True)
        (mg.index_add(mg.zeros(50, dtype="float32"), 0, index, x) ** 2).sum().backward()
        into.append(x.grad.numpy().tobytes())

    results: list = []
    threads = [threading.Thread(target=run, args=(results,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and len(set(results)) == 1


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-50, 50)), max_size=80))
def test_the_ordered_sum_adds_every_value_once(pairs):
    index = np.array([i for i, _ in pairs], dtype=np.intp)
    values = np.array([v for _, v in pairs], dtype=np.float64)
    expected = np.zeros(7)
    np.add.at(expected, index, values)
    assert sum_in_order(values, index, 7).tolist() == expected.tolist()


def test_the_ordered_sum_handles_one_place_for_all():
    values = np.random.default_rng(0).standard_normal(1000)
    assert sum_in_order(values, np.zeros(1000, int), 3)[0] == pytest.approx(values.sum())


def test_the_switch_is_put_back_and_costs_nothing_when_off():
    before = modes.active
    assert not mg.are_deterministic_algorithms_enabled()
    with pytest.raises(ZeroDivisionError), mg.deterministic():
        assert mg.are_deterministic_algorithms_enabled() and modes.active == before + 1
        raise ZeroDivisionError
    assert modes.active == before
    mg.use_deterministic_algorithms(True)
    mg.use_deterministic_algorithms(True)
    mg.use_deterministic_algorithms(False)
    assert modes.active == before and not mg.are_deterministic_algorithms_enabled()


def test_on_the_cpu_every_op_runs_with_the_switch_on():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with mg.deterministic():
        mg.cumsum(x).sum().backward()
    assert x.grad.tolist() == [2, 1]


def test_the_list_names_ops_that_exist_with_reason_and_form():
    from minigrad.engine.registry import op

    listed = mg.nondeterministic_ops()
    assert {entry.form for entry in listed} == {"ordered", "raises"}
    assert all(entry.op in op and entry.device == "cuda" and entry.reason for entry in listed)


def test_blocks_of_two_threads_that_end_in_any_order_leave_the_switch_as_it_was():
    before = modes.checked
    one, other = mg.deterministic(), mg.deterministic()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert mg.are_deterministic_algorithms_enabled()
    other.__exit__(None, None, None)
    assert not mg.are_deterministic_algorithms_enabled() and modes.checked == before
