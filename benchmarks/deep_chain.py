"""A chain of a million adds: time per node forward, backward and freed, and bytes per node.

    python benchmarks/deep_chain.py [--lengths 1000 10000 100000 1000000]

A line "torch" has the same chain in PyTorch, where it is installed, up to 100,000 nodes; a line
"tape" records the chain on a tape and runs the backward from it.
Each length runs in a process of its own, once with Python's cyclic collector on and once off, so
that growth with length shows; times are those of the processor, after a collection of what the
import has left. "Node" is one add: its graph node, saved values and result, of
which the array alone (one float64) is counted apart.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from time import thread_time
from typing import Any


def measure(length: int, collector: bool, which: str) -> dict:
    """One chain in this process: seconds per phase, bytes of resident memory per node."""
    if not collector:
        gc.disable()
    if which == "torch":
        import torch

        x = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    else:
        import minigrad as mg

        x = mg.tensor([1.0], requires_grad=True)
    tape: Any = mg.Tape() if which == "tape" else nullcontext()
    (x + 1.0).sum().backward()
    x.grad = None
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = thread_time()
    with tape:
        y = x
        for _ in range(length):
            y = y + 1.0
        forward = thread_time() - start
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        loss = y.sum()
    start = thread_time()
    if which == "tape":
        tape.backward(loss)
    else:
        loss.backward()
    backward = thread_time() - start
    assert x.grad.item() == 1.0
    start = thread_time()
    del y, loss, tape
    freed = thread_time() - start
    return {"forward": forward, "backward": backward, "freed": freed, "bytes": held * 1024}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[1000, 10_000, 100_000, 1_000_000],
        help="adds in a chain",
    )
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--no-collector", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--which", default="engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, not options.no_collector, options.which)))
        return 0
    print(f"{'nodes':>9}  {'collector':9}{'forward':>11}{'backward':>11}{'freed':>9}{'memory':>16}")
    print(f"{'':>9}  {'':9}{'µs/node':>11}{'µs/node':>11}{'µs/node':>9}{'bytes/node':>16}")
    tape, torch = ["--which", "tape"], ["--which", "torch"]
    for length in options.lengths:
        compared = length <= 100_000 and find_spec("torch") is not None
        for flag in [[], ["--no-collector"], tape, *([torch] if compared else [])]:
            command = [sys.executable, __file__, "--one", str(length), *flag]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            times = [found[phase] / length * 1e6 for phase in ("forward", "backward", "freed")]
            memory = f"{found['bytes'] / length:.0f}" if length >= 100_000 else "(too few)"
            on = {"--no-collector": "off", "--which": flag[-1]}[flag[0]] if flag else "on"
            print(
                f"{length:>9,}  {on:9}{times[0]:11.2f}{times[1]:11.2f}{times[2]:9.2f}{memory:>16}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
