"""No recursion anywhere: deep chains and wide sums, in a process of their own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.promise("any depth, any width, no recursion")

DEEP = """
import gc, sys, time
import numpy as np
import minigrad as mg
n = {n}
x = mg.tensor([1.0], requires_grad=True)
y = x
for _ in range(n):
    y = y + 1.0
y.sum().backward()
assert x.grad.tolist() == [1.0], x.grad
nodes = n
del y
print("done")
"""

WIDE = """
import numpy as np
import minigrad as mg
x = mg.tensor([1.0], requires_grad=True)
y = mg.concatenate([x * float(i) for i in range(20_000)]).sum()
y.backward()
assert x.grad.tolist() == [sum(range(20_000))]
print("done")
"""


CONTRIBUTIONS = """
import minigrad as mg
x = mg.tensor([1.0], requires_grad=True)
y = x
for _ in range(100_000):
    y = y + x
y.sum().backward()
assert x.grad.tolist() == [100_001.0], x.grad
print("done")
"""

LADDER = """
import numpy as np
import minigrad as mg
x = mg.tensor([1.0], requires_grad=True)
a = b = x
for _ in range(30_000):
    a, b = a + b, a - b  # two steps give (a, b) again: 2**60000 paths
    a, b = a * 0.5 + b * 0.5, a * 0.5 - b * 0.5
(a + b).sum().backward()
assert x.grad.tolist() == [2.0], x.grad
print("done")
"""


def run(source):
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120
    )


def test_a_chain_of_a_million_adds_runs_backward_and_is_freed():
    done = run(DEEP.format(n=1_000_000))
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-500:]


def test_twenty_thousand_contributions_to_one_leaf():
    done = run(WIDE)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-500:]


def test_a_hundred_thousand_contributions_to_one_leaf_one_by_one():
    done = run(CONTRIBUTIONS)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-500:]


def test_a_deep_graph_with_exponentially_many_paths_visits_each_node_once():
    done = run(LADDER)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-500:]
