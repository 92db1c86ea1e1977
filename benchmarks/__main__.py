"""All benchmarks, each in a process of its own: `python -m benchmarks`.

One of them, with its options: `python -m benchmarks peers --only convnet --repeats 30`; of those
that have options, `python -m benchmarks peers --help` lists them.

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


def main() -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    chosen, *options = sys.argv[1:] or [""]
    if chosen in ("-h", "--help"):
        print(f"{__doc__}\nbenchmarks: {', '.join(BENCHMARKS)}")
        return 0
    if chosen and not Path(__file__).with_name(f"{chosen}.py").is_file():
        print(f"no benchmark {chosen}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in [chosen] if chosen else BENCHMARKS:
        print(f"\n== {name}", flush=True)
        script = Path(__file__).with_name(f"{name}.py")
        done = subprocess.run([sys.executable, script, *options], env=environment)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
