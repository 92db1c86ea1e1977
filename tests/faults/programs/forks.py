"""A fork at each call of the user's code in a forward and a backward: python forks.py ENGINE.

Both go on: each has the right gradients, then and of a run of its own; the child may be told that
what the parent's threads do is not its own. A fork in a helper of the parallel backward has no
caller in the child, which ends with 1.
"""

import os
import sys
import threading

import numpy as np

import minigrad as mg

OPTIONS = {
    "serial": {"engine": "serial"},
    "parallel": {"engine": "parallel", "workers": 2, "min_work": 0},
    "tape": {"engine": "tape"},
}[sys.argv[1]]
rng = np.random.default_rng(0)
params = [mg.tensor(rng.standard_normal((3, 3)), requires_grad=True) for _ in range(2)]
calls, at, children, in_helper = 0, 0, [], []


def fork(value):
    global calls
    calls += 1
    if calls == at:
        in_helper.append(threading.current_thread() is not threading.main_thread())
        children.append(os.fork())
    return value


@mg.primitive
def scaled(x, w):
    return fork(x * w)


scaled.vjp("x")(lambda g, w: fork(g * w))
scaled.vjp("w")(lambda g, x: fork(g * x))


def gradients():
    a, b = params
    for p in params:
        p.grad = None
    with mg.Tape() as _tape:
        h = scaled(np.tanh(a @ b), b)
        h = mg.checkpoint(lambda h: fork(np.sin(h) * h), h)
        h.register_hook(lambda g: fork(g * 2))
        y = (h * a).sum()
    y.backward(**OPTIONS)
    return [p.grad.numpy().tobytes() for p in params]


right = gradients()
total, at = calls, 1
while at <= total:
    calls = 0
    try:
        assert gradients() == right
    except RuntimeError as error:
        assert "fork in the middle" in str(error)
        assert children[-1] == 0 and sys.argv[1] == "parallel"
    if children[-1] == 0:
        at = 0
        assert gradients() == right
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(children[-1], 0)
    assert os.waitstatus_to_exitcode(status) == in_helper[-1], (at, status)
    at += 1
print(f"{total} forks")
