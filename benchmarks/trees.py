"""Two versions of minigrad by turns: the workloads of `peers`, the same work in both.

    python benchmarks/trees.py ../before [--rounds 14] [--seconds 0.8] [--untuned]

`before` is another checkout, as `git worktree add ../before COMMIT` makes it; beside it runs the
one that this file is in. Each round starts both anew, since where objects lie in memory moves a
time by several per cent, and lets the other one begin. Quoted is the median over the rounds of
now / before: of the 5th percentile of a run's times, which a busy machine hardly moves, and of
their median. Run it with OPENBLAS_CORETYPE unset.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).resolve().parent


def serve(tree: str, tuned: bool) -> None:
    """Answers each line "workload seconds" of the input with two times of that workload."""
    import minigrad as mg

    if not str(mg.__file__).startswith(tree):
        sys.exit(f"{mg.__file__} is not in {tree}")
    from engines import ENGINES
    from workloads import WORKLOADS

    if tuned:
        mg.accelerate(compiled=False)
    engine = ENGINES["minigrad"](1)
    runs = {}
    for line in sys.stdin:
        name, seconds = line.rstrip("\n").split("\t")
        if name not in runs:
            runs[name] = WORKLOADS[name](engine)
        print(*times(runs[name], float(seconds)), flush=True)


def times(run, seconds: float) -> tuple[float, float]:
    """5th percentile and median of the runs that fit into this time, after two to warm up."""
    run(), run()
    found, end = [], perf_counter() + seconds
    while perf_counter() < end or len(found) < 3:
        start = perf_counter()
        run()
        found.append(perf_counter() - start)
    found.sort()
    return found[len(found) // 20], found[len(found) // 2]


def start(tree: str, tuned: bool) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": tree, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--serve", tree] + ["--untuned"] * (not tuned)
    return subprocess.Popen(command, env=environment, cwd=tree, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip


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
    parser.add_argument("--rounds", type=int, default=14, help="processes of each version")
    parser.add_argument("--seconds", type=float, default=0.8, help="for a workload in a round")
    parser.add_argument("--untuned", action="store_true", help="without mg.accelerate()")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, not options.untuned)
        return 0
    if not options.before or not (Path(options.before) / "minigrad").is_dir():
        parser.error("name a checkout that has a folder minigrad")
    from workloads import WORKLOADS

    trees = {"before": str(Path(options.before).resolve()), "now": str(HERE.parent)}
    found = {name: {tree: [] for tree in trees} for name in WORKLOADS}
    for k in range(options.rounds):
        servers = {tree: start(path, not options.untuned) for tree, path in trees.items()}
        for name in WORKLOADS:
            for tree in list(trees)[:: (-1) ** k]:
                found[name][tree].append(ask(servers[tree], name, options.seconds))
        for server in servers.values():
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
