"""What the instruments cost an op: 1,000 multiplications of 4 × 4 tensors, recorded, with each on.

    python benchmarks/instruments.py [--repeats 30]

Each instrument takes turns with the plain loop, in the CPU time of this thread. Quoted is the
smallest time of each, and the difference: nanoseconds an op. "off" compares two plain loops, one
of them after an instrument has come and gone. Logs are written to memory-backed files, where the
system has them. NumPy's own multiplication is the first line, as the machine's measure.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from time import thread_time_ns
from typing import Any

import numpy as np

import minigrad as mg

OPS = 1000
values = np.ones((4, 4))
x, b = mg.tensor(values, requires_grad=True), mg.tensor(values, requires_grad=True)
folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
log = os.path.join(folder, "run.jsonl")


def loop() -> None:
    for _ in range(OPS):
        x * b


def numpy_loop() -> None:
    for _ in range(OPS):
        np.multiply(values, values)


def used_before() -> Any:
    with mg.profile():
        x * b
    return contextlib.nullcontext()


INSTRUMENTS: dict[str, Callable[[], Any]] = {
    "off (after a profile has ended)": used_before,
    "profile": mg.profile,
    "profile, lines": lambda: mg.profile(lines=True),
    "profile, memory": lambda: mg.profile(memory=True),
    "event log": lambda: mg.event_log(log),
    "event log, stacks of 8": lambda: mg.event_log(log, stack=8),
    "event log, memory": lambda: mg.event_log(log, memory=True),
}


def spent(step: Callable[[], Any]) -> float:
    """Nanoseconds an op."""
    start = thread_time_ns()
    step()
    return (thread_time_ns() - start) / OPS


def with_instrument(make: Callable[[], Any]) -> float:
    with make():
        return spent(loop)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30, help="turns of each instrument")
    repeats = parser.parse_args().repeats
    print(f"{'numpy.multiply':34}{min(spent(numpy_loop) for _ in range(repeats)):>8.0f} ns")
    print(f"{'':34}{'ns an op':>11}{'without':>10}{'cost':>8}")
    for name, make in INSTRUMENTS.items():
        with_instrument(make), spent(loop)
        pairs = [(with_instrument(make), spent(loop)) for _ in range(repeats)]
        mine, plain = (min(times) for times in zip(*pairs, strict=True))
        print(f"{name:34}{mine:11.0f}{plain:10.0f}{mine - plain:8.0f}")
    if os.path.exists(log):
        os.unlink(log)
    os.rmdir(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
