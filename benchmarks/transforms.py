"""Transforms of functions beside PyTorch's torch.func: gradients of each example, Jacobians …

    python benchmarks/transforms.py [--only TEXT]

Processor time of one thread in milliseconds, the smallest of 30 runs; both engines are in one
process. The network has 32-64-64-10 features and tanh, and gets 128 examples.
"""

import argparse
import os
import sys
from collections.abc import Callable
from time import thread_time
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
from small_ops import conditions
from workloads import values

import minigrad as mg

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed (pip install torch), and there is nothing to compare with")

WEIGHTS = [values(n, *m) / 8 for n, m in ((64, (32,)), (64, (64,)), (10, (64,)))]
BIASES = [values(n) / 8 for n in (64, 64, 10)]
X, TARGET = values(128, 32), values(128, 10)
MATRIX = (values(64, 64) @ values(64, 64).T / 64 + np.eye(64)).astype(np.float32)


def functions(m: Any, func: Any, tensor: Callable) -> dict[str, Callable]:
    """What is timed, for minigrad or PyTorch: `func` has its transforms."""
    parameters = [tensor(a) for a in (*WEIGHTS, *BIASES)]
    ones = [m.ones_like(p) for p in parameters]
    x, target, matrix = tensor(X), tensor(TARGET), tensor(MATRIX)

    def net(p: list, x: Any) -> Any:
        for w, b in zip(p[:2], p[3:5]):
            x = m.tanh(x @ w.T + b)
        return x @ p[2].T + p[5]

    def loss(p: list, x: Any, target: Any) -> Any:
        return ((net(p, x) - target) ** 2).mean()

    def of_x(x: Any) -> Any:
        return net(parameters, x)

    def sum_of_x(x: Any) -> Any:
        return of_x(x).sum()

    def whole(p: list) -> Any:
        return loss(p, x, target)

    return {
        "gradient": lambda: func.grad(whole)(parameters)[0],
        "gradients of each example": lambda: func.vmap(func.grad(loss), in_dims=(None, 0, 0))(
            parameters, x, target
        )[0],
        "Jacobians of each example, jacrev": lambda: func.vmap(func.jacrev(of_x))(x),
        "the same, jacfwd": lambda: func.vmap(func.jacfwd(of_x))(x),
        "Hessian of one example": lambda: func.hessian(sum_of_x)(x[0]),
        "Hessians of each example": lambda: func.vmap(func.hessian(sum_of_x))(x),
        "Hessian product, jvp of grad": lambda: func.jvp(func.grad(whole), (parameters,), (ones,))[
            1
        ][0],
        "jacrev of inv, 64×64": lambda: func.jacrev(m.linalg.inv)(matrix),
    }


def smallest(run: Callable) -> float:
    run()
    times = []
    for _ in range(30):
        start = thread_time()
        run()
        times.append(thread_time() - start)
    return min(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows whose name has this text")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(conditions())
    ours = functions(mg, mg.func, mg.tensor)
    theirs = functions(torch, torch.func, torch.tensor)
    print(f"{'ms':36s}{'minigrad':>10s}{'PyTorch':>10s}{'ratio':>8s}")
    for name, run in ours.items():
        if args.only in name:
            a, b = np.asarray(run().data), theirs[name]().detach().numpy()
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)  # sums in another order
            x, y = smallest(run), smallest(theirs[name])
            print(f"{name:36s}{x:10.2f}{y:10.2f}{x / y:8.2f}", flush=True)


if __name__ == "__main__":
    main()
