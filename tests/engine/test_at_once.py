"""Threads at once: each gets the bits that it would get alone, and what all of them count is exact.

A CPython without the GIL runs them side by side; one with it lets them take turns every 10 µs here.
"""

import gc
import sys
import threading
from collections import Counter

import numpy as np
import pytest

import minigrad as mg
from minigrad import data, func, optim
from minigrad.engine import graph, modes
from minigrad.engine.registry import Registry
from minigrad.instrument.memory import PeakMemory
from minigrad.modes import hooks

pytestmark = pytest.mark.promise(
    "threads at once get the bits that each would get alone, in every engine, mode and "
    "transform; shared counts are exact"
)

THREADS = 6


@pytest.fixture(autouse=True)
def short_turns():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*works):
    """What each of the functions returns, all run in threads that begin together."""
    gate, found, errors = threading.Barrier(len(works)), [None] * len(works), []

    def body(i):
        gate.wait()
        try:
            found[i] = works[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]
    return found


def bits(tensors):
    return [np.asarray(x.numpy()).tobytes() for x in tensors]


def weights(seed, n=16):
    rng = np.random.default_rng(seed)
    return [mg.tensor(rng.standard_normal((n, n)) / 4, requires_grad=True) for _ in range(4)]


def loss_of(ws):
    h = total = ws[0] @ ws[1]
    for w in ws:
        h = mg.tanh(h @ w) + h * 1.01
        total = total + h * h
    return total.sum()


def serial(seed):
    ws = weights(seed)
    loss_of(ws).backward()
    return bits([w.grad for w in ws])


def parallel(seed):
    ws = weights(seed)
    loss_of(ws).backward(engine="parallel", workers=2, min_work=0)
    return bits([w.grad for w in ws])


def taped(seed):
    ws = weights(seed)
    with mg.Tape() as tape:
        loss = loss_of(ws)
    loss.backward(engine=tape)
    return bits([w.grad for w in ws])


def checkpointed(seed):
    ws = weights(seed)
    mg.checkpoint(lambda *ws: loss_of(ws), *ws).backward()
    return bits([w.grad for w in ws])


def without_recording(seed):
    ws = weights(seed)
    with mg.no_grad():
        y = loss_of(ws)
    assert y.node is None and loss_of(ws).node is not None
    return bits([y])


def narrowed(seed):
    a, b = (w.detach().astype("float32") for w in weights(seed)[:2])
    with mg.autocast(mg.float16):
        y = a @ b
    assert y.dtype == np.float16 and (a @ b).dtype == np.float32
    return bits([y.detach()])


def transformed(seed):
    x = mg.tensor(np.random.default_rng(seed).standard_normal((4, 3)))
    return bits([
        func.vmap(func.grad(lambda r: (mg.sin(r) * r).sum()))(x),
        func.jvp(lambda r: mg.exp(r) * r, (x,), (x,))[1],
        func.hessian(lambda r: (r**3).sum())(x[0]),
    ])  # fmt: skip


def trained(seed):
    ws = weights(seed)
    optimizer = (optim.SGD, optim.Adam, optim.RMSprop)[seed % 3](ws, lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(ws).backward()
        optimizer.step()
    return bits(ws)


def large(seed):
    x = mg.tensor(np.random.default_rng(seed).standard_normal((400, 500)), requires_grad=True)
    (mg.gelu(x) * mg.softmax(x)).sum().backward()
    return bits([x.grad])


def loaded(seed):
    rows = data.ArrayDataset(np.arange(60.0).reshape(30, 2))
    order = np.random.default_rng(seed)
    loader = data.DataLoader(rows, batch_size=7, shuffle=True, num_workers=2, generator=order)
    return bits([x for (x,) in loader])


def written(seed):
    ws = weights(seed)
    y = ws[0] * ws[1]
    y[0] = 2.0
    y += ws[2]
    y.sum().backward()
    with mg.no_grad():
        ws[3][0] = 1.0
    return bits([ws[0].grad, ws[2].grad, ws[3].detach()])


WORKS = [
    serial, parallel, taped, checkpointed, without_recording, narrowed, transformed, trained,
    large, loaded, written,
]  # fmt: skip


@pytest.mark.parametrize("work", WORKS, ids=[work.__name__ for work in WORKS])
def test_threads_that_do_the_same_each_get_what_they_would_get_alone(work):
    def repeated(seed):
        return lambda: [work(seed) for _ in range(4)]

    alone = [work(seed) for seed in range(THREADS)]
    assert at_once(*map(repeated, range(THREADS))) == [[one] * 4 for one in alone]


def test_threads_that_do_different_things_each_get_what_they_would_get_alone():
    def each_in_turn(seed):
        return lambda: [work(seed) for work in (*WORKS[seed:], *WORKS[:seed])]

    works = [each_in_turn(seed) for seed in range(THREADS)]
    alone = [work() for work in works]
    before = modes.active, modes.checked, modes.levels
    assert at_once(*works) == alone
    assert (modes.active, modes.checked, modes.levels) == before


@pytest.mark.parametrize("engine", ["serial", "parallel"])
def test_a_leaf_of_all_threads_gets_the_sum(engine):
    leaf = mg.tensor(np.zeros((3, 3)), requires_grad=True)
    options = {"engine": engine} | ({"workers": 2, "min_work": 0} if engine == "parallel" else {})

    def work():
        for _ in range(50):
            (leaf * 2.0 + leaf).sum().backward(**options)

    at_once(*[work] * THREADS)
    assert leaf.grad.tolist() == np.full((3, 3), 3.0 * 50 * THREADS).tolist()


def calls(count=100):
    x = mg.tensor(np.ones(5), requires_grad=True)
    for _ in range(count):
        (mg.tanh(x) * 2.0).sum().backward()


def test_a_profile_counts_the_calls_of_all_threads_also_while_it_is_read():
    with mg.profile() as prof:
        at_once(*[calls] * THREADS, lambda: [prof.rows() for _ in range(20)])
    found = Counter({(row.op, row.phase): row.calls for row in prof.rows()})
    assert found == {
        (op, phase): 100 * THREADS
        for op in ("tanh", "mul", "sum")
        for phase in ("forward", "backward")
    }


@pytest.mark.parametrize("lines", [False, True])
def test_an_op_may_run_for_the_first_time_while_a_profile_is_read(lines, monkeypatch):
    module = sys.modules[mg.profile.__module__]
    other_ops, place = iter([mg.exp, mg.sin, mg.cos]), module._place

    def run_another_op(origin):
        for op in other_ops:
            op(mg.tensor(1.0))
            break
        return place(origin)

    with mg.profile(lines=lines) as prof:
        calls(1)
        monkeypatch.setattr(module, "_place", run_another_op)
        known = {row.op for row in prof.rows()}
        assert next(other_ops, None) is None  # all three ran between two looks of rows()
        assert known == {"tanh", "mul", "sum"}
        assert {row.op for row in prof.rows()} == known | {"exp", "sin", "cos"}


def test_a_profile_that_comes_and_goes_changes_no_gradient():
    def watching():
        for i in range(20):
            with mg.profile(lines=i % 2 == 0, memory=i % 3 == 0) as prof:
                calls(1)
            assert prof.rows()

    alone = serial(1)
    found = at_once(watching, watching, lambda: [serial(1) for _ in range(30)])
    assert found[2] == [alone] * 30


def test_bytes_that_threads_free_at_once_are_all_subtracted():
    memory, ready = PeakMemory(), threading.Barrier(THREADS)

    def work():
        mine = [np.ones(5) for _ in range(2000)]
        for x in mine:
            memory.hear(("forward", "exp", 0, 0, None, (), (x,), {}))
        ready.wait()
        mine.clear()

    at_once(*[work] * THREADS)
    gc.collect()
    assert memory.total == 0 and sum(memory.live.values()) == 0


def test_ops_may_be_registered_while_others_are_listed():
    def register():
        for i in range(200):
            ops.register(f"op{i}", i)

    ops = Registry("op")
    sizes = at_once(register, *[lambda: [len(list(ops)) for _ in range(200)]] * 2)[1:]
    assert all(some == sorted(some) for some in sizes) and len(list(ops)) == 200


def test_a_hook_that_two_threads_remove_at_once_is_removed_once():
    class Slow(hooks.HookHandle):
        other = None

        @property
        def _attached(self):
            kept = self.kept
            if self.other is None:
                self.other = threading.Thread(target=self.remove)
                self.other.start()
                self.other.join(timeout=0.2)
            return kept

        @_attached.setter
        def _attached(self, attached):
            self.kept = attached

    x = mg.tensor([1.0], requires_grad=True)
    handle = x.register_hook(lambda g: g)
    before = graph.hook_count
    handle.__class__, handle.kept = Slow, handle.__dict__.pop("_attached")
    handle.remove()
    handle.other.join(timeout=10)
    assert graph.hook_count == before - 1
