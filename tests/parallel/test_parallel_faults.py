"""Whatever goes wrong, a parallel backward ends with the right error and can be used again.

Each test runs in a process of its own with a time-out: a hang is a failure, not a stuck suite.
"""

import os
import subprocess
import sys
import textwrap
import time

import pytest

pytestmark = pytest.mark.promise(
    "a failing, None-giving, forking or interrupted backward ends with the right error, and "
    "the pool goes on"
)

BEGIN = """
import os, signal, sys, threading, time
import numpy as np
import minigrad as mg
from minigrad.engine.primitive import primitive

def forced(workers=4):
    return dict(engine="parallel", workers=workers, min_work=0)

@primitive
def acting(x, *, act=None):
    return x * 1.0

@acting.vjp("x")
def acting_dx(g, act):
    return g if act is None else act(g)

def layers(width=3, depth=3, act=lambda layer, lane: None):
    "A leaf, and a loss over width × depth nodes that meet in every layer."
    x = mg.tensor(np.ones(4), requires_grad=True)
    h = x
    for layer in range(depth):
        h = sum(acting(h, act=act(layer, lane)) for lane in range(width))
    return x, h.sum()

def usable():
    "The pool still works."
    x, loss = layers()
    loss.backward(**forced())
    assert x.grad.tolist() == [27.0] * 4, x.grad
"""


def run(program, timeout=60, code=0):
    """The output of a program that must end by itself, in time, with this exit code."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(program)],
        capture_output=True, text=True, timeout=timeout, start_new_session=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout, time.monotonic() - started


def test_a_failure_at_each_node_in_turn_is_raised_and_leaves_the_pool_usable():
    run("""
        def boom(g):
            raise ArithmeticError("here")
        for workers in (1, 2, 4):
            for layer in range(3):
                for lane in range(3):
                    x, loss = layers(act=lambda i, j: boom if (i, j) == (layer, lane) else None)
                    try:
                        loss.backward(**forced(workers))
                    except ArithmeticError as error:
                        assert str(error) == "here"
                        names = []
                        trace = error.__traceback__
                        while trace:
                            names.append(trace.tb_frame.f_code.co_name)
                            trace = trace.tb_next
                        assert names[-1] == "boom", names
                    else:
                        raise AssertionError("no error")
                    assert x.grad is None
        usable()
    """)


def test_rules_that_give_none_to_everyone_do_not_stop_the_rest():
    run("""
        for workers in (1, 2, 8):
            x, loss = layers(act=lambda i, j: (lambda g: None) if i == 1 and j != 2 else None)
            loss.backward(**forced(workers))
            assert x.grad.tolist() == [9.0] * 4, x.grad
            x, loss = layers(act=lambda i, j: lambda g: None)
            loss.backward(**forced(workers))
            assert x.grad is None
    """)


def test_a_rule_that_returns_too_many_or_misshapen_gradients_is_an_error():
    run("""
        for bad in (lambda g: np.ones(7), lambda g: "text"):
            x, loss = layers(act=lambda i, j: bad if (i, j) == (1, 1) else None)
            try:
                loss.backward(**forced())
            except Exception as error:
                print(type(error).__name__)
            else:
                raise AssertionError("no error")
        usable()
    """)


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "Own"])
def test_any_base_exception_of_a_rule_comes_out_as_it_is(kind):
    run(f"""
        class Own(BaseException):
            pass
        main = threading.get_ident()
        meeting = threading.Barrier(2, timeout=20)
        def act(g):
            meeting.wait()
            if threading.get_ident() != main:
                raise {kind}(3)
            return g
        x, loss = layers(width=2, depth=1, act=lambda i, j: act)
        try:
            loss.backward(**forced(2))
        except {kind} as error:
            assert error.args == (3,)
        else:
            raise AssertionError("no error")
        usable()
    """)


def test_backward_inside_hooks_and_rules_two_hundred_deep():
    run("""
        sys.setrecursionlimit(20_000)
        threading.stack_size(256 << 20)
        depth = [0]
        def act(g):
            if depth[0] < 200:
                depth[0] += 1
                with mg.enable_grad():
                    inner(depth[0])
            return g
        def inner(level):
            x = mg.tensor(np.ones(4), requires_grad=True)
            y = acting(x, act=act if level % 2 else None) + x
            if not level % 2:
                y.register_hook(lambda g: act(g) if depth[0] < 200 else g)
            y.sum().backward(**forced(1 + level % 3))
            assert x.grad.tolist() == [2.0] * 4
        thread = threading.Thread(target=inner, args=(0,))
        thread.start(); thread.join()
        assert depth[0] == 200
        usable()
    """)


def test_a_hook_that_waits_for_a_backward_in_another_thread_gets_it():
    run("""
        def hook(g):
            thread = threading.Thread(target=usable)
            thread.start(); thread.join()
        for workers in (1, 2):
            x, loss = layers()
            x.register_hook(hook)
            loss.backward(**forced(workers))
        usable()
    """)


def test_many_threads_run_parallel_backwards_at_once():
    run("""
        errors = []
        def work():
            try:
                for _ in range(30):
                    usable()
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert not errors, errors
    """)


def test_twenty_thousand_tiny_graphs():
    run("""
        x = mg.tensor([2.0], requires_grad=True)
        before = threading.active_count()
        for i in range(20_000):
            (g,) = mg.grad((x * x + x).sum(), [x], **forced(2 + i % 3))
            assert g.item() == 5.0
        assert threading.active_count() <= before + 3
    """, timeout=180)  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_makes_threads_of_its_own():
    run("""
        usable()
        for _ in range(10):
            child = os.fork()
            if not child:
                try:
                    usable()
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
        usable()
    """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_in_the_middle_of_a_backward_hang_neither_parent_nor_child():
    run("""
        def forking(g):
            child = os.fork()
            if not child:
                try:
                    usable()
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            return g
        for _ in range(5):
            x, loss = layers(act=lambda i, j: forking if j == 1 else None)
            loss.backward(**forced(3))
        usable()
    """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_goes_on_in_the_backward_it_was_forked_in_gets_an_error():
    run("""
        parent = os.getpid()
        def forking(g):
            os.fork()
            return g
        slow = lambda g: (time.sleep(0.01), g)[1]
        x, loss = layers(width=4, depth=2, act=lambda i, j: forking if (i, j) == (1, 1) else slow)
        try:
            loss.backward(**forced(3))
        except RuntimeError as error:
            assert "fork in the middle" in str(error) and os.getpid() != parent
            os._exit(7)
        assert os.getpid() == parent
        assert os.wait()[1] in (1 << 8, 7 << 8)  # 1: forked in a helper, which has no caller
        usable()
    """)


@pytest.mark.skipif(sys.platform == "win32", reason="signals to a process")
def test_ctrl_c_in_the_caller_stops_the_backward_and_leaves_the_pool_usable():
    run("""
        for act in (lambda g: (time.sleep(0.05), g)[1],):
            for delay in (0.02, 0.1, 0.3):
                x, loss = layers(width=8, depth=8, act=lambda i, j: act)
                threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                started = time.monotonic()
                try:
                    loss.backward(**forced(2))
                except KeyboardInterrupt:
                    assert time.monotonic() - started < delay + 1
                else:
                    raise AssertionError("not interrupted")
                assert x.grad is None
                usable()
    """)


def test_the_interpreter_ends_at_once_after_and_during_parallel_work():
    _, spent = run("""
        usable()
        started = time.monotonic()
        import atexit
        atexit.register(lambda: print(time.monotonic() - started))
    """)
    out, _ = run("""
        import atexit
        ended = []
        def busy():
            x, loss = layers(act=lambda i, j: lambda g: (time.sleep(30), g)[1])
            loss.backward(**forced(2))
        threading.Thread(target=busy, daemon=True).start()
        time.sleep(0.3)
    """, timeout=20)  # fmt: skip
    assert out == ""


def test_backward_in_an_exit_handler_works():
    run("""
        import atexit
        atexit.register(usable)
        usable()
        atexit.register(usable)
    """)


def test_a_system_without_more_threads_runs_with_what_there_is():
    run("""
        start = threading.Thread.start
        def refuse(self):
            raise RuntimeError("can't start new thread")
        threading.Thread.start = refuse
        usable()
        threading.Thread.start = start
        usable()
    """)


def test_it_works_without_threadpoolctl():
    run("""
        sys.modules["threadpoolctl"] = None
        usable()
        assert mg.engine.last_report().blas_threads is None
    """)
