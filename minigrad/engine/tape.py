"""The tape: what a thread computes, as a flat list, and a backward that reads it from the end.

    with mg.Tape() as tape:
        loss = np.tanh(x @ w).sum()
    print(tape)            # one line an op
    tape.backward(loss)    # the same bits as loss.backward()

Ops are written down as they run, so a call stands behind the calls that made its inputs. Read
backwards the list is an order for a backward: nothing is sorted, and no edge of the graph is
followed. The walk itself is serial.run, as for every engine.

tape_listing.py prints a tape; tape_program.py replays it on new inputs.
"""

import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from ..backends.device import as_operand
from ..backends.dtypes import WITHOUT_DTYPE
from ..core import events, modes, versions
from ..core.errors import TapeError
from ..core.graph import Leaf, Port, with_leaves
from ..core.saving import Deferred
from ..core.tensor import Tensor
from . import api, serial
from .passes import Pass, engines, orders

__all__ = ["Tape"]

_tapes: "weakref.WeakSet[Tape]" = weakref.WeakSet()  # all that are alive
_lock = threading.Lock()


class Value:
    """A result on the tape: output `output` of entry `entry` (−1: its only one).

    The tape knows the array weakly: `array()` is None when nobody has it any more.
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
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __repr__(self) -> str:
        return f"{'c' if self.tensor is None else 'w'}{self.number}"


class Entry:
    """One recorded call.

    op, params       what ran; params are the static ones
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
        return events.site_of(self.origin)

    def __repr__(self) -> str:
        from .tape_listing import call_text

        return f"{', '.join(map(repr, self.outputs))} = {call_text(self)}"


class Tape:
    """Records the ops that this thread runs inside `with`, also those without a gradient.

    A tape is a sequence of entries: len(tape), tape[3].op, for entry in tape. It keeps the graph of
    what it has recorded until it is dropped or cleared; tensors that no op made (from mg.rand,
    x.grad, x.numpy()) are constants to it. Entering it again goes on recording.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._of_node: dict[Any, tuple[Value, ...]] = {}
        self._of_array: dict[int, Value] = {}  # by id, which is the array's while it lives
        self._outside: dict[int, Outside] = {}  # by id of the array, which the Outside keeps alive
        self.packed = False  # whether saved-tensor hooks were at work
        self._recording = self._written = False
        self._last_write = 0  # the clock of writes when it was entered
        with _lock:
            _tapes.add(self)

    # -- recording -----------------------------------------------------------------------------

    def __enter__(self) -> "Tape":
        if self._recording:
            raise TapeError("this tape records already; a tape is entered once, by one thread")
        self._recording = True
        self._last_write = versions.last_write
        modes.state.tapes = (*modes.state.tapes, self)
        modes.add_reason()
        return self

    def __exit__(self, *exc: object) -> None:
        modes.add_reason(-1)
        modes.state.tapes = tuple([tape for tape in modes.state.tapes if tape is not self])
        self._written = self.written
        self._recording = False

    @property
    def written(self) -> bool:
        """Whether memory was written in place while this tape recorded (in any thread)."""
        return self._written or self._recording and versions.last_write != self._last_write

    def record(self, op: Any, node: Any, args: tuple, params: dict, outputs: Any) -> None:
        """Write down one call (called by the doorway, see core/careful.py)."""
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
                plain = type(x) in WITHOUT_DTYPE  # all else is an array to the doorway, also a list
                inputs.append(x if plain else self._known(x, as_operand(x)))
            bit <<= 1
        entry.inputs = tuple(inputs)
        entry.pattern = 0 if node is None else pattern & op.tracked
        number = len(self._entries)
        if op.outputs:
            entry.outputs = tuple([Value(number, i, y) for i, y in enumerate(outputs)])
        else:
            entry.outputs = (Value(number, -1, outputs[0]),)
        for y, value in zip(outputs, entry.outputs, strict=True):
            if not any(
                y is (x.data if isinstance(x, Tensor) else x) for x in args
            ):  # else it keeps its first name
                self._of_array[id(y)] = value
        if node is not None:
            self._of_node[node] = entry.outputs
            self.packed |= isinstance(node.saved, Deferred) and not node.saved.recomputes
        self._entries.append(entry)

    def _known(self, x: Any, array: Any) -> Any:
        """What an argument is on this tape; an array met for the first time is from outside."""
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

    def value_of(self, place: Any) -> Value | None:
        """The value that a node or port stands for; None where this tape has not recorded it."""
        if place.__class__ is Port:
            values = self._of_node.get(place.parents[0])
            return None if values is None else values[place.index]
        values = self._of_node.get(place)
        return None if values is None else values[0]

    def outputs_of(self, node: Any) -> tuple[Value, ...]:
        """All values of a recorded node."""
        return self._of_node[node]

    def find(self, x: Any) -> Value | Outside | None:
        """What a tensor or array is on this tape; None where it was neither made nor used on it."""
        value = self.value_of(x.node) if isinstance(x, Tensor) else None
        if value is not None:
            return value
        array = x.data if isinstance(x, Tensor) else x
        known = self._of_array.get(id(array))
        if known is not None and known.array() is array:
            return known
        return self._outside.get(id(array))

    def clear(self) -> None:
        """Forget everything that was recorded."""
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

    def __str__(self) -> str:
        return self.listing()

    def listing(self, limit: int = 60) -> str:
        """One line an op: `%3 = mul(%1, w0)  float32[32,32]  model.py:12`.

        Of a tape of more than `limit` ops the head and the tail are shown, with the number between.
        """
        from .tape_listing import forward_text

        return forward_text(self, limit)

    def backward_listing(self, tensors: Tensor | Sequence[Tensor], limit: int = 60) -> str:
        """What tape.backward(tensors) computes, one line a contribution: `g1 += g3 * w0`."""
        from .tape_listing import backward_text

        return backward_text(self, tensors, limit)

    # -- backward ------------------------------------------------------------------------------

    def backward(
        self,
        tensors: Tensor | Sequence[Tensor],
        gradients: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """mg.backward(...), in the order of this tape. What create_graph records, it records too.

        TapeError where a result behind `tensors` was recorded elsewhere.
        """
        api.backward(tensors, gradients, retain_graph, create_graph, inputs, engine=self)

    def grad(
        self,
        outputs: Tensor | Sequence[Tensor],
        inputs: Tensor | Sequence[Tensor],
        grad_outputs: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        allow_unused: bool = False,
    ) -> Any:
        """mg.grad(...), in the order of this tape."""
        return api.grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, engine=self
        )

    def order(self, seeds: dict) -> list:
        """The places that gradients from the seeds reach, as serial.run takes them.

        One pass over the list from its end: an entry takes part if something behind it, or a seed,
        has asked for its node.
        """
        asked = dict.fromkeys(sorted(seeds, key=lambda place: place.number))
        places = []
        for entry in reversed(self._entries):
            node = entry.node
            if node is None:
                continue
            if entry.op.outputs:
                ports = [port for port in _ports(node) if port in asked]
                for port in ports:
                    del asked[port]
                    asked[node] = None
                places += ports
            if node in asked:
                del asked[node]
                places.append(node)
                asked.update(dict.fromkeys(node.parents))
        for place in asked:
            if place.__class__ is not Leaf:
                self._refuse(place, place in seeds)
        return with_leaves([*asked, *reversed(places)])

    def _refuse(self, place: Any, root: bool) -> None:
        what = "the root of this backward" if root else "which the result depends on,"
        raise TapeError(
            f"{place!r}, {what} was not recorded on this tape of {len(self):,} ops. Run the whole "
            "forward inside `with mg.Tape() as tape:`, or make what comes from before it a leaf "
            "(x.detach().requires_grad_()), or use the serial engine."
        )

    def walk(self, work: Pass) -> None:
        """Run one backward, as the serial engine does."""
        if work.create_graph and not self._recording:
            with self:
                serial.walk(work)
        else:
            serial.walk(work)

    # -- replay --------------------------------------------------------------------------------

    def compile(
        self,
        outputs: Tensor | Sequence[Tensor],
        inputs: Sequence[Any] = (),
        wrt: Tensor | Sequence[Tensor] | None = None,
        grad_outputs: Any = None,
        allow_unused: bool = False,
        copy: bool = True,
    ) -> Any:
        """The recorded program, to be run again on other inputs: see tape_program.Program.

        outputs       what to compute: a tensor, or several
        inputs        the leaves or constants that get new values in each call
        wrt           with it, a call gives the gradients for these tensors too, as mg.grad would
        grad_outputs  cotangents of the outputs (constants, or tensors from `inputs`)
        allow_unused  None for what the outputs do not depend on, in the place of an error
        copy          False: a call hands out its own buffers, which the next call overwrites
        """
        from .tape_program import compile_program

        return compile_program(self, outputs, inputs, wrt, grad_outputs, allow_unused, copy)


def _ports(node: Any) -> list:
    """The living ports of a node, newest first."""
    ports = [port for ref in node.ports if (port := ref()) is not None]
    return sorted(ports, key=lambda port: -port.number)


def holding(seeds: dict) -> Tape:
    """The tape that recorded these roots: one that records now, else any that is alive."""
    with _lock:
        tapes = [*reversed(modes.state.tapes), *_tapes]
    results = [place for place in seeds if place.__class__ is not Leaf]
    for tape in tapes:
        if all(tape.value_of(place) is not None for place in results):
            return tape
    raise TapeError(
        'engine="tape": no tape has recorded this result. Run the forward inside '
        "`with mg.Tape() as tape:` and keep the tape until the backward."
    )


engines["tape"] = lambda work: holding(work.cotangents).walk(work)
orders["tape"] = lambda seeds: holding(seeds).order(seeds)
