"""What the instruments cost an op: multiplications of 4 × 4 tensors, recorded, with each on.

    python benchmarks/instruments.py [--repeats 60] [--ops 1000 20000]

The loop with an instrument, the plain loop, and a block of one op with the instrument take turns,
in the CPU time of the whole process, and fifth percentiles are compared. The cost is that of
hearing, summing, writing and closing: (with − plain − block of one op) / ops. Beside it stands what
the tool says of itself. "off" is a plain loop after an instrument has come and gone. Logs are
written to memory-backed files, where the system has them. NumPy's own multiplication is the first
line.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from time import process_time_ns
from typing import Any

import numpy as np

import minigrad as mg

values = np.ones((4, 4))
x, b = mg.tensor(values, requires_grad=True), mg.tensor(values, requires_grad=True)
folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
log = os.path.join(folder, "run.jsonl")


def loop(ops: int) -> None:
    for _ in range(ops):
        x * b


def numpy_loop(ops: int) -> None:
    for _ in range(ops):
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


def spent(step: Callable[[int], None], ops: int, made: Any) -> int:
    """Nanoseconds of the whole block, and of a profile's sums.

    It is always as many calls deep: stacks cost by their frames.
    """
    start = process_time_ns()
    with made:
        step(ops)
    if isinstance(made, mg.profile):
        made.rows()  # forms the sums
    return process_time_ns() - start


def says_of_itself(made: Any) -> float | None:
    """Nanoseconds an op, as the instrument that was last used tells them."""
    if isinstance(made, mg.profile):
        return float(made.as_dict()["recording_ns_per_call"])
    if isinstance(made, mg.event_log):
        with open(log, encoding="utf-8") as file:
            end = json.loads(file.readlines()[-1])
        return end["recording_ns"] / end["events"]
    return None


def row(make: Callable[[], Any], ops: int, turns: int) -> tuple[float, float, float | None]:
    """(nanoseconds of a plain op, what the instrument adds, what it says of itself)."""
    spent(loop, ops, make())
    told, times = [], []
    for _ in range(turns):
        made = make()
        mine = spent(loop, ops, made)
        told.append(says_of_itself(made))
        plain = spent(loop, ops, contextlib.nullcontext())
        times.append((mine, plain, spent(loop, 1, make())))
    mine, plain, empty = np.percentile(np.array(times), 5, axis=0)
    said = None if None in told else float(np.median(np.array(told, float)))
    return plain / ops, (mine - plain - empty) / ops, said


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=60, help="turns of a thousand ops")
    parser.add_argument(
        "--ops", type=int, nargs="+", default=[1000, 20_000], help="in a loop; one table each"
    )
    parser.add_argument("--only", default="", help="instruments whose names begin so")
    options = parser.parse_args()
    first = [spent(numpy_loop, 1000, contextlib.nullcontext()) for _ in range(options.repeats)]
    print(f"{'numpy.multiply':34}{np.percentile(first, 5) / 1000:>15.0f} ns")
    print(f"{'':34}{'ops':>7}{'without':>9}{'cost':>8}{'it says':>9}")
    chosen = {name: make for name, make in INSTRUMENTS.items() if name.startswith(options.only)}
    for name, make in chosen.items():
        for ops in options.ops:
            plain, cost, said = row(make, ops, max(5, options.repeats * 1000 // ops))
            told = "" if said is None else f"{said:9.0f}"
            print(f"{name:34}{ops:7,}{plain:9.0f}{cost:8.0f}{told}", flush=True)
    if os.path.exists(log):
        os.unlink(log)
    os.rmdir(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
