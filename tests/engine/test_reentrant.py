"""Backwards inside backwards, to any depth: what runs inside is on the stack of another thread."""

import gc
import subprocess
import sys
import threading
import weakref
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.backends import threads
from minigrad.engine import modes

pytestmark = pytest.mark.promise(
    "backwards nest to any depth; errors, modes, listeners and Ctrl-C as in one thread"
)

DEEP = 400  # levels; about ten of Python's frames each, so far beyond its limit of 1,000


def innermost(fn):
    """A tensor whose backward runs DEEP backwards inside one another, and fn() in the last."""

    class Level(mg.Function):
        @staticmethod
        def forward(ctx, x, level):
            ctx.save_for_backward(x)
            ctx.level = level
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            if not ctx.level:
                fn()
                return 2 * x * g, None
            with mg.enable_grad():
                inner = x.detach().requires_grad_()
                Level.apply(inner, ctx.level - 1).backward(g.detach())
            return inner.grad, None

    x = mg.tensor([3.0], requires_grad=True)
    return x, Level.apply(x, DEEP)


def test_a_function_whose_backward_calls_backward_nests_deeper_than_pythons_calls_may():
    depths, before = [], threading.active_count()
    x, y = innermost(lambda: depths.append(len(threads._here.chain)))
    y.backward()
    assert x.grad.tolist() == [6.0]
    assert depths[0] > 1 and threading.active_count() == before


@pytest.mark.parametrize("engine", ["serial", "parallel"])
def test_grad_inside_grad_inside_a_backward_nests_as_deeply(engine):
    class Level(mg.Function):
        @staticmethod
        def forward(ctx, x, level):
            ctx.save_for_backward(x)
            ctx.level = level
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            if not ctx.level:
                return 2 * x * g, None
            with mg.enable_grad():
                inner = x.detach().requires_grad_()
                y = Level.apply(inner, ctx.level - 1)
                return mg.grad(y, inner, g.detach(), engine=engine), None

    x = mg.tensor([3.0], requires_grad=True)
    assert mg.grad(Level.apply(x, DEEP), x, engine=engine).tolist() == [6.0]


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_that_call_backward_nest_as_deeply(register):
    leaves = [mg.tensor([1.0], requires_grad=True) for _ in range(DEEP)]

    @mg.enable_grad()
    def start(inner):
        (inner * 2).backward()

    for x, inner in zip(leaves, leaves[1:], strict=False):
        getattr(x, register)(lambda _, inner=inner: start(inner))
    (leaves[0] * 2).backward()
    assert all(x.grad.tolist() == [2.0] for x in leaves)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_far_inside_arrives_as_it_was_and_leaves_nothing_on():
    class Inside(ValueError):
        pass

    alive = []

    def fail():
        error = Inside("inside", 7)
        alive.append(weakref.ref(error))
        raise error

    reasons, state, before = modes.active, modes.state.all(), threading.active_count()
    x, y = innermost(fail)
    with pytest.raises(Inside, match="inside") as caught:
        y.backward()
    assert caught.value.args == ("inside", 7) and caught.value is alive[0]()
    names = [frame.name for frame in caught.traceback]
    assert names[-1] == "fail" and names.count("backward") > 2 * DEEP
    assert x.grad is None and modes.active == reasons and modes.state.all() == state
    del caught, names, x, y
    gc.collect()
    assert alive[0]() is None and threading.active_count() == before


def test_modes_of_the_thread_are_in_force_far_inside_and_kept_on_the_way_out():
    user = ContextVar("user", default="outside")
    seen = {}

    def look():
        seen["session"] = modes.state.session
        seen["scope"] = modes.state.scope
        seen["recording"] = mg.is_grad_enabled()
        seen["errstate"] = np.geterr()["divide"]
        seen["user"] = user.get()
        seen["identity"] = threads.identity()
        mg.set_grad_enabled(False)
        user.set("inside")

    session = mg.Session()
    x, y = innermost(look)
    user.set("around")
    try:
        with session, mg.scope("deep"), np.errstate(divide="raise"), mg.no_grad():
            y.backward()
        assert seen == {
            "session": session,
            "scope": "deep",
            "recording": False,
            "errstate": "raise",
            "user": "around",
            "identity": threading.get_ident(),
        }
        assert user.get() == "inside"
    finally:
        mg.set_grad_enabled(True)


def test_a_tape_and_a_profile_hear_what_runs_far_inside():
    @mg.enable_grad()
    def compute():
        a = mg.tensor([0.5], requires_grad=True)
        np.sinh(a).backward()

    _, y = innermost(compute)
    with mg.Tape() as tape, mg.profile() as profile:
        y.backward()
    assert [entry.op.name for entry in tape].count("sinh") == 1
    rows = {(row.op, row.phase): row.calls for row in profile.rows()}
    assert rows["Level", "backward"] == DEEP + 1 and rows["sinh", "backward"] == 1


def test_a_transform_may_be_used_far_inside_by_the_thread_that_runs_it():
    found = []

    def f(x):
        @mg.enable_grad()
        def look():
            found.append((x * x).sum())  # of the level that runs outside

        innermost(look)[1].backward()
        return found.pop()

    assert func.grad(f)(mg.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_a_block_that_an_outer_backward_entered_is_left_where_it_was_entered():
    mode = mg.no_grad()  # one object for all levels: its stack belongs to the thread

    def look():
        with mode:
            assert not mg.is_grad_enabled()

    x, y = innermost(look)
    with mode:
        y.backward()
    assert mg.is_grad_enabled() and x.grad.tolist() == [6.0]


def run(source):
    return subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parent,
    )


def test_ctrl_c_far_inside_ends_the_backward_and_leaves_no_mode_on():
    done = run(
        """
import signal, threading, time
import minigrad as mg
from minigrad.engine import modes
from test_reentrant import innermost

def wait():
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    while True:
        sum(range(1000))

before = modes.state.all()
x, y = innermost(wait)
try:
    with mg.no_grad():
        y.backward()
except KeyboardInterrupt:
    print(x.grad, modes.active, modes.state.all() == before, threading.active_count())
"""
    )
    assert done.stdout.split() == ["None", "0", "True", "1"], done.stderr[-2000:]


def test_a_backward_that_never_ends_is_a_recursion_error():
    done = run(
        """
import sys
sys.setrecursionlimit(150)
from minigrad.backends import threads
threads._MOST = 3
import minigrad as mg

class Endless(mg.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        with mg.enable_grad():
            Endless.apply(mg.tensor([1.0], requires_grad=True)).backward()

try:
    Endless.apply(mg.tensor([1.0], requires_grad=True)).backward()
except RecursionError:
    print("RecursionError")
"""
    )
    assert done.stdout.split() == ["RecursionError"], done.stderr[-2000:]
