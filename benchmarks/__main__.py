"""All benchmarks, each in a process of its own: `python -m benchmarks`.

One of them, with its options: `python -m benchmarks peers --only convnet --repeats 30`; and
`python -m benchmarks peers --help` says what it measures and lists its options.

--process, first: with the process tuned (mg.accelerate(compiled=False)) in all that run minigrad.
Without it, and without MINIGRAD_ACCELERATE in the environment, the process stays as it is. Each
benchmark says which. `--engines minigrad "minigrad tuned"` of peers has both by turns.

They import the checkout that they lie in, whether or not it is installed.

OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are unset for them: where an environment pins these,
NumPy's matrix product may run at half its speed, and a comparison would measure that.
"""

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "peers",
    "instructions",
    "small_ops",
    "deep_chain",
    "growth",
    "layers",
    "networks",
    "ops",
    "optimizers",
    "transforms",
    "engine_modes",
    "parallel",
    "instruments",
    "viewer",
)
CHECKOUT = Path(__file__).resolve().parents[1]
ELSEWHERE = ("gpu", "distributed", "distributed_gpu")  # need a GPU, or MPI


def main() -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    path = [str(CHECKOUT / part) for part in ("", "viz", "profiler")]
    path += [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
    environment["PYTHONPATH"] = os.pathsep.join(path)
    given = sys.argv[1:]
    if given[:1] == ["--process"]:
        given, environment["MINIGRAD_ACCELERATE"] = given[1:], "process"
    chosen, *options = given or [""]
    if chosen in ("-h", "--help"):
        print(f"{__doc__}\nbenchmarks: {', '.join(BENCHMARKS)}")
        print(f"by name alone, for they need a GPU or MPI: {', '.join(ELSEWHERE)}")
        return 0
    if chosen and chosen not in BENCHMARKS + ELSEWHERE:
        there = ", ".join(BENCHMARKS + ELSEWHERE)
        print(f"no benchmark {chosen}; there are {there}", file=sys.stderr)
        return 2
    for name in [chosen] if chosen else BENCHMARKS:
        tuned = environment.get("MINIGRAD_ACCELERATE") or "off"
        print(f"\n== {name} (MINIGRAD_ACCELERATE: {tuned})", flush=True)
        script = Path(__file__).with_name(f"{name}.py")
        done = subprocess.run([sys.executable, script, *options], env=environment)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
