"""An optimizer's update as kernels over many parameters, recorded from the code for the CPU."""

from collections.abc import Callable
from typing import Any

from ..backends.device import array_module, is_contiguous
from ..expressions.trace import NotFusible
from ..fusion.writes import recorded
from ..optim import packs


def step(update: Callable, jobs: list) -> list:
    """Run the updates (x, g, state) by kernels; returns those that kernels cannot run.

    Parameters of the same dtypes, with the same numbers in their states, share a kernel.
    """
    alike: dict[tuple, _Alike] = {}
    left = []
    for job in jobs:
        x, g, state = job
        xp = array_module(x)
        names = [name for name, value in state.items() if type(value) is xp.ndarray]
        if not hasattr(xp, "RawKernel"):
            left.append(job)
            continue
        arrays = [x, g if is_contiguous(g) else g.copy(order="C"), *[state[n] for n in names]]
        places, n = [a.data.ptr for a in arrays], x.size
        # contiguous arrays of one size have matching elements at the same offsets
        if any(p & 15 or a.size != n or not is_contiguous(a) for p, a in zip(places, arrays)):
            left.append(job)
            continue
        fixed = {name: value for name, value in state.items() if name not in names}
        dtypes = tuple([a.dtype for a in arrays])
        key = (x.device.id, dtypes, tuple(names), tuple(fixed.items()))
        if key not in alike:
            alike[key] = _Alike(xp, x.device, recorded(update, dtypes, names, fixed))
        found = alike[key]
        if isinstance(found.program, NotFusible):
            left.append(job)
        elif n:
            found.calls.append((places, n))
            found.kept.append(arrays)
    for found in alike.values():
        found.run()
    return left


class _Alike:
    """Calls of one program: the addresses of their arrays, and the number of elements."""

    def __init__(self, xp: Any, device: Any, program: Any):
        self.xp, self.device, self.program = xp, device, program
        self.calls: list[tuple[list[int], int]] = []
        self.kept: list[list] = []  # a gradient's copy must live until the kernel is launched

    def run(self) -> None:
        if self.calls:
            program, numbers = self.program
            with self.device:
                program.run(self.xp, numbers, self.calls)


packs.by_kernels = step
