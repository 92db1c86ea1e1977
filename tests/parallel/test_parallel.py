"""The parallel engine gives the bits, hooks and errors of the serial one, and a report."""

import gc
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends import blas, pool
from minigrad.engine import backward, modes
from minigrad.engine.primitive import primitive
from minigrad.parallel import walk as parallel
from minigrad.parallel import work
from minigrad.parallel.report import detailed
from minigrad.parallel.scheduler import Scheduler, Sum

pytestmark = pytest.mark.promise(
    "the parallel engine gives the serial bits with any number of workers (at one BLAS "
    "thread) (K13)"
)

WORKERS = (1, 2, 4, 8, 64)
AWKWARD = [1e8, 1.0, -1e8, 1e-8]  # their sum depends on the order


def forced(workers=4):
    return {"engine": "parallel", "workers": workers, "min_work": 0}


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so within {seconds} s"
        pool.together(lambda: time.sleep(0.01), 64)  # without the GIL helpers let go as they wake


def random_graph(seed, count=30):
    """Leaves and a loss of many kinds of node: shared inputs, views, ports, unused results."""
    rng = np.random.default_rng(seed)
    leaves = [mg.tensor(rng.choice(AWKWARD, 3), requires_grad=True) for _ in range(4)]
    xs = list(leaves)
    for _ in range(count):
        a, b = xs[rng.integers(len(xs))], xs[rng.integers(len(xs))]
        kind = rng.integers(7)
        if kind == 0:
            xs.append(a * b)
        elif kind == 1:
            xs.append(a + b)
        elif kind == 2:
            xs.append(mg.tanh(a))
        elif kind == 3:
            xs.append(a.sum() * b)
        elif kind == 4:
            xs.extend(mg.split(a, 3) if a.shape == (3,) else [-a])
        elif kind == 5:
            xs.append(a - b * 1e-8)
        else:
            xs.append(a.detach() * b)
    return leaves, sum((x.sum() for x in xs[-10:]), mg.tensor(0.0, requires_grad=True) * 1.0)


def bits(tensors):
    return [None if x is None else (str(x.dtype), x.shape, x.data.tobytes()) for x in tensors]


def gradient_bits(seed, **options):
    leaves, loss = random_graph(seed)
    with np.errstate(all="ignore"):
        loss.backward(**options)
    return bits([x.grad for x in leaves])


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(WORKERS))
def test_random_graphs_get_the_bits_of_the_serial_engine(seed, workers):
    assert gradient_bits(seed, **forced(workers)) == gradient_bits(seed)


@pytest.mark.parametrize("workers", WORKERS)
def test_awkward_sums_keep_their_bits_two_hundred_times(workers):
    x = mg.tensor(np.ones(50), requires_grad=True)
    loss = sum((mg.tanh(x) * AWKWARD[i % 4]).sum() for i in range(24))
    (expected,) = mg.grad(loss, [x], retain_graph=True)
    for _ in range(200):
        (g,) = mg.grad(loss, [x], retain_graph=True, **forced(workers))
        assert g.data.tobytes() == expected.data.tobytes()


def test_a_second_backward_adds_to_grad_as_the_serial_engine_does():
    x, y = (mg.tensor(np.array(AWKWARD), requires_grad=True) for _ in range(2))
    for leaf, options in ((x, {}), (y, forced())):
        for _ in range(3):
            (leaf * leaf.sum()).sum().backward(**options)
    assert bits([x.grad]) == bits([y.grad])


def test_grad_of_inner_tensors_and_gradients_of_all_are_the_same():
    leaves, loss = random_graph(3)
    x, y = leaves[0] * 2.0, leaves[1]
    z = (x * y + mg.tanh(x)).sum()
    serial = mg.grad(z, [x, y], retain_graph=True)
    assert bits(mg.grad(z, [x, y], retain_graph=True, **forced())) == bits(serial)
    store = mg.gradients(z, retain_graph=True)
    again = mg.gradients(z, **forced())
    assert bits([again[t] for t in (x, y, z)]) == bits([store[t] for t in (x, y, z)])


def test_gradients_share_no_memory_with_each_other_or_the_seed():
    x, y = (mg.tensor(np.ones(4), requires_grad=True) for _ in range(2))
    seed = np.ones(4)
    (x + y).backward(seed, **forced())
    assert not np.shares_memory(x.grad.data, y.grad.data)
    assert not np.shares_memory(x.grad.data, seed)


def test_saved_arrays_are_let_go_and_a_second_backward_says_so():
    leaves, loss = random_graph(5)
    with np.errstate(all="ignore"):
        loss.backward(**forced())
    with pytest.raises(mg.errors.GraphReleasedError):
        loss.backward(**forced())


def test_a_changed_saved_array_is_an_error():
    x, factor = mg.tensor(np.ones(3), requires_grad=True), mg.tensor(np.ones(3))
    loss = (x * factor).sum()
    factor[0] = 5.0
    with pytest.raises(mg.errors.InPlaceError):
        mg.grad(loss, [x], **forced())


def test_gradients_of_gradients_are_recorded_serially():
    x = mg.tensor([2.0], requires_grad=True)
    (g,) = mg.grad((x * x * x).sum(), [x], create_graph=True, **forced())
    assert mg.engine.last_report().engine == "serial"
    (h,) = mg.grad(g.sum(), [x], **forced())
    assert h.tolist() == [12.0]


def test_no_cycle_is_left_after_success_or_failure():
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            leaves, loss = random_graph(7)
            with np.errstate(all="ignore"):
                loss.backward(**forced())
            x = mg.tensor([1.0], requires_grad=True)
            loss = sum((failing(x * i, tag=f"n{i}") for i in range(4)), x).sum()
            with pytest.raises(ZeroDivisionError):
                loss.backward(**forced())
            del leaves, loss, x
        # a helper that has just finished its part may still be on its way out of it
        wait_until(lambda: not any(type(o) in (Scheduler, Sum) for o in gc.get_objects()))
    finally:
        gc.enable()


# -- order, hooks, modes ---------------------------------------------------------------------------


def hooked_run(**options):
    seen = {"total": [], "accumulated": [], "ready": [], "node": []}
    x, y = (mg.tensor(np.ones(3) * i, requires_grad=True) for i in (2, 3))
    a, b = x * y, mg.tanh(x)
    c = a + b * a
    for name, t in {"a": a, "b": b, "x": x}.items():
        t.register_hook(lambda g, name=name: seen["total"].append((name, g.tolist())))
    x.register_hook(lambda g: g * 2)
    for name, t in {"x": x, "y": y}.items():
        t.register_post_accumulate_grad_hook(
            lambda t, name=name: seen["accumulated"].append((name, t.grad.tolist()))
        )
        t.register_leaf_ready_hook(lambda t, name=name: seen["ready"].append(name))
    c.grad_fn.register_hook(lambda gx, gy: seen["node"].append(len(gx)))
    a.retain_grad()
    c.sum().backward(**options)
    return {k: sorted(v) for k, v in seen.items()}, bits([x.grad, y.grad, a.grad])


@pytest.mark.parametrize("workers", WORKERS)
def test_hooks_see_the_same_totals_once(workers):
    assert hooked_run(**forced(workers)) == hooked_run()


def test_hooks_run_one_at_a_time():
    x = mg.tensor([1.0], requires_grad=True)
    inside, most = [], []

    def hook(g):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    ys = [x * float(i) for i in range(12)]
    for y in ys:
        y.register_hook(hook)
    sum(ys).sum().backward(**forced(4))
    assert len(most) == 12 and max(most) == 1


def test_hooks_of_one_tensor_run_in_the_order_of_registration():
    x = mg.tensor([1.0], requires_grad=True)
    y, seen = x * 2.0, []
    for i in range(5):
        y.register_hook(lambda g, i=i: seen.append(i))
    (y * x).sum().backward(**forced())
    assert seen == [0, 1, 2, 3, 4]


@primitive
def observed(x, *, look=None):
    return x * 1.0


@observed.vjp("x")
def observed_dx(g, look):
    look()
    return g


@primitive
def failing(x, *, tag="", error=ZeroDivisionError):
    """y = x; its rule raises error(tag), or does not if there is no tag."""
    return x * 1.0


@failing.vjp("x")
def failing_dx(g, tag, error):
    if tag:
        time.sleep(0.001)
        raise error(tag)
    return g


def meeting_graph(look, count=2):
    """A loss whose `count` rules each call look()."""
    x = mg.tensor([1.0], requires_grad=True)
    return x, sum(observed(x * float(i), look=look) for i in range(count)).sum()


def test_vertices_that_do_not_depend_on_each_other_run_at_once():
    meeting = threading.Barrier(2, timeout=20)
    _, loss = meeting_graph(meeting.wait)
    loss.backward(**forced(2))  # a serial walk would break the barrier


def test_modes_error_state_and_context_variables_reach_the_workers():
    meeting, seen = threading.Barrier(3, timeout=20), []

    def look():
        meeting.wait()
        seen.append((modes.state.scope, modes.state.recording, np.geterr()["divide"]))

    _, loss = meeting_graph(look, 3)
    with mg.scope("here"), mg.no_grad(), np.errstate(divide="raise"):
        loss.backward(**forced(3))
    assert seen == [("here", False, "raise")] * 3


def test_workers_leave_their_modes_as_they_were():
    meeting, states = threading.Barrier(2, timeout=20), []
    _, loss = meeting_graph(meeting.wait)
    with mg.scope("here"):
        loss.backward(**forced(2))
    together = threading.Barrier(2, timeout=20)
    pool.together(lambda: (together.wait(), states.append(modes.state.scope)), 2)
    assert states == ["", ""]


def test_detect_anomaly_looks_at_what_workers_compute():
    xs = [mg.tensor([0.0], requires_grad=True) for _ in range(4)]
    loss = sum(mg.sqrt(x) for x in xs).sum()
    with mg.detect_anomaly(), pytest.raises(mg.errors.AnomalyError, match="sqrt"):
        with np.errstate(all="ignore"):
            loss.backward(**forced())


def test_checkpoints_repeat_their_random_numbers_in_any_thread():
    def member(w):
        h = mg.checkpoint(lambda w: mg.dropout(mg.tanh(w * 2.0), 0.5) * w, w)
        return h.sum()

    def run(**options):
        mg.manual_seed(1)
        ws = [mg.tensor(np.linspace(0, 1, 200) + i, requires_grad=True) for i in range(6)]
        sum(member(w) for w in ws).backward(**options)
        return bits([w.grad for w in ws])

    expected = run()
    for _ in range(10):
        assert run(**forced(4)) == expected


def test_saved_tensors_hooks_unpack_in_workers():
    x = mg.tensor(np.ones(5), requires_grad=True)
    with mg.saved_tensors_hooks(lambda t: t.data + 0, lambda a: mg.tensor(a)):
        loss = sum((x * x * float(i)).sum() for i in range(6))
    loss.backward(**forced())
    assert x.grad.tolist() == [30.0] * 5


def test_listeners_hear_each_node_once_with_the_thread_it_ran_in():
    meeting, heard = threading.Barrier(2, timeout=20), []

    def hear(event):
        if event[0] == "backward":
            heard.append((event[1], threading.get_ident()))

    _, loss = meeting_graph(meeting.wait)
    mg.engine.events.listen(hear)
    try:
        loss.backward(**forced(2))
    finally:
        mg.engine.events.unlisten(hear)
    threads = {thread for op, thread in heard if op == "observed"}
    assert len(threads) == 2 and [op for op, _ in heard].count("observed") == 2


# -- choices ---------------------------------------------------------------------------------------


def test_a_small_graph_runs_serially_and_the_report_says_why():
    x = mg.tensor(np.ones(3), requires_grad=True)
    (x * 2.0).sum().backward(engine="parallel", workers=4)
    report = mg.engine.last_report()
    assert report.engine == "serial" and "forecast" in report.decision and report.workers == 4


def test_a_chain_has_no_parallelism_and_runs_serially():
    w = mg.tensor(np.ones((300, 300), np.float32) / 300, requires_grad=True)
    h = mg.tensor(np.ones((1, 300), np.float32), requires_grad=True)
    for _ in range(5):
        h = mg.sin(mg.sin(mg.sin(h)))
    h.sum().backward(engine="parallel", workers=4)
    assert mg.engine.last_report().engine == "serial"
    del w


def test_wide_slow_graphs_run_in_parallel_once_their_cost_is_known():
    def slow():
        time.sleep(0.02)

    engines = set()
    for _ in range(4):
        _, loss = meeting_graph(slow, 4)
        loss.backward(engine="parallel", workers=4)
        engines.add(mg.engine.last_report().engine)
    assert "parallel" in engines


def test_the_estimate_of_a_graph_that_comes_again_is_kept(monkeypatch):
    made = []

    class Counted(work.Estimate):
        def __init__(self, *args):
            made.append(1)
            super().__init__(*args)

    monkeypatch.setattr(parallel, "Estimate", Counted)
    for _ in range(10):
        _, loss = meeting_graph(lambda: time.sleep(0.005), 3)
        loss.backward(engine="parallel", workers=3)
    assert len(made) == 5  # while costs are learned


def test_the_report_of_a_parallel_backward_has_its_lanes():
    meeting = threading.Barrier(2, timeout=20)
    _, loss = meeting_graph(meeting.wait)
    loss.backward(**forced(2))
    report = mg.engine.last_report()
    assert report.engine == "parallel" and len(report.lanes) == 2
    assert sum(lane.nodes for lane in report.lanes) == report.nodes
    assert report.work >= report.span > 0


def test_the_report_of_a_forced_backward_says_how_many_threads_blas_had():
    _, loss = meeting_graph(threading.Barrier(2, timeout=20).wait)
    loss.backward(**forced(2))
    assert mg.engine.last_report().blas_outside == blas.threads()


def test_an_unknown_engine_or_a_bad_option_is_refused():
    x = mg.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"no engine 'paralel'.*parallel.*serial"):
        x.sum().backward(engine="paralel")
    with pytest.raises(ValueError, match="workers"):
        x.sum().backward(engine="parallel", workers=0)
    with pytest.raises(ValueError, match="min_work"):
        x.sum().backward(engine="parallel", min_work=-1)
    assert set(backward.engines) >= {"serial", "parallel"}


def test_blas_is_held_to_one_thread_meanwhile_and_put_back():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    seen = []
    _, loss = meeting_graph(lambda: seen.append(blas.threads()))
    with threadpoolctl.threadpool_limits(2, "blas"):
        loss.backward(**forced(2))
        assert seen == [1, 1]
        assert blas.threads() == 2
    assert mg.engine.last_report().blas_threads == 1


def test_what_threads_computed_is_measured_where_it_is_asked_for():
    _, loss = random_graph(3)
    mg.backward(loss, retain_graph=True, **forced(2))
    assert all(lane.computed == lane.queued == 0 for lane in mg.engine.last_report().lanes)
    with detailed():
        mg.backward(loss, **forced(2))
    lanes = mg.engine.last_report().lanes
    assert all(lane.computed >= lane.cpu >= 0 and lane.queued >= 0 for lane in lanes)
    assert max(lane.computed for lane in lanes) > 0
