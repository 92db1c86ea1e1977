"""The data of a tape: calls in the order in which they ran, their inputs and results.

A `Record` keeps the ops that its thread runs, and recognises each array by its node or its
identity. It gives the order in which a backward visits the entries. In tape.py `Tape` adds the
methods for users: listings, a backward and programs.
"""

import weakref
from collections.abc import Iterator
from typing import Any, Self

from ..backends.device import as_operand
from ..backends.dtypes import WITHOUT_DTYPE
from ..backends.leaving import left_always
from ..backends.sites import site_of
from ..engine import events, modes, versions
from ..engine.errors import about, describe
from ..engine.graph import Leaf, Port, with_leaves
from ..errors import TapeError
from ..modes.recording import CalledFirst
from ..modes.saving import Deferred
from ..tensor_api.tensor import Tensor


class Value:
    """A result on the tape: output `output` of entry `entry` (−1: its only one).

    The tape refers to the array weakly: `array()` is None once it was freed.
    """

    __slots__ = ("entry", "output", "shape", "dtype", "array")

    def __init__(self, entry: int, output: int, array: Any):
        self.entry = entry
        self.output = output
        self.shape = array.shape
        self.dtype = array.dtype
        self.array = weakref.ref(array)

    @property
    def name(self) -> str:
        """ "3", or "3.1" for the second of several outputs."""
        return str(self.entry) if self.output < 0 else f"{self.entry}.{self.output}"

    def __repr__(self) -> str:
        return f"%{self.name}"


class Outside:
    """An array that came from outside: a leaf's (then `tensor` is the leaf), or a constant."""

    __slots__ = ("number", "array", "tensor")

    def __init__(self, number: int, array: Any, tensor: Tensor | None):
        self.number = number
        self.array = array
        self.tensor = tensor

    @property
    def shape(self) -> tuple:
        """The array's shape."""
        return self.array.shape

    @property
    def dtype(self) -> Any:
        """The array's dtype."""
        return self.array.dtype

    def __repr__(self) -> str:
        return f"{'c' if self.tensor is None else 'w'}{self.number}"


class Entry:
    """One recorded call.

    op, params       the op that ran, and its static parameters
    inputs           for each argument a Value, an Outside, a Python number or None
    outputs          its Values
    node             its graph node; None where nothing needed a gradient
    pattern          bit i is set where input i carries a gradient
    """

    __slots__ = ("op", "inputs", "params", "outputs", "node", "pattern", "origin")

    op: Any
    inputs: tuple
    params: dict[str, Any]
    outputs: tuple[Value, ...]
    node: Any
    pattern: int
    origin: tuple

    @property
    def site(self) -> dict[str, Any] | None:
        """{file, line, function} of the user's line that made the call."""
        return site_of(self.origin)

    def __repr__(self) -> str:
        return f"{', '.join(map(repr, self.outputs))} = {call_text(self)}"


def argument_text(x: Any) -> str:
    """An argument as a listing shows it."""
    return repr(x) if isinstance(x, Value | Outside) else describe(x)


def call_text(entry: Entry) -> str:
    """`mul(%1, w0)`, with the static parameters that differ from their defaults."""
    parts = [argument_text(x) for x in entry.inputs if x is not None]
    default = entry.op.defaults.get
    parts += [
        f"{name}={describe(value)}"
        for name, value in entry.params.items()
        if value is not default(name, entry)
    ]
    return f"{entry.op.name}({', '.join(parts)})"


class Record(metaclass=CalledFirst):
    """The ops that a thread has run inside `with`, as a sequence of entries."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._of_node: dict[Any, tuple[Value, ...]] = {}
        self._of_array: dict[int, Value] = {}  # by id, valid while the array lives
        self._outside: dict[int, Outside] = {}  # by id of the array, which the Outside keeps alive
        self.packed = False  # whether saved-tensor hooks ran
        self._recording = self._written = False
        self._last_write = 0  # the clock of writes when it was entered

    # -- recording -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._recording:
            raise TapeError("this tape records already; a tape is entered once, by one thread")
        modes.add_reason()
        self._recording = True
        self._last_write = versions.last_write
        modes.state.tapes = (*modes.state.tapes, self)
        return self

    @left_always(lambda block: modes.state.tapes.count(block))
    def __exit__(self, *exc: object) -> None:
        modes.state.tapes = tuple([tape for tape in modes.state.tapes if tape is not self])
        modes.add_reason(-1)
        self._written = self.written
        self._recording = False

    @property
    def written(self) -> bool:
        """Whether memory was written in place while this tape recorded.

        Writes by other threads count only if they are into arrays of this tape.
        """
        if self._written or not self._recording or versions.last_write == self._last_write:
            return self._written
        if versions.last_write_here() > self._last_write:
            return True
        made = (value.array() for entry in self._entries for value in entry.outputs)
        arrays = [*(x.array for x in self._outside.values()), *made]
        clock = self._last_write
        return any(a is not None and versions.written_after(a, clock) for a in arrays)

    def record(self, op: Any, node: Any, args: tuple, params: dict, outputs: Any) -> None:
        """Record one call (the slow path calls this, see modes/slow_path.py)."""
        entry = Entry()
        entry.op, entry.params, entry.node = op, params, node
        entry.origin = events.capture_origin()
        inputs, pattern, bit = [], 0, 1
        for x in args:
            if isinstance(x, Tensor):
                made_here = self._of_node.get(x.node)
                inputs.append(self._known(x, x.data) if made_here is None else made_here[0])
                if x.node is not None:
                    pattern |= bit
            else:
                plain = type(x) in WITHOUT_DTYPE  # anything else the op took as an array
                inputs.append(x if plain else self._known(x, as_operand(x)))
            bit <<= 1
        entry.inputs = tuple(inputs)
        entry.pattern = 0 if node is None else pattern & op.tracked
        number = len(self._entries)
        if op.outputs:
            entry.outputs = tuple([Value(number, i, y) for i, y in enumerate(outputs)])
        else:
            entry.outputs = (Value(number, -1, outputs[0]),)
        given = {id(x.data if isinstance(x, Tensor) else x) for x in args}
        for y, value in zip(outputs, entry.outputs, strict=True):
            if id(y) not in given:  # an op may return its argument, which keeps its first name
                self._of_array[id(y)] = value
        if node is not None:
            self._of_node[node] = entry.outputs
            self.packed |= isinstance(node.saved, Deferred) and not node.saved.recomputes
        self._entries.append(entry)

    def _known(self, x: Any, array: Any) -> Any:
        """The Value or Outside of an argument; an array seen for the first time is Outside."""
        found = self.value_of(x.node) if isinstance(x, Tensor) else None
        if found is not None:
            return found
        known = self._of_array.get(id(array))
        if known is not None and known.array() is array:
            return known
        outside = self._outside.get(id(array))
        if outside is None:
            outside = self._outside[id(array)] = Outside(len(self._outside), array, None)
        if isinstance(x, Tensor) and x.node.__class__ is Leaf:
            outside.tensor = x
        return outside

    def value_of(self, vertex: Any) -> Value | None:
        """The value of a node or port; None where this tape has not recorded it."""
        if vertex.__class__ is Port:
            values = self._of_node.get(vertex.parents[0])
            return None if values is None else values[vertex.index]
        values = self._of_node.get(vertex)
        return None if values is None else values[0]

    def outputs_of(self, node: Any) -> tuple[Value, ...]:
        """All values of a recorded node."""
        return self._of_node[node]

    def find(self, x: Any) -> Value | Outside | None:
        """The Value or Outside of a tensor or array; None if it was neither made nor used here."""
        value = self.value_of(x.node) if isinstance(x, Tensor) else None
        if value is not None:
            return value
        array = x.data if isinstance(x, Tensor) else x
        known = self._of_array.get(id(array))
        if known is not None and known.array() is array:
            return known
        return self._outside.get(id(array))

    def clear(self) -> None:
        """Forget all recorded ops."""
        for kept in (self._entries, self._of_node, self._of_array, self._outside):
            kept.clear()
        self._written = self.packed = False
        self._last_write = versions.last_write

    # -- a sequence of entries -----------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return True  # an empty tape is a tape

    def __getitem__(self, i: Any) -> Any:
        return self._entries[i]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __repr__(self) -> str:
        return f"<Tape of {len(self):,} ops>"

    # -- the order of a backward ---------------------------------------------------------------

    def order(self, seeds: dict) -> list:
        """The vertices that gradients from the seeds reach, as backward.run takes them.

        One pass over the list from its end. An entry takes part if its node is a seed, or a parent
        of a later entry that takes part.
        """
        asked = dict.fromkeys(sorted(seeds, key=lambda vertex: vertex.number))
        vertices = []
        for entry in reversed(self._entries):
            node = entry.node
            if node is None:
                continue
            if entry.op.outputs:
                ports = [port for port in _ports(node) if port in asked]
                for port in ports:
                    del asked[port]
                    asked[node] = None
                vertices += ports
            if node in asked:
                del asked[node]
                vertices.append(node)
                asked.update(dict.fromkeys(node.parents))
        for vertex in asked:
            if vertex.__class__ is not Leaf:
                self._refuse(vertex, vertex in seeds)
        return with_leaves([*asked, *reversed(vertices)])

    def _refuse(self, vertex: Any, root: bool) -> None:
        what = "the root of this backward" if root else "which the result depends on,"
        raise TapeError(
            f"{vertex!r}, {what} was not recorded on this tape of {len(self):,} ops. Run the whole "
            "forward inside `with mg.Tape() as tape:`, or make what comes from before it a leaf "
            "(x.detach().requires_grad_()), or use the serial engine.",
            op=getattr(getattr(vertex, "op", None), "name", None), **about(vertex),
        )  # fmt: skip


def _ports(node: Any) -> list:
    """The living ports of a node, newest first."""
    ports = [port for ref in node.ports if (port := ref()) is not None]
    return sorted(ports, key=lambda port: -port.number)
