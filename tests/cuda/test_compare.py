"""compare on a device: the serial bits from several streams, and bars that are the streams'."""

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("where", ["fake", "gpu"])
def test_compare_shows_the_streams_of_a_parallel_backward(where, request):
    pytest.importorskip("minigrad_profiler")
    from minigrad_profiler import compare

    request.getfixturevalue(where)
    x = mg.tensor(np.ones((16, 16)), device="cuda")
    ws = [mg.tensor(np.eye(16) * i, device="cuda", requires_grad=True) for i in range(1, 7)]
    loss = sum((mg.tanh(x @ w).sum() for w in ws[1:]), mg.tanh(x @ ws[0]).sum())
    found = compare(loss, workers=[1, 3], repeats=2)
    assert all(way.same_bits for way in found.ways)
    for run in found.runs:
        assert len(run.bars) == len([op for op in found.model.ops if op])
        assert {bar.lane for bar in run.bars} <= set(range(run.workers))
        assert sum(run.losses.values()) == pytest.approx(run.workers * run.length)
    assert all(w.grad is None for w in ws)
