"""The update of Adam beside PyTorch's: one parameter of a million, and two hundred small ones.

    python benchmarks/optimizers.py [--repeats 40] [--threads 2] [--json out.json]

float32. PyTorch steps in its default form, and with fused=True and foreach=True. Runs alternate
between all of them; quoted are medians with quartiles, and medians of the pairwise ratios.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
from small_ops import conditions, spread

import minigrad as mg
from minigrad import optim

SIZES = {
    "Adam, one parameter of 1,000,000": [(1000, 1000)],
    "Adam, 200 parameters of 16 to 1,024": [(16,), (32, 32)] * 100,
    "SGD with momentum, 200 parameters": [(16,), (32, 32)] * 100,
}


def values(shape: tuple) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def ours(name: str, shapes: list) -> Callable:
    params = [mg.tensor(values(shape), requires_grad=True) for shape in shapes]
    for p in params:
        p.grad = mg.tensor(values(p.shape))
    if name.startswith("SGD"):
        return optim.SGD(params, lr=1e-3, momentum=0.9).step
    return optim.Adam(params).step


def theirs(name: str, shapes: list, threads: int) -> dict[str, Callable]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    made = {}
    for form, options in (
        ("default", {}),
        ("foreach", {"foreach": True}),
        ("fused", {"fused": True}),
    ):
        params = [torch.tensor(values(shape), requires_grad=True) for shape in shapes]
        for p in params:
            p.grad = torch.tensor(values(tuple(p.shape)))
        if name.startswith("SGD"):
            made[form] = torch.optim.SGD(params, lr=1e-3, momentum=0.9, **options).step
        else:
            made[form] = torch.optim.Adam(params, **options).step
    return made


def microseconds(step: Callable) -> float:
    start = perf_counter()
    step()
    return (perf_counter() - start) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=40, help="runs of each engine")
    parser.add_argument("--threads", type=int, default=2, help="of each engine")
    parser.add_argument("--json", help="write the figures here as JSON too")
    options = parser.parse_args()
    mg.set_num_threads(options.threads)
    print(conditions())
    figures: dict = {}
    print(f"\n{'microseconds a step, median (quartiles)':40}{'':10}{'time':>28}   ratio")
    for name, shapes in SIZES.items():
        steps = {"minigrad": ours(name, shapes), **theirs(name, shapes, options.threads)}
        times: dict[str, list[float]] = {form: [] for form in steps}
        for i in range(options.repeats + 3):
            for form, step in steps.items():
                taken = microseconds(step)
                if i >= 3:
                    times[form].append(taken)
        for form, taken in times.items():
            pairs = zip(times["minigrad"], taken, strict=True)
            ratio = statistics.median(mine / other for mine, other in pairs)
            print(
                f"{name if form == 'minigrad' else '':40}{form:10}{spread(taken):>28}{ratio:8.2f}"
            )
        figures[name] = times
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
