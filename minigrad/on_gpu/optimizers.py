"""An optimizer's update as one kernel a parameter, recorded from the words the CPU runs."""

import threading
from collections.abc import Callable
from typing import Any

from ..backends.device import array_module
from ..fusion.trace import NotFusible
from ..fusion.writes import Recorded
from ..optim import packs

_local = threading.local()  # .update, .recorded: what the update of this step has been recorded as


def step(update: Callable, x: Any, g: Any, state: dict[str, Any]) -> bool:
    """update(x, g, state) by a kernel; False where it cannot be one."""
    xp: Any = array_module(x)
    if not hasattr(xp, "RawKernel"):
        return False
    names = [name for name, value in state.items() if hasattr(value, "shape")]
    arrays = [x, g if g.flags.c_contiguous else g.copy(order="C"), *[state[n] for n in names]]
    if any(not a.flags.c_contiguous or a.data.ptr & 15 or a.shape != x.shape for a in arrays):
        return False
    if getattr(_local, "update", None) is not update:
        _local.update, _local.recorded = update, {}
    fixed = {name: value for name, value in state.items() if name not in names}
    dtypes = tuple([a.dtype for a in arrays])
    key = (dtypes, tuple(names), tuple(fixed.items()))
    recorded = _local.recorded.get(key)
    if recorded is None:
        try:
            recorded = Recorded(update, dtypes, names, fixed)
            recorded.ready(xp)
        except Exception as reason:  # a norm of the parameter, say: run it as it stands
            recorded = NotFusible(str(reason))
        _local.recorded[key] = recorded
    if isinstance(recorded, NotFusible):
        return False
    recorded.run(arrays)
    return True


packs.by_kernel = step
