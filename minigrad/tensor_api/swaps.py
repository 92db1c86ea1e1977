"""x[i], x[j] = x[j], x[i] on rows, as every shuffle does: refused, since a row would be lost.

The right sides are views, so the first write changes what the second one reads. NumPy's arrays lose
rows in the same way; its shuffles know arrays and copy, but take a tensor for a list.
"""

import dis
import sys
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ..backends.caches import cached
from ..engine.errors import InPlaceError, describe


def refuse_swap(x: Any, value: Any, frame: FrameType) -> None:
    """InPlaceError before x[index] = value, a view of x, where another view waits to be written.

    frame: of the caller, which executes the assignment, or a call of what does so in C
    """
    base, own = value._data.base, x._data.base  # no name for x._data: it would count as a holder
    shows_x = base is not None and (base is x._data or base is own)
    del base, own
    if shows_x and _holders(x) > _ALONE and _may_write_another(frame.f_code, frame.f_lasti):
        raise InPlaceError(
            f"x[i], x[j] = x[j], x[i]: x is {describe(x)}, and the right side reads "
            "views of it. The first write would change the values for the second one, so "
            "nothing is written. Write x[[i, j]] = x[[j, i]], and for a shuffle "
            "x[...] = x[rng.permutation(len(x))], or y = x[mg.randperm(len(x))]"
        )


def _holders(x: Any) -> int:
    """The references to the array that owns x's memory; each view of it is one."""
    owner = x._data.base
    if owner is None:
        owner = x._data
    return sys.getrefcount(owner)


class _Sample:
    def __init__(self) -> None:
        self._data = np.zeros(2)
        self.view = self._data[:1]


_ALONE = _holders(_Sample())  # of an array of which there is one view
_PASSED = {"NOP", "CACHE", "EXTENDED_ARG", "NOT_TAKEN", "RESUME"}
_STORES = {"STORE_SUBSCR": 2, "STORE_SLICE": 3}  # and how many values after the one to store
_SEVERAL = {"SWAP", "UNPACK_SEQUENCE", "UNPACK_EX"}


@cached("assignments of several", max_entries=1024)
def _may_write_another(code: CodeType, at: int) -> bool:
    """Whether the instruction stores the first of several targets, x[j] among them; of a call,
    which is no store, this is unknown.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in _PASSED]
    store = next((k for k, step in enumerate(steps) if step.offset == at), None)
    if store is None or steps[store].opname not in _STORES:
        return True
    k, made = store, 0
    while made < _STORES[steps[store].opname] and k:  # back over what makes container and index
        k -= 1
        arg = steps[k].arg if steps[k].opcode >= dis.HAVE_ARGUMENT else None
        made += dis.stack_effect(steps[k].opcode, arg, jump=False)
    if not k or steps[k - 1].opname not in _SEVERAL:
        return False
    stores = [step.opname for step in steps[store + 1 :] if step.opname.startswith("STORE_")]
    return bool(stores) and stores[0] in _STORES
