"""minigrad beside its peers: time and peak memory of one step, each engine in its own process.

    python -m benchmarks peers [--engines minigrad PyTorch "JAX jit"] [--only TEXT] [--repeats 15]
                               [--threads 2] [--json out.json] [--markdown out.md]

The processes take turns, one step group each, so a drift of the machine's speed meets all; a ratio
is the median of the ratios of neighbouring turns. Between turns all rest for a moment. An engine
that is not installed, or has not what a workload needs, is left out, with the reason.

Memory is the most that the process had resident during three steps (VmHWM) beyond what it had when
the workload was made. It counts what a library sets up at its first step, too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from workloads import WORKLOADS

UNITS = 0.02  # seconds that one turn should take at least
PAUSE = 0.3  # seconds before a turn: threads of BLAS or OpenMP go on spinning, for up to 125 ms


# -- the process of one engine --------------------------------------------------------------------


def serve(engine: str, threads: int, name: str) -> None:
    """Make the workload; then run it as often as each line of input says; print how long."""
    from engines import ENGINES, Missing

    try:
        run = WORKLOADS[name](ENGINES[engine](threads))
        run()
    except Exception as error:
        if isinstance(error, Missing):
            reason = str(error)
        elif isinstance(error, ModuleNotFoundError):
            reason = f"{error.name} is not installed"
        else:  # a version that differs
            reason = f"{type(error).__name__}: {error}"
        print(f"left out: {reason}"[:200].replace("\n", " "), flush=True)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        run()  # what waking up costs is not counted
        start = perf_counter()
        for _ in range(int(line)):
            run()
        print(perf_counter() - start, flush=True)


def status(field: str) -> int:
    """VmRSS or VmHWM of this process in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure_memory(engine: str, threads: int, name: str) -> None:
    """Print the KiB that three steps need at their peak."""
    from engines import ENGINES

    run = WORKLOADS[name](ENGINES[engine](threads))
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts here
    before = status("VmRSS")
    for _ in range(3):
        run()
    print(status("VmHWM") - before)


# -- the comparison -------------------------------------------------------------------------------


class Process:
    """An engine with one workload, waiting for its turn."""

    def __init__(self, engine: str, threads: int, name: str):
        self.engine = engine
        self.process = subprocess.Popen(
            _command("--serve", engine, threads, name), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_environment(threads),
        )  # fmt: skip
        self.answer = self._line()
        self.ready = self.answer == "ready"
        self.count = 1

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def turn(self) -> float:
        """Microseconds for one step, when the threads of the engine before have gone to sleep."""
        assert self.process.stdin is not None
        sleep(PAUSE)
        self.process.stdin.write(f"{self.count}\n")
        self.process.stdin.flush()
        return float(self._line()) / self.count * 1e6

    def warm_up(self) -> None:
        """Find how many steps make a turn."""
        for _ in range(3):
            spent = self.turn() * 1e-6
        self.count = max(1, round(UNITS / spent))
        self.turn()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def _command(what: str, engine: str, threads: int, name: str) -> list[str]:
    return [sys.executable, __file__, what, engine, "--threads", str(threads), "--only", name]


def _environment(threads: int) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")  # the last is XLA's
    return environment | dict.fromkeys(limits, str(threads))


def compare(name: str, engines: list[str], threads: int, repeats: int) -> dict[str, Any]:
    """{engine: {"times": microseconds, "ratio": ..., "memory": bytes}} for one workload."""
    processes = [Process(engine, threads, name) for engine in engines]
    try:
        running = [p for p in processes if p.ready]
        for process in processes:
            if not process.ready:
                print(f"{process.engine} {process.answer or 'ended'}")
        for process in running:
            process.warm_up()
        turns = [{p.engine: p.turn() for p in running} for _ in range(repeats)]
    finally:
        for process in processes:
            process.close()
    found: dict[str, Any] = {}
    for process in running:
        engine = process.engine
        times = [turn[engine] for turn in turns]
        found[engine] = {"times": times, "memory": _memory(engine, threads, name)}
        if "minigrad" in turns[0]:
            found[engine]["ratio"] = statistics.median(
                turn["minigrad"] / turn[engine] for turn in turns
            )
    return found


def _memory(engine: str, threads: int, name: str) -> int | None:
    """Bytes at the peak; None where the system does not say."""
    command = _command("--memory", engine, threads, name)
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(threads))
    return int(done.stdout) * 1024 if done.returncode == 0 else None


# -- what is printed ------------------------------------------------------------------------------


def table(figures: dict[str, dict], engines: list[str]) -> str:
    """Markdown: median (quartiles) of a step; minigrad's time over the engine's; peak memory."""
    lines = [f"| workload, µs a step | {' | '.join(engines)} |", "|---" * (len(engines) + 1) + "|"]
    for name, found in figures.items():
        cells = [_cell(found.get(engine), engine) for engine in engines]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: dict | None, engine: str) -> str:
    if found is None:
        return "–"
    times = found["times"]
    times = times * 2 if len(times) == 1 else times  # --repeats 1: quantiles asks for two
    low, middle, high = statistics.quantiles(times, n=4)
    cell = f"{middle:,.0f} ({low:,.0f}–{high:,.0f})"
    if "ratio" in found and engine != "minigrad":
        cell += f", **{found['ratio']:.2f}**"
    return cell if found["memory"] is None else f"{cell}, {found['memory'] / 2**20:.0f} MB"


def conditions(threads: int) -> str:
    from small_ops import conditions as of_numpy

    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{of_numpy()}; {threads} threads, {os.cpu_count()} cores, load average {load}"


def main() -> int:
    from engines import ENGINES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="which to compare"
    )
    parser.add_argument("--only", default="", help="the workloads whose name has this in it")
    parser.add_argument("--repeats", type=int, default=15, help="groups of steps of each engine")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of each engine")
    parser.add_argument("--json", help="write the figures here as JSON too")
    parser.add_argument("--markdown", help="write the table here too")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve or options.memory:
        way = serve if options.serve else measure_memory
        way(options.serve or options.memory, options.threads, options.only)
        return 0
    said = conditions(options.threads)
    print(said, flush=True)
    figures = {}
    for name in WORKLOADS:
        if options.only in name:
            figures[name] = compare(name, options.engines, options.threads, options.repeats)
            print(table({name: figures[name]}, list(figures[name])), "\n", flush=True)
    whole = (
        f"{said}\n\nMedian (quartiles), **minigrad's time over this engine's**, peak memory.\n\n"
        f"{table(figures, options.engines)}\n"
    )
    print(whole)
    if options.markdown:
        Path(options.markdown).write_text(whole)
    if options.json:
        Path(options.json).write_text(json.dumps({"conditions": said, "figures": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
