"""The parallel backward on several streams: the serial bits, and a wait wherever one is needed.

On the stand-in a missing wait is a fault, found by vector clocks (stand_in_streams.py), and every
test here ends by looking for faults; on a GPU the bits are compared.
"""

import sys
import threading
import time

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import device, threads
from minigrad.engine.primitive import primitive
from minigrad.parallel import streams

pytestmark = pytest.mark.promise(
    "on a GPU, in several streams, the same bits; no wait is missing, no memory in use is "
    "given again"
)

AWKWARD = [1e8, 1.0, -1e8, 1e-8]  # their sum depends on the order


@pytest.fixture(params=["fake", "gpu"])
def cupy(request, monkeypatch):
    monkeypatch.setattr(streams, "_homes", {})
    return request.getfixturevalue(request.param)


@pytest.fixture
def clocks(fake, monkeypatch):
    """What the stand-in's streams have seen."""
    monkeypatch.setattr(streams, "_homes", {})
    return sys.modules["stand_in_streams"]


def forced(workers=3):
    return {"engine": "parallel", "workers": workers, "min_work": 0}


@primitive
def unhurried(x):
    """y = 3x, whose rule lets go of the interpreter, so that other threads get their turn."""
    return x * 3.0


@unhurried.vjp("x")
def unhurried_dx(g):
    time.sleep(0.001)
    return g * 3.0


def on_device(values):
    return mg.tensor(np.asarray(values), device="cuda", requires_grad=True)


def ensemble(branches=6, depth=3):
    """Leaves and a loss of independent branches that share a leaf, with awkward sums."""
    shared = on_device(np.ones(4))
    leaves, parts = [shared], []
    for i in range(branches):
        leaf = on_device(np.full(4, AWKWARD[i % 4]))
        leaves.append(leaf)
        y = leaf * shared
        for _ in range(depth):
            y = unhurried(mg.tanh(y * 1e-8) + y)
        first, second = mg.split(y, 2)
        parts.append((first * second).sum() + (y * shared).sum())
    loss = parts[0]
    for part in parts[1:]:
        loss = loss + part
    return leaves, loss


def random_graph(seed, count=30):
    """Shared inputs, views, ports, constants, unused results."""
    rng = np.random.default_rng(seed)
    leaves = [on_device(rng.choice(AWKWARD, 4)) for _ in range(4)]
    xs = list(leaves)
    for _ in range(count):
        a, b = xs[rng.integers(len(xs))], xs[rng.integers(len(xs))]
        kind = rng.integers(7)
        if kind < 2:
            xs.append(a * b * 1e-8 if kind else a + b)
        elif kind == 2:
            xs.append(unhurried(mg.tanh(a)))
        elif kind == 3:
            xs.append(a.sum() * b)
        elif kind == 4:
            xs.extend(mg.split(a, 2) if a.shape == (4,) else [-a])
            xs[-1:] = [mg.concatenate([xs[-1], xs[-1]])] if xs[-1].shape == (2,) else []
            xs = [x for x in xs if x.shape != (2,)]
        elif kind == 5:
            xs.append(a.reshape(2, 2).T.reshape(4) if a.shape == (4,) else a * 2.0)
        else:
            xs.append(a.detach() * b)
    return leaves, sum((x.sum() for x in xs[-10:]), on_device(0.0) * 1.0)


def bits(leaves):
    return [None if x.grad is None else x.grad.numpy().tobytes() for x in leaves]


def gradients_of(make, **options):
    leaves, loss = make()
    with np.errstate(all="ignore"):
        loss.backward(**options)
    return bits(leaves)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_an_ensemble_gets_the_serial_bits(workers, cupy):
    expected = gradients_of(ensemble)
    for _ in range(10):
        assert gradients_of(ensemble, **forced(workers)) == expected


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_get_the_serial_bits(seed, cupy):
    expected = gradients_of(lambda: random_graph(seed))
    for workers in (2, 4):
        assert gradients_of(lambda: random_graph(seed), **forced(workers)) == expected


def test_a_second_backward_adds_to_grad_in_the_stream_of_the_caller(cupy):
    expected, found = [], []
    for options, into in (({}, expected), (forced(), found)):
        leaves, loss = ensemble()
        for _ in range(3):
            loss.backward(retain_graph=True, **options)
        into += bits(leaves)
    assert found == expected


def test_grad_of_inner_tensors_gets_the_serial_bits(cupy):
    x = on_device(AWKWARD)
    inner = [unhurried(x * float(i)) for i in range(1, 5)]
    loss = sum((unhurried(y).sum() for y in inner), on_device(0.0))
    expected = mg.grad(loss, [x, *inner], retain_graph=True)
    found = mg.grad(loss, [x, *inner], **forced())
    assert [g.numpy().tobytes() for g in found] == [g.numpy().tobytes() for g in expected]


def test_a_caller_in_a_stream_of_its_own_is_home_to_the_others(cupy):
    expected = gradients_of(ensemble)
    with mg.cuda.stream(mg.cuda.Stream()):
        assert gradients_of(ensemble, **forced()) == expected


def test_two_threads_at_once_borrow_different_streams(cupy):
    expected, found, together = gradients_of(ensemble), [], threading.Barrier(2)

    def many():
        together.wait(60)
        for _ in range(5):
            found.append(gradients_of(ensemble, **forced()))

    threads = [threading.Thread(target=many) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 10 and all(one == expected for one in found)
    borrowed = [stream.ptr for home in streams._homes.values() for _, stream in home.free]
    assert len(streams._homes) == 2 and len(borrowed) == len({*borrowed})


# -- what the stand-in sees ------------------------------------------------------------------------


def test_helpers_have_streams_of_their_own_and_home_waits_for_them_last(clocks):
    gradients_of(ensemble, **forced())
    borrowed = {waiting for waiting, _ in clocks.waits} - {0}
    assert borrowed
    ends = clocks.waits[-len(borrowed) :]
    assert {waiting for waiting, _ in ends} == {0} and {seen for _, seen in ends} == borrowed


def test_streams_are_used_again(clocks):
    for _ in range(5):
        gradients_of(ensemble, **forced(3))
    (home,) = streams._homes.values()
    assert 1 <= len(home.free) <= 2


def in_threads(work, count):
    """Runs work() in `count` threads one after the other, all started first: no two idents agree.

    Returns how many homes there were after each.
    """
    turns, homes = [threading.Event() for _ in range(count)], []

    def wait_and_work(turn):
        turn.wait(60)
        work()

    threads = [threading.Thread(target=wait_and_work, args=[turn]) for turn in turns]
    for thread in threads:
        thread.start()
    for turn, thread in zip(turns, threads, strict=True):
        turn.set()
        thread.join(60)
        homes.append(len(streams._homes))
    return homes


def test_a_thread_takes_over_the_home_of_a_dead_one_in_its_stream(clocks):
    expected, found = gradients_of(ensemble), []
    homes = in_threads(lambda: found.append(gradients_of(ensemble, **forced())), 5)
    assert homes == [1] * 5 and found == [expected] * 5
    (home,) = streams._homes.values()
    assert len(home.free) <= 2


def test_streams_of_dead_threads_are_forgotten(clocks):
    expected, found = gradients_of(ensemble), []

    def in_a_stream_of_its_own():
        with mg.cuda.stream(mg.cuda.Stream()):
            found.append(gradients_of(ensemble, **forced()))

    homes = in_threads(in_a_stream_of_its_own, 5)
    # a helper may still hold the last one's stream for a moment: then the next but one forgets it
    assert max(homes) <= 2 and found == [expected] * 5


def test_a_dead_threads_stream_that_somebody_has_is_kept(clocks):
    ours = mg.cuda.Stream()

    def in_our_stream():
        with mg.cuda.stream(ours):
            gradients_of(ensemble, **forced())

    in_threads(in_our_stream, 1)
    in_threads(lambda: gradients_of(ensemble, **forced()), 1)
    assert [home.stream.ptr for home in streams._homes.values()] == [ours.ptr, 0]


def test_a_dead_threads_stream_with_work_to_do_is_kept(clocks):
    def without_asking_for_values():
        with mg.cuda.stream(mg.cuda.Stream()):
            leaves, loss = ensemble()
            loss.backward(**forced())

    in_threads(without_asking_for_values, 1)
    in_threads(lambda: gradients_of(ensemble, **forced()), 1)
    assert len(streams._homes) == 2


def test_helpers_enter_the_hooks_that_watch_the_memory(fake, monkeypatch):
    inside, seen = threading.local(), set()

    class Hook:
        def __enter__(self):
            assert not hasattr(inside, "hook")
            inside.hook = self
            seen.add(threading.current_thread().name)

        def __exit__(self, *_):
            del inside.hook

    monkeypatch.setattr(device, "memory_hooks", device.memory_hooks + [Hook()])
    for _ in range(5):
        gradients_of(ensemble, **forced())
    assert seen and all(name.startswith("minigrad-") for name in seen)


def test_a_thread_that_stands_in_for_another_computes_in_its_stream(clocks):
    stream = mg.cuda.Stream()
    with mg.cuda.stream(stream):
        assert threads.on_new_stack(lambda: mg.cuda.current_stream().ptr) == stream.ptr


def test_a_cpu_graph_has_nothing_to_do_with_streams(clocks):
    x = mg.tensor(AWKWARD, requires_grad=True)
    loss = sum(unhurried(x * i).sum() for i in range(1, 5))
    loss.backward(**forced())
    assert not clocks.waits and not streams._homes


def _hooked(x):
    x.register_hook(lambda g: g * 2.0)
    return unhurried(x).sum()


def _checkpointed(x):
    return mg.checkpoint(lambda x: unhurried(mg.tanh(x)).sum(), x)


def _from_the_host(x):
    return unhurried(x.to("cpu").to("cuda")).sum()


@pytest.mark.parametrize("part", [_hooked, _checkpointed, _from_the_host])
def test_what_the_graph_does_not_tell_runs_in_one_stream(part, clocks):
    def make():
        leaves = [on_device(AWKWARD) for _ in range(4)]
        return leaves, sum((part(x) for x in leaves), on_device(0.0))

    expected = gradients_of(make)
    assert gradients_of(make, **forced()) == expected
    assert not clocks.waits


complete = threading.Event()  # the gradient of another leaf is
fails_later = primitive(lambda x: x * 1.0, name="fails_later")
fails_later.vjp("x")(lambda g: complete.wait(60) and 1 / 0)


def test_gradients_complete_before_an_error_are_handed_over(cupy, monkeypatch):
    good, bad = on_device([1.0, 2.0]), on_device([1.0, 2.0])
    complete.clear()

    def sent_by(self, i, sent_by=streams.StreamScheduler._sent_by):
        sent = sent_by(self, i)
        if self.work.order[i] is good.node:
            complete.set()
        return sent

    monkeypatch.setattr(streams.StreamScheduler, "_sent_by", sent_by)
    with pytest.raises(ZeroDivisionError):
        (fails_later(bad) * good).sum().backward(**forced(2))
    assert bad.grad is None and good.grad.numpy().tolist() == [1.0, 2.0]
    assert gradients_of(ensemble, **forced()) == gradients_of(ensemble)


def test_without_force_both_ways_are_measured_on_the_device(cupy):
    leaves, loss = ensemble()
    expected, said, ran = gradients_of(ensemble), [], set()
    for _ in range(20):
        mg.grad(loss, leaves, retain_graph=True, engine="parallel", workers=3)
        cupy.cuda.Device().synchronize()
        report = mg.engine.last_report()
        said.append(report.decision)
        ran.add(report.engine)
    assert said[0] == "a trial of both ways" and "serial on the device" in said[-1]
    assert ran == {"serial", "parallel"}
    assert gradients_of(ensemble, engine="parallel", workers=3) == expected


# -- the checks can fail ---------------------------------------------------------------------------


def faults_of(clocks):
    for _ in range(10):
        gradients_of(ensemble, **forced(4))
    found = " ".join(clocks.faults)
    clocks.faults.clear()
    return found


def test_without_waits_between_threads_the_stand_in_finds_a_race(clocks, monkeypatch):
    monkeypatch.setattr(streams.Seat, "wait_for", lambda self, marks: marks.clear())
    assert "reads what it has not waited for" in faults_of(clocks)


def test_without_the_wait_at_the_beginning_the_stand_in_finds_a_race(clocks, monkeypatch):
    def ran(self, event, wait=clocks.Stream.wait_event):
        if event.stream.ptr or not self.ptr:  # any but: a borrowed stream waits for home
            wait(self, event)

    monkeypatch.setattr(clocks.Stream, "wait_event", ran)
    assert "has not waited for" in faults_of(clocks)


def test_without_the_wait_at_the_end_the_stand_in_finds_a_race(clocks, monkeypatch):
    def back(self, come=streams.StreamScheduler._come_home):
        with monkeypatch.context() as inside:
            inside.setattr(clocks.Stream, "wait_event", lambda *_: None)
            come(self)

    monkeypatch.setattr(streams.StreamScheduler, "_come_home", back)
    assert "reads what it has not waited for" in faults_of(clocks)


def test_memory_that_is_not_kept_is_found_to_be_in_use(clocks, monkeypatch):
    def leave(self, used, leave=streams.Seat.leave):
        return leave(self, [])

    monkeypatch.setattr(streams.Seat, "leave", leave)
    assert "may get memory in use" in faults_of(clocks)
