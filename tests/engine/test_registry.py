"""A name means one op; only in a notebook, whose cells are run again, may it be given again."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import Registry

ROOT = Path(__file__).parents[2]
SESSION = """
import numpy as np, minigrad as mg
from minigrad.testing import Sample, register_op
def samples(rng, dtype):
    yield Sample("one", (rng.standard_normal(3).astype(dtype),))
for factor in (2.0, 3.0):
    times = mg.elementwise(lambda x: factor * x, name="times", dx=lambda g: factor * g)
    register_op("times", samples, reference=lambda x: factor * x)
    times.implementation("cpu")(lambda x: x * factor)
    mg.elementwise(np.arctan, name="own_arctan", dx=lambda x: 1 / (1 + x * x))
x = mg.tensor(1.0, requires_grad=True)
times(x).backward()
print(x.grad.item())
try:
    mg.elementwise(lambda x: x, name="tanh", dx=lambda g: g)
except ValueError as error:
    print(error)
"""


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="'tanh' is registered already"):
        mg.elementwise(np.sin, name="tanh", dx=lambda x: np.cos(x))


def test_what_the_running_session_defined_it_may_define_again_but_no_op_of_the_library():
    done = subprocess.run(
        [sys.executable, "-c", SESSION], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "3.0",
        "the op 'tanh' is registered already; choose another name",
    ]


def test_a_rule_given_again_is_the_one_that_runs():
    twice = Primitive(lambda x: 2 * x, "twice", ("x",), kind="linear")
    x = mg.tensor(1.0, requires_grad=True)
    twice.vjp("x")(lambda g: 3 * g)
    assert mg.grad(twice(x), x).item() == 3
    twice.vjp("x")(lambda g: 2 * g)
    assert mg.grad(twice(x), x).item() == 2


def test_what_is_registered_during_a_loop_over_the_entries_does_not_disturb_it():
    ops = Registry("op")

    class Disturbing(str):  # registers another op when a loop looks at it, as a thread may
        def startswith(self, *args):
            ops.register(f"op {len(vars(ops))}", "later")
            return super().startswith(*args)

    ops.register(Disturbing("first"), "first")
    ops.register("second", "second")
    assert list(ops) == ["first", "second"]
    assert list(ops)[2] == "later"


def test_an_entry_that_comes_while_the_collector_runs_in_a_listing_is_no_error():
    ops = Registry("op")
    for i in range(50):
        ops.register(f"op{i}", i)

    def add(phase, _):
        if phase == "start":
            ops.__dict__.setdefault(f"more{len(ops.__dict__)}", -1)

    thresholds = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(1)
    try:
        listings = [list(ops) for _ in range(100)]
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(add)
    assert len(listings[-1]) > len(listings[0]) and all(x[:50] == [*range(50)] for x in listings)
