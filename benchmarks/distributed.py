"""Data-parallel training over MPI on this machine: 1, 2 and 4 ranks, measured and predicted.

    python benchmarks/distributed.py [--svg picture.svg]

Prints rows a second, the share of the communication hidden behind the backward, both forms of the
step side by side, and the simulator's prediction beside what was measured. Each rank has one BLAS
thread. Ranks share this machine's cores and memory: how much slower each computes beside the others
is measured too (steps without communication, by turns), and goes into the prediction.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
WIDTH, LAYERS, ROWS = 512, 6, 128
REPEATS = 12


def measure() -> None:
    """What each rank runs; rank 0 prints one line of JSON."""
    import minigrad as mg
    from minigrad import distributed
    from minigrad.distributed.simulate import measure_link, measure_step

    sys.path.append(str(ROOT / "profiler"))
    from minigrad_profiler.compare_overlap import compare_overlap

    distributed.init(timeout=120)
    mg.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (mg.nn.Linear(WIDTH, WIDTH), mg.nn.ReLU())]
    model = distributed.DataParallel(mg.nn.Sequential(*layers), bucket_mb=2)
    optimizer = mg.optim.SGD(model.parameters(), lr=1e-3)
    draw = np.random.default_rng(distributed.rank())
    x = mg.tensor(draw.standard_normal((ROWS, WIDTH)), dtype="float32")

    def loss():
        return (model(x) ** 2).mean()

    def step():
        model.zero_grad()
        loss().backward()
        optimizer.step()

    for _ in range(3):
        step()
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(REPEATS):
        for synchronizes in (True, False):
            with contextlib.nullcontext() if synchronizes else model.no_sync():
                distributed.barrier()
                t0 = perf_counter()
                step()
                times[synchronizes].append(perf_counter() - t0)
    found: dict = {"step": median(times[True]), "without": median(times[False])}
    if distributed.size() == 1:
        found["alone"] = vars(measure_step(model, loss, optimizer.step))
    else:
        overlap = compare_overlap(model, lambda: loss().backward())
        found["text"] = str(overlap)
        found["hidden"] = overlap.hidden
        found["link"] = vars(measure_link())
    if distributed.rank() == 0:
        print(json.dumps(found))


def run(ranks: int) -> dict:
    """The measurement on so many ranks, in processes of their own."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [str(mpiexec) if mpiexec.exists() else shutil.which("mpiexec") or "mpiexec"]
    command += ["-n", str(ranks), sys.executable, __file__, "--measure"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "profiler"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Measure, predict, print."""
    from minigrad.distributed.simulate import Link, Step, predict, svg, table

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--svg", help="draw the prediction into this file")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure()
    found = {ranks: run(ranks) for ranks in (1, 2, 4)}
    alone = Step(**found[1]["alone"])
    link = Link(**{**found[2]["link"], "cores": os.cpu_count()})
    print(f"{'ranks':>6}{'step ms':>10}{'rows/s':>10}{'predicted ms':>14}{'hidden':>8}")
    for ranks, result in found.items():
        slower = result["without"] / found[1]["without"]
        predicted = predict(alone, link, ranks, "ring", slower).step if ranks > 1 else alone.total
        hidden = f"{result['hidden']:.0%}" if ranks > 1 else "-"
        rows = ranks * ROWS / result["step"]
        print(
            f"{ranks:>6}{result['step'] * 1e3:>10.2f}{rows:>10,.0f}{predicted * 1e3:>14.2f}"
            f"{hidden:>8}"
        )
    for ranks in (2, 4):
        print(found[ranks]["text"])
    print("\nranks with cores of their own, this link between them:")
    own = Link(link.latency, link.bandwidth)
    print(table(alone, own))
    if options.svg:
        measured = [(ranks, found[ranks]["step"]) for ranks in (1, 2, 4)]
        Path(options.svg).write_text(svg(alone, link, measured), encoding="utf-8")


if __name__ == "__main__":
    main()
