"""No recursion anywhere: deep chains and wide sums, in a process of their own."""

import subprocess
import sys

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
