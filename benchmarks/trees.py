"""Two versions of minigrad by turns: the workloads of other benchmarks, the same work in both.

    python benchmarks/trees.py ../before [--of peers] [--only TEXT] [--rounds 14] [--seconds 0.8]
                               [--untuned] [--cpu]

`before` is another checkout, as `git worktree add ../before COMMIT` makes it; beside it runs the
one that this file is in. Each round starts both anew, since where objects lie in memory moves a
time by several per cent, and lets the other one begin. Quoted is the median over the rounds of
now / before: of the 5th percentile of a run's times, which a busy machine hardly moves, and of
their median. All work on one thread: --cpu takes its processor time, which other programs disturb
least. --of networks and --of layers take the steps of those. Run it with
OPENBLAS_CORETYPE unset.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time

HERE = Path(__file__).resolve().parent


def of_peers() -> dict[str, Callable[[], Callable]]:
    from engines import ENGINES
    from workloads import WORKLOADS

    return {name: partial(make, ENGINES["minigrad"](1)) for name, make in WORKLOADS.items()}


def of_networks() -> dict[str, Callable[[], Callable]]:
    from networks import library, networks, stepped

    lib = library("minigrad")
    return {name: lambda name=name: stepped(lib, name)[1] for name in networks(lib)}


def of_layers() -> dict[str, Callable[[], Callable]]:
    from layers import ours

    return {name: lambda step=step: step for name, step in ours(1).items()}


WORK = {"peers": of_peers, "networks": of_networks, "layers": of_layers}


def serve(options: argparse.Namespace) -> None:
    """Says the names of its workloads; answers each line "name seconds" with two times of one."""
    import minigrad as mg

    if not str(mg.__file__).startswith(options.serve):
        sys.exit(f"{mg.__file__} is not in {options.serve}")
    if not options.untuned:
        mg.accelerate(compiled=False)
    runs, work, clock = {}, WORK[options.of](), thread_time if options.cpu else perf_counter
    print(*work, sep="\t", flush=True)
    for line in sys.stdin:
        name, seconds = line.rstrip("\n").split("\t")
        if name not in runs:
            runs[name] = work[name]()
        print(*times(runs[name], float(seconds), clock), flush=True)


def times(run: Callable, seconds: float, clock: Callable) -> tuple[float, float]:
    """5th percentile and median of the runs that fit into this time, after two to warm up."""
    run(), run()
    found, end = [], perf_counter() + seconds
    while perf_counter() < end or len(found) < 3:
        start = clock()
        run()
        found.append(clock() - start)
    found.sort()
    return found[len(found) // 20], found[len(found) // 2]


def start(tree: str, options: argparse.Namespace) -> tuple[subprocess.Popen, list[str]]:
    """A process of this version, and the names of its workloads."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MINIGRAD_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--serve", tree, "--of", options.of]
    command += ["--untuned"] * options.untuned + ["--cpu"] * options.cpu
    environment = os.environ | {"PYTHONPATH": tree} | one
    server = subprocess.Popen(command, env=environment, cwd=tree, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    names = server.stdout.readline().rstrip("\n")
    if not names:
        sys.exit(f"{tree} did not start; its error stands above")
    return server, names.split("\t")


def ask(server: subprocess.Popen, name: str, seconds: float) -> list[float]:
    server.stdin.write(f"{name}\t{seconds}\n")
    server.stdin.flush()
    answer = server.stdout.readline().split()
    if not answer:
        sys.exit(f"{server.args[3]} ended at {name!r}; its error stands above")
    return [float(t) for t in answer]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", nargs="?", help="the other checkout")
    parser.add_argument("--of", choices=WORK, default="peers", help="whose workloads")
    parser.add_argument("--only", default="", help="the workloads whose name has this in it")
    parser.add_argument("--rounds", type=int, default=14, help="processes of each version")
    parser.add_argument("--seconds", type=float, default=0.8, help="for a workload in a round")
    parser.add_argument("--untuned", action="store_true", help="without mg.accelerate()")
    parser.add_argument("--cpu", action="store_true", help="processor time, not the clock's")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return 0
    if not options.before or not (Path(options.before) / "minigrad").is_dir():
        parser.error("name a checkout that has a folder minigrad")
    trees = {"before": str(Path(options.before).resolve()), "now": str(HERE.parent)}
    found: dict[str, dict[str, list]] = {}
    for k in range(options.rounds):
        started = {tree: start(path, options) for tree, path in trees.items()}
        for name in [name for name in started["now"][1] if options.only in name]:
            times_of = found.setdefault(name, {tree: [] for tree in trees})
            for tree in list(trees)[:: (-1) ** k]:
                times_of[tree].append(ask(started[tree][0], name, options.seconds))
        for server, _ in started.values():
            server.stdin.close()
            server.wait()
    print(f"{'now / before, of':40}{'5th percentile':>15}{'median':>10}{'now':>12}{'before':>12}")
    for name, by_tree in found.items():
        pairs = list(zip(by_tree["now"], by_tree["before"], strict=True))
        low, middle = (statistics.median(n[i] / b[i] for n, b in pairs) for i in (0, 1))
        now, before = (statistics.median(t[1] for t in by_tree[tree]) for tree in ("now", "before"))
        print(f"{name:40}{low:15.3f}{middle:10.3f}{now * 1e3:9.3f} ms{before * 1e3:9.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
