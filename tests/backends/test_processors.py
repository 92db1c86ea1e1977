"""Threads that share work run on different processors while they do and mg.accelerate is on."""

import os
import subprocess
import sys
import threading
from time import thread_time

import pytest

import minigrad as mg
from minigrad.backends import pool
from minigrad.backends.processors import queued
from tests.backends.test_pool import in_python

pytestmark = pytest.mark.promise(
    "with mg.accelerate threads run on processors of their own while they share work, and"
    " at no other time"
)

if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
    pytest.skip("needs Linux and two processors", allow_module_level=True)


@pytest.fixture(autouse=True)
def two_threads():
    before = pool.get_num_threads()
    pool.set_num_threads(2)
    pool.keep_apart(True)
    yield
    pool.keep_apart(False)
    pool.set_num_threads(before)


def processors_of_two(start=pool.share) -> list[set[int]]:
    """Where the caller and one helper may run while they are at work together, the caller first."""
    met, seen = threading.Barrier(2, timeout=20), {}

    def work(_):
        met.wait()
        seen[threading.get_ident()] = os.sched_getaffinity(0)
        met.wait()

    start(work, range(2))
    caller = seen.pop(threading.get_ident())
    return [caller, *seen.values()]


def test_the_caller_keeps_its_processor_and_the_helper_stays_off_it():
    allowed = os.sched_getaffinity(0)
    caller, helper = processors_of_two()
    assert len(caller) == 1
    assert helper == allowed - caller


def test_every_idle_helper_stays_off_it_whichever_takes_the_work():
    met = threading.Barrier(5, timeout=20)
    for _ in range(10):
        pool.together(met.wait, 5)  # by four helpers, who come back in any order, kept nowhere
        caller, helper = processors_of_two()
        assert not caller & helper


def test_afterwards_the_caller_may_run_where_it_could_before():
    allowed = os.sched_getaffinity(0)
    processors_of_two()
    assert os.sched_getaffinity(0) == allowed


def test_an_error_in_shared_work_frees_the_caller_too():
    allowed = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError):
        pool.share(lambda i: 1 / i, range(3))
    assert os.sched_getaffinity(0) == allowed


def test_work_that_may_start_threads_is_kept_nowhere():
    allowed = os.sched_getaffinity(0)
    processors_of_two()
    assert processors_of_two(lambda work, _: pool.together(lambda: work(0), 2)) == [allowed] * 2


def test_switched_off_all_may_run_where_they_could_before_at_once_and_from_then_on():
    allowed = os.sched_getaffinity(0)
    pool.keep_apart(False)
    assert processors_of_two() == [allowed] * 2
    with mg.accelerate(compiled=False):
        assert processors_of_two() != [allowed] * 2
    threads = [int(number) for number in os.listdir("/proc/self/task")]
    assert {frozenset(os.sched_getaffinity(n)) for n in threads} == {frozenset(allowed)}
    assert processors_of_two() == [allowed] * 2


def test_a_process_with_one_processor_shares_work_all_the_same():
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from minigrad.backends import pool
from minigrad.backends.processors import queued
pool.set_num_threads(3)
pool.keep_apart(True)
done = []
pool.share(done.append, range(100))
print(len(done))
"""
    assert in_python(code) == "100"


@pytest.mark.parametrize("said", ["0", "false"])
def test_the_environment_leaves_the_places_to_the_system(said):
    code = """
import os, sys
sys.path.insert(0, os.getcwd())
from tests.backends.test_processors import processors_of_two, pool
pool.set_num_threads(2)
pool.keep_apart(True)
print(processors_of_two() == [os.sched_getaffinity(0)] * 2)
"""
    assert in_python(code, MINIGRAD_KEEP_APART=said) == "True"


def test_a_wait_for_a_processor_is_told_from_computing():
    """This thread and another process, both with nothing but work, on one processor."""
    allowed = os.sched_getaffinity(0)
    here = min(allowed)
    os.sched_setaffinity(0, {here})  # the other process inherits it
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        if (before := queued()) is None:
            pytest.skip("this system does not count it")
        end = thread_time() + 0.1
        while thread_time() < end:
            pass
        assert queued() > before
        thread = threading.get_native_id()
        assert queued(thread) >= before and queued(0) is None
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)
