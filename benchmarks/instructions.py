"""How many machine instructions a step takes: the cost of the engine itself, on any busy machine.

    python benchmarks/instructions.py [--record]

Valgrind's callgrind counts them, so other programs do not matter. Counts of one code differ by up
to 4 %: where objects lie decides how often the caches of Python and NumPy collide. The arrays are
4×4: next to nothing but the engine is counted. `instructions.json` has the counts recorded for one
version of Python and of NumPy; `--record` writes today's there, and tests/test_instructions.py
compares.
"""

import argparse
import ctypes
import gc
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

RECORDED = Path(__file__).with_suffix(".json")
REPEATS = 5


def steps() -> dict[str, Callable[[], None]]:
    """The counted steps; they are run in this order."""
    import numpy as np

    import minigrad as mg

    a, b = (mg.tensor(np.full((4, 4), 0.5, np.float32), requires_grad=True) for _ in range(2))

    def multiplies() -> None:
        y = a
        for _ in range(100):
            y = y * b
        y.sum().backward()
        a.grad = b.grad = None

    def forward() -> None:
        y = a
        for _ in range(100):
            y = y * b

    def matmul_tanh() -> None:
        y = a
        for _ in range(10):
            y = mg.tanh(y @ b)
        y.sum().backward()
        a.grad = b.grad = None

    def scalars() -> None:
        y = a
        for _ in range(100):
            y = y * 0.5 + 1.0
        y.sum().backward()
        a.grad = None

    def unrecorded() -> None:
        with mg.no_grad():
            forward()

    def profiled() -> None:
        with profile:
            forward()

    profile = mg.profile()
    return {
        "100 multiplies, sum, backward": multiplies,
        "100 multiplies, recorded": forward,
        "10 (matmul, tanh), sum, backward": matmul_tanh,
        "100 (multiply, add) by numbers, sum, backward": scalars,
        "100 multiplies under no_grad": unrecorded,
        "100 multiplies in a profile": profiled,
    }


def run_counted() -> None:
    """In the process that valgrind watches: it counts inside `ffi_call`, which ctypes goes through.

    A call through ctypes is the one thing in this program that does, so each is one count.
    """
    for step in steps().values():
        for _ in range(3):  # plans are made, and Python has specialised its code
            step()

        def repeated(step: Callable[[], None] = step) -> None:
            for _ in range(REPEATS):
                step()

        gc.collect()
        gc.disable()
        ctypes.PYFUNCTYPE(None)(repeated)()


def key() -> str:
    """What the counts depend on beside this code."""
    import numpy as np

    version = platform.python_version_tuple()
    return f"{platform.machine()} python {version[0]}.{version[1]} numpy {np.__version__}"


def count() -> dict[str, int]:
    """{step: instructions}; RuntimeError where callgrind could not count."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "count"
        environment = {
            **os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONPYCACHEPREFIX": folder,
        }  # fmt: skip
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        script = [sys.executable, __file__, "--counted"]
        subprocess.run(script, env=environment)  # compiles the modules: slow under valgrind
        command = [
            "valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=ffi_call",
            "--dump-after=ffi_call", f"--callgrind-out-file={base}",
            *script,
        ]  # fmt: skip
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        found = []
        for file in sorted(Path(folder).glob("count.*"), key=lambda f: int(f.suffix[1:])):
            totals = re.findall(r"^(?:summary|totals): (\d+)", file.read_text(), re.MULTILINE)
            found += [int(totals[0]) // REPEATS] if totals and int(totals[0]) else []
    names = list(steps())
    found = found[
        -len(names) :
    ]  # calls before them: what importing the package asks of the C library
    if done.returncode or len(found) != len(names):
        raise RuntimeError(f"callgrind gave {len(found)} counts:\n{done.stderr[-2000:]}")
    return dict(zip(names, found, strict=True))


def recorded() -> dict[str, int] | None:
    """The counts recorded for this Python and NumPy, if there are any."""
    return json.loads(RECORDED.read_text()).get(key()) if RECORDED.exists() else None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="write the counts down as the norm")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counted:
        run_counted()
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: nothing is counted")
        return 0
    before, now = recorded() or {}, count()
    print(f"instructions a step, {key()}")
    for name, n in now.items():
        was = before.get(name)
        print(f"{name:50}{n:12,}" + (f"  {n / was - 1:+.1%} of the recorded" if was else ""))
    if options.record:
        known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        RECORDED.write_text(json.dumps(known | {key(): now}, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
