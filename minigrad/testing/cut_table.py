"""K30 at full size, as a table: ops × sizes, on 1, 2 and 3 threads.

python -m minigrad.testing.cut_table            # takes long
python -m minigrad.testing.cut_table silu gelu
"""

import sys
from collections.abc import Sequence
from time import thread_time

import numpy as np

from .case import Context, is_elementwise
from .checks.cuts import FEWER, WAYS, fits, grown, same
from .run import load_samples
from .spec import OpSpec, Sample, specs

_SIZES = (255, 4095, 4107, (1 << 15) + 11, (1 << 21) + 10)
_TOO_LONG = 4.0  # seconds; sizes at which an op would take longer are left out


def table(names: Sequence[str] = ()) -> None:
    """For each op, in float32 or float64: how many numbers differ from those of a slice of two
    million elements. Arrays have several sizes, on 1, 2 and 3 threads, in all ways."""
    load_samples()
    print(f"{'op':22} {'dtype':8}" + "".join([f"{n:>10}" for n in _SIZES]) + "  calls compared")
    for name in names or [name for name, spec in specs.items() if is_elementwise(spec)]:
        spec = specs[name]
        for dtype in [d for d in ("float32", "float64") if d in spec.dtypes]:
            sample = next((s for s in Context().samples(spec, dtype) if fits(s)), None)
            if sample is not None:
                with np.errstate(all="ignore"):
                    print(f"{name:22} {dtype:8}" + _row(spec, sample, dtype), flush=True)


def _row(spec: OpSpec, sample: Sample, dtype: str) -> str:
    start = thread_time()
    grown(spec, sample, np.random.default_rng(0), FEWER).computed()
    longest = (thread_time() - start) * _SIZES[-1] / FEWER
    sizes = [n for n in _SIZES if longest < _TOO_LONG or n < 1 << 20]
    whole = grown(spec, sample, np.random.default_rng(0), sizes[-1])
    expected = [  # joined from slices that no rule and no engine divides
        np.concatenate(parts)
        for parts in zip(*[whole.of(slice(i, min(i + 1000, whole.size))).computed(1)
                           for i in range(0, whole.size, 1000)], strict=True)
    ]  # fmt: skip
    words, calls = "", 0
    for n in _SIZES:
        if n not in sizes:
            words += f"{'—':>10}"
            continue
        different = 0
        for threads, how in WAYS:
            found = whole.of(slice(0, n)).computed(threads, how)
            calls += 1
            for y, all_of_y in zip(found, expected, strict=False):
                different += int((~same(y, all_of_y[:n])).sum())
        words += f"{different:>10}"
    return f"{words}  {calls}"


if __name__ == "__main__":
    table(sys.argv[1:])
