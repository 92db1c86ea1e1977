"""An optimizer's update as kernels over many parameters, recorded from the words the CPU runs."""

from collections.abc import Callable

from ..backends.device import array_module
from ..fusion.trace import NotFusible
from ..fusion.writes import Recorded
from ..optim import packs


def step(update: Callable, jobs: list) -> list:
    """The updates (x, g, state) by kernels; those are returned that cannot be run so.

    Parameters of the same dtypes, with the same numbers in their states, share the program.
    """
    programs: dict[tuple, Recorded | NotFusible] = {}
    alike: dict[tuple, list] = {}
    left = []
    for x, g, state in jobs:
        names = [name for name, value in state.items() if hasattr(value, "shape")]
        if not hasattr(array_module(x), "RawKernel"):
            left.append((x, g, state))
            continue
        arrays = [x, g if g.flags.c_contiguous else g.copy(order="C"), *[state[n] for n in names]]
        if any(not a.flags.c_contiguous or a.data.ptr & 15 or a.shape != x.shape for a in arrays):
            left.append((x, g, state))
            continue
        fixed = {name: value for name, value in state.items() if name not in names}
        dtypes = tuple([a.dtype for a in arrays])
        key = (x.device.id, dtypes, tuple(names), tuple(fixed.items()))
        if key not in programs:
            programs[key] = _recorded(update, dtypes, names, fixed)
        if isinstance(programs[key], NotFusible):
            left.append((x, g, state))
        else:
            alike.setdefault(key, []).append(arrays)
    for key, found in alike.items():
        with found[0][0].device:
            programs[key].run(array_module(found[0][0]), found)  # type: ignore[union-attr]
    return left


def _recorded(update: Callable, dtypes: tuple, names: list, fixed: dict) -> Recorded | NotFusible:
    try:
        return Recorded(update, dtypes, names, fixed)
    except Exception as reason:  # a norm of the parameter, say: run it as it stands
        return NotFusible(str(reason))


packs.by_kernels = step
