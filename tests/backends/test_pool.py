"""Threads that share large array work: all of it is done, errors arrive, nothing hangs."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import pool

pytestmark = pytest.mark.promise(
    "shared work: all of it, errors arrive, no bit depends on the number of threads"
)


@pytest.fixture(autouse=True)
def four_threads():
    before = mg.get_num_threads()
    mg.set_num_threads(4)
    yield
    mg.set_num_threads(before)


def in_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    return done.stdout.strip()


def test_every_piece_is_done_once():
    counts = np.zeros(1000, int)

    def work(i):
        counts[i] += 1

    pool.share(work, range(1000))
    assert (counts == 1).all()


def test_several_threads_take_part():
    met = threading.Barrier(4, timeout=20)
    pool.share(lambda i: met.wait(), range(4))  # would time out with fewer


def test_shared_work_inside_shared_work_runs_where_it_is():
    def inner(seen, i):
        seen.append(threading.get_ident())

    def outer(i):
        seen: list = []
        pool.share(lambda j: inner(seen, j), range(5))
        assert seen == [threading.get_ident()] * 5

    pool.share(outer, range(8))


def test_an_error_of_a_helper_is_raised_and_stops_the_rest():
    done, met = [], threading.Barrier(2, timeout=20)

    def work(i):
        if i < 2:
            met.wait()  # two threads are at work
        if i == 1:
            raise ValueError("piece 1")
        time.sleep(0.001)
        done.append(i)

    mg.set_num_threads(2)
    with pytest.raises(ValueError, match="piece 1"):
        pool.share(work, range(1000))
    assert len(done) < 999
    pool.share(done.append, range(3))  # and the helpers go on
    assert done[-3:] == [0, 1, 2] or set(done[-3:]) == {0, 1, 2}


def test_helpers_see_the_callers_errstate():
    def work(i):
        np.ones(10_000, np.float32) / np.zeros(10_000, np.float32)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        pool.share(work, range(50))
    with np.errstate(divide="ignore"):
        pool.share(work, range(50))


def test_a_busy_helper_delays_nobody():
    mg.set_num_threads(2)
    begun, end = threading.Event(), threading.Event()

    def hold(i):
        begun.set()
        assert end.wait(20)

    other = threading.Thread(target=pool.share, args=(hold, range(2)))
    other.start()
    assert begun.wait(20)
    done: list = []
    pool.share(done.append, range(5))
    assert sorted(done) == [0, 1, 2, 3, 4]
    end.set()
    other.join(20)
    assert not other.is_alive()


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none_is_refused(n):
    with pytest.raises(ValueError, match="integer"):
        mg.set_num_threads(n)


def test_a_number_of_threads_may_be_numpys():
    mg.set_num_threads(np.int64(3))
    assert type(mg.get_num_threads()) is int and mg.get_num_threads() == 3
    x = mg.ones(3, requires_grad=True)
    (x * x).sum().backward(engine="parallel", workers=np.int64(2), min_work=0)
    assert type(mg.engine.last_report().workers) is int and mg.engine.last_report().workers == 2


def test_the_environment_sets_the_number_of_threads():
    code = "import minigrad as mg; print(mg.get_num_threads())"
    assert in_python(code, MINIGRAD_NUM_THREADS="3", OMP_NUM_THREADS="5") == "3"


@pytest.mark.parametrize("number", ["0", "-5", "nan", "²", "9" * 30])
@pytest.mark.parametrize("name", ["MINIGRAD_NUM_THREADS", "OMP_NUM_THREADS"])
def test_a_number_in_the_environment_that_is_none_is_ignored(name, number):
    code = "import minigrad as mg; print(mg.get_num_threads() >= 1)"
    assert in_python(code, **{name: number}) == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_shares_work_with_helpers_of_its_own():
    code = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from minigrad.backends import pool
pool.set_num_threads(3)
done = []
pool.share(done.append, range(100))
child = os.fork()
if child == 0:
    pool.share(done.append, range(100))
    os._exit(0 if len(done) == 200 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert in_python(code) == "0"


def test_the_interpreter_ends_at_once_with_idle_helpers():
    code = """
import time
from minigrad.backends import pool
pool.set_num_threads(8)
pool.share(lambda i: time.sleep(0.001), range(50))
print("end")
"""
    assert in_python(code) == "end"


# -- the numbers do not depend on the threads ------------------------------------------------------


def leaves(*shapes):
    rng = np.random.default_rng(0)
    return [mg.tensor(rng.standard_normal(s, dtype=np.float32), requires_grad=True) for s in shapes]


IMAGES = (24, 16, 40, 40)
OPS = {
    "layer_norm": (lambda x, w, b: mg.layer_norm(x, 600, w, b), [(1200, 600), (600,), (600,)]),
    "batch_norm": (
        lambda x, w, b: mg.batch_norm(x, None, None, w, b, training=True), [IMAGES, (16,), (16,)]),
    "softmax": (mg.softmax, [(1200, 600)]),
    "log_softmax": (mg.log_softmax, [(1200, 600)]),
    "gelu": (mg.gelu, [(1200, 600)]),
    "cross_entropy": (
        lambda x: mg.cross_entropy(x, np.arange(1200) % 600), [(1200, 600)]),
    "conv": (lambda x, w, b: mg.conv2d(x, w, b, padding=1), [IMAGES, (8, 16, 3, 3), (8,)]),
    "depthwise": (lambda x, w: mg.conv2d(x, w, groups=16), [IMAGES, (16, 1, 3, 3)]),
    "max_pool": (lambda x: mg.max_pool2d(x, 3, 2, 1), [IMAGES]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_the_number_of_threads_changes_no_bit(name):
    op, shapes = OPS[name]
    results = []
    for n in (1, 2, 5):
        mg.set_num_threads(n)
        xs = leaves(*shapes)
        y = op(*xs)
        mg.sum(y * y).backward()
        results.append([y.detach().numpy(), *(x.grad.numpy() for x in xs)])
    for others in results[1:]:
        for a, b in zip(others, results[0], strict=True):
            np.testing.assert_array_equal(a, b)
