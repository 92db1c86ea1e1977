"""Memory that ends at ever later moments: python memory.py JOB FOLDER.

Each job runs under limits from none left to enough; where it ends in MemoryError, what was there
is whole, and the same job gives the right bits once there is memory again.
"""

import ctypes
import gc
import os
import resource
import sys

import numpy as np
import writers

import minigrad as mg

N = 1 << 17  # numbers in an array: a megabyte, which the system gives and takes back by itself
TRIM = ctypes.CDLL(None).malloc_trim
PAGE = resource.getpagesize()


def limited(slack):
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * PAGE
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + slack, hard))


def free():
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


params = [mg.tensor(np.linspace(-1, 1, N), requires_grad=True) for _ in range(3)]


def loss():
    a, b, c = params
    h = np.tanh(a * b) + np.exp(b * c)
    h = mg.checkpoint(lambda h: np.sin(h) * h, h)
    return (h * c).sum() + (h / (a * a + 2.0)).sum()


def gradients(options):
    for p in params:
        p.grad = None
    with mg.Tape() as _tape:
        y = loss()
    y.backward(**options)
    return [p.grad.numpy().tobytes() for p in params]


def backward(options):
    right = gradients(options)

    def run():
        grads = gradients(options)
        assert grads == right

    def check():
        for p, bits in zip(params, right, strict=True):
            assert p.grad is None or p.grad.numpy().tobytes() == bits
        assert mg.is_grad_enabled()
        assert gradients(options) == right

    return run, check


def file_of(suffix):
    path = os.path.join(sys.argv[2], f"x{suffix}")
    old, new = ({"a": np.full(N, i), "b": [np.full(N, i)], "n": i} for i in (1.0, 2.0))
    mg.save(old, path)

    def run():
        mg.save(new, path)
        assert mg.load(path)["n"] == 2.0
        mg.save(old, path)

    def check():
        found = mg.load(path)
        values = {*found["a"].tolist(), *found["b"][0].tolist(), found["n"]}
        assert values in ({1.0}, {2.0})
        writers.check_names(sys.argv[2], [f"x{suffix}"])
        run()

    return run, check


JOBS = {
    "serial": lambda: backward({"engine": "serial"}),
    "parallel": lambda: backward({"engine": "parallel", "workers": 2, "min_work": 0}),
    "tape": lambda: backward({"engine": "tape"}),
    "npz": lambda: file_of(".npz"),  # the library of safetensors aborts the process instead
}
run, check = JOBS[sys.argv[1]]()
run()
errors = 0
for step in range(30):
    gc.collect()
    TRIM(0)  # what was freed and is kept for the next arrays goes back to the system
    limited(step << 19)
    try:
        run()
    except MemoryError:
        errors += 1
    finally:
        free()
    check()
print(f"{errors} of 30 ended in MemoryError")
assert errors
