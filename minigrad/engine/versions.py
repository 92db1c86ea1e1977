"""Which memory was written in place, and when: how a backward notices a changed saved array.

Nodes are numbered by a clock (`graph.next_number`), and a write in place takes a number from the
same clock. A node is stale if memory that it saved was written after the node was made. So nothing
is stored per node, and a forward has no extra work. The record belongs to the owner of the memory,
the array at the end of the `.base` chain, so views share it. A write covers the bytes it may have
touched, so rows of one buffer do not disturb one another.

"Version" is the number of writes: a fresh array has version 0. Of writes through a tensor's raw
array `x.data *= v` is seen, since it ends in an assignment; `x.data[...] = v` is not.
"""

import math
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..backends.device import is_contiguous
from ..backends.locks import Lock
from ..backends.sites import site_of
from . import events
from .errors import InPlaceError, about
from .graph import next_number

last_write = 0  # the clock of the newest write; nodes made later cannot be stale
_here = threading.local()  # .last_write: the clock of this thread's newest write
_EVERYWHERE = 0, 1 << 64  # the addresses of all of an owner's memory
_KEPT = 64  # writes remembered per owner; older ones count as writes to all of its memory
_writes: dict[int, "_Writes"] = {}  # by id of the owner, for as long as it lives
_lock = Lock()


class _Writes:
    """The writes into one owner's memory: how many, and the newest ones.

    Of a write: (clock, low, high, whether it filled that range, what it was, its origin).
    """

    __slots__ = ("owner", "count", "recent", "forgotten")

    def __init__(self, owner: Any):
        key = id(owner)
        self.owner = weakref.ref(owner, lambda _: _writes.pop(key, None))
        self.count = 0
        self.recent: deque = deque(maxlen=_KEPT)
        self.forgotten = 0  # clock of the newest write that is no longer in `recent`


def owner_of(array: Any) -> Any:
    """The array that owns this one's memory: the end of the chain of `.base`."""
    while (base := getattr(array, "base", None)) is not None:
        if not hasattr(base, "shape"):  # windows: as_strided puts an object in between
            base = getattr(base, "base", None)
        if not hasattr(base, "shape"):
            break
        array = base
    return array


def note_write(array: Any, what: str, origin: tuple | None = None, of_all: bool = True) -> None:
    """Record that `array` was just written in place; `what` names the write in errors.

    `origin` is where, as events.capture_origin() gives it: for callers that note many writes.
    `of_all`: whether all of its elements were written, as far as is known.
    """
    global last_write
    owner, origin = owner_of(array), origin or events.capture_origin()
    with _lock:
        writes = _writes.get(id(owner))
        if writes is None:
            writes = _writes[id(owner)] = _Writes(owner)
        if len(writes.recent) == _KEPT:
            writes.forgotten = writes.recent[0][0]
        last_write = _here.last_write = next_number()
        writes.count += 1
        if array is owner:  # nearly always; to ask for addresses takes longer than all else here
            (low, high), filled = _EVERYWHERE, of_all
        else:
            low, high = _span(array)
            filled = of_all and high - low == array.nbytes
        writes.recent.append((last_write, low, high, filled, what, origin))


def last_write_here() -> int:
    """The clock of the newest write that this thread has made."""
    return getattr(_here, "last_write", 0)


def newest_write(array: Any) -> int | None:
    """The clock of the newest write into the array's memory."""
    writes = _writes.get(id(owner_of(array)))
    return None if writes is None else writes.recent[-1][0]


def _span(array: Any) -> tuple[int, int]:
    """The addresses between which the array's elements lie; (0, 0) where it has none."""
    if not array.size:
        return 0, 0
    if isinstance(array, np.ndarray):
        low = high = array.ctypes.data
    else:  # CuPy's, whose shape and strides are tuples made anew at each look
        low = high = array.data.ptr
        if is_contiguous(array):
            return low, low + array.nbytes
    for n, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + array.itemsize


def written_after(
    array: Any, clock: int, until: float = math.inf
) -> tuple[int, int, bool, str, tuple] | None:
    """(version at `clock`, version now, surely?, last write, its origin) if array was written.

    Not surely where the write or the array leaves out parts of its range of memory: they may have
    no element in common. Writes at clock `until` or later do not count, nor do forgotten ones that
    they have displaced.
    """
    writes = _writes.get(id(owner_of(array)))
    if writes is None:
        return None
    low, high = _span(array)
    with _lock:  # another thread may be writing
        recent, count, forgotten = list(writes.recent), writes.count, writes.forgotten
    after = [write for write in recent if clock < write[0] < until]
    touching = [write for write in after if write[1] < high and low < write[2]]
    if not touching and not clock <= forgotten < until:
        return None
    *_, filled, what, origin = (touching or after or [(False, "a write", None)])[-1]
    return count - len(after), count, filled and high - low == array.nbytes, what, origin


def refuse_changed(nodes: Iterable) -> None:
    """InPlaceError if memory that one of the nodes has saved was written after it was made.

    Called before any rule runs, so that a backward that would be wrong changes nothing.
    """
    for node in nodes:
        if node.number >= last_write:
            continue
        if type(node.saved) is not tuple:
            node.saved.refuse_changed()
        elif node.saved:  # a leaf has none, and no plan
            refuse_changed_values(node.saved, node.plan.names, node.number, node.op.name)


def refuse_changed_values(values: tuple, names: Iterable[str], clock: int, op: str) -> None:
    """InPlaceError if one of the values that `op` saved at `clock`, by name, was written since."""
    for name, value in zip(names, values, strict=True):
        for array in arrays_in(value):
            refuse_if_changed(array, clock, op, name)


def refuse_if_changed(
    array: Any, clock: int, op: str, argument: str, until: float = math.inf
) -> None:
    """InPlaceError if array, which `op` saved as `argument` at `clock`, was written since."""
    found = written_after(array, clock, until)
    if found is None:
        return
    then, now, surely, what, origin = found
    site = site_of(origin) or {}
    doubt = "" if surely else ", or other elements in its range of memory were"
    raise InPlaceError(
        f"{op}: {'its result' if argument == 'y' else f'its argument {argument!r}'} "
        f"{array.dtype} {array.shape}, which its derivative needs, was changed in "
        f"place{doubt}: it was at version {then} when {op} ran and is at version {now} now. "
        f"The last change was {what} at {site.get('file')}:{site.get('line')} in "
        f"{site.get('function')}. Call backward before the change, or change a copy (x.copy()), or "
        f"give {op} the copy.",
        op=op, argument=argument, versions=(then, now), site=site or None, **about(array),
    )  # fmt: skip


def arrays_in(value: Any) -> Iterator[Any]:
    """The arrays in one saved value: itself, inside a tensor, or in a list of several."""
    for part in value if isinstance(value, tuple | list) else (value,):
        while hasattr(part, "requires_grad"):  # a tensor of a transform, down to its array
            part = part.data
        if hasattr(part, "strides") and getattr(part, "ndim", None) is not None:
            yield part
