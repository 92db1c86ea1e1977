"""The recording of a segment: its calls, while they run op by op."""

from collections.abc import Callable
from typing import Any

from ..backends import random
from ..engine import graph, modes, versions
from ..engine.graph import Leaf, Port, TensorBase, wrap
from ..modes.hook_runner import any_in
from ..tape.tape import Tape
from ..tensor_api import derivatives
from ..tensor_api.tensor import Tensor
from .awaited import Awaited, Spec, spec_of
from .calls import (
    Call,
    Constant,
    Outside,
    array_of,
    is_array,
    kept,
    needs,
)
from .program import Program


def backward(*roots: Tensor) -> list[tuple[Tensor, Any]]:
    """[(leaf, its gradient)] of one backward from these roots."""
    found: list = []

    def keep(vertex: Any, g: Any) -> None:
        x = vertex.tensor()
        if x is not None and x.node is not None:  # else it was dropped or frozen since
            found.append((x, g))

    derivatives.differentiate(list(roots), None, keep, None, None, False, deposits=True)
    return found


def identity(x: Any) -> tuple:
    """A key of a tensor or array: one Outside stands for all with the same key."""
    return id(array_of(x)), isinstance(x, TensorBase), id(x) if needs(x) else 0


class Recording:
    """The calls of a segment, run one by one on a tape and recorded.

    given        the ids of the arrays among the function's arguments
    made         the Awaited of each value, by number
    drawn        called before a random draw that is not a call's, once a call has drawn
    before_draw  the generators' states before the first call that draws; None without one
    stretches    position -> the calls of a layer or function that begin there (stretches.py)
    """

    def __init__(
        self,
        store: Any,
        segment: int,
        given: set[int],
        made: list[Awaited],
        drawn: Callable[[], None],
    ):
        self.store, self.segment, self.given, self.made = store, segment, given, made
        self.drawn = drawn
        self.before_draw: dict | None = None
        self.stretches: dict[int, list] = {}
        self.tape = Tape()
        self.calls: list[Call] = []
        self.outsides: list[Outside] = []
        self.numbers: dict[tuple, int] = {}  # identity of an Outside -> its k
        self.values: list[Any] = []  # the computed results, by number
        self.alone: dict[int, Any] = {}  # number -> a gradient without the older one
        self.open = ""  # why this segment cannot be replayed, if it cannot

    # -- calls ---------------------------------------------------------------------------------

    def call(self, op: Any, args: tuple, params: dict) -> Call:
        """Run an op, and record it."""
        call = Call(op, self.references(args), kept(params), modes.state.recording)
        before = versions.last_write_here()
        y = self.run(call, [self.real(x) for x in args], params)
        if versions.last_write_here() != before:
            call.writes, call.params = True, params
        call.several = isinstance(y, tuple)
        return self.noted(call, y if call.several else (y,))

    def run(self, call: Call, args: list, params: dict) -> Any:
        """Run the call's op on real tensors; returns its results."""
        state = modes.state
        outer = {name: getattr(state, name) for name in ("pending", "recording")}
        state.set({"pending": None, "recording": call.recording})  # the call's mode
        before = len(self.tape)
        if call.draws:
            random.await_draws(None)  # this draw is a part of the segment
            self.before_draw = self.before_draw or random.get_state()
        try:
            with self.tape:
                return call.op(*args, **params)
        finally:
            if call.draws:
                random.await_draws(self.drawn)
            state.set(outer)
            for entry in self.tape[before:]:
                call.origin = entry.origin = call.origin or entry.origin

    def noted(self, call: Call, ys: tuple) -> Call:
        """Add the call and its results to the recording; returns the call."""
        call.outputs = [Spec(len(self.values) + i, y) for i, y in enumerate(ys)]
        if not (call.several or call.draws or call.writes):
            call.only = call.outputs[0]
        self.calls.append(call)
        self.values += ys
        return call

    def references(self, args: tuple) -> tuple:
        """The arguments in the form of Call.args."""
        return tuple([self.reference(x, i) for i, x in enumerate(args)])

    def reference(self, x: Any, position: int) -> Any:
        """One argument in the form of Call.args."""
        if type(x) is Awaited and (i := spec_of(x).index) < len(self.made) and self.made[i] is x:
            return i
        if not (isinstance(x, TensorBase) or is_array(x)):
            return Constant(x)
        key = identity(x)
        if key not in self.numbers:
            self.outside(x, (self.segment, len(self.calls), position))
        return ~self.numbers[key]

    def outside(self, x: Any, first_use: tuple) -> Outside:
        """Add an Outside."""
        array = array_of(x)
        shares = next((k for k, o in enumerate(self.outsides) if o.array is array), None)
        varying = id(array) in self.given or self.store.varies(self.segment, first_use, x)
        self.numbers.setdefault(identity(x), len(self.outsides))
        self.outsides.append(Outside(x, varying, first_use, shares))
        return self.outsides[-1]

    def real(self, x: Any) -> Any:
        """The computed tensor of an Awaited of this segment; other arguments unchanged."""
        return self.values[spec_of(x).index] if type(x) is Awaited else x

    # -- backward ------------------------------------------------------------------------------

    def backward(self, roots: tuple) -> Call | None:
        """Run a backward, and record it; None if it must run outside the program."""
        reals = [self.real(x) for x in roots]
        if graph.hook_count and any_in(graph.backward_order([x.node for x in reals if x.node])):
            return None
        call = Call(backward, self.references(roots), {}, modes.state.recording)
        call.several = True
        leaves, gs = self.differentiated(call, reals)
        call.leaves = tuple([(self.numbers[identity(x)], x._grad is not None) for x in leaves])
        return self.noted(call, tuple(gs))

    def differentiated(self, call: Call, roots: list) -> tuple[list, list]:
        """(the leaves, their gradients as tensors)."""
        leaves, gs = [], []
        for x, g in self.run(call, roots, {}):
            g = g if isinstance(g, Tensor) else wrap(g)
            if identity(x) in self.numbers:
                leaves.append(x)
                gs.append(g)
            else:
                self.open = "a backward goes through what was computed before the call"
                derivatives.accumulate(x, g, False)
        return leaves, gs

    # -- a program's calls, run op by op -------------------------------------------------------

    def repeat(self, calls: list[Call], program: Program, bound: list, clocks: list[int]) -> bool:
        """Run calls of a program op by op, on the objects bound to its Outsides.

        clocks: the newest write before the first use of each. False where a backward has reached
        other leaves.
        """
        for x, known, clock in zip(bound, program.outsides, clocks, strict=False):
            outside = self.outside(x, known.first_use)  # with the same number, even if x repeats
            outside.varying |= known.varying
            outside.last_write = clock
        self.calls = calls
        for call in calls:
            args = [self.argument(n, bound) for n in call.args]
            if call.leaves is None:
                y = self.run(call, args, call.params)
                self.values += y if call.several else (y,)
                continue
            leaves, gs = self.differentiated(call, args)
            if [self.numbers[identity(x)] for x in leaves] != [k for k, _ in call.leaves]:
                return False
            self.values += gs
        return True

    def argument(self, known: Any, bound: list) -> Any:
        """The object for one of the Call.args."""
        if type(known) is not int:
            return known.value
        return self.values[known] if known >= 0 else bound[~known]

    def is_open(self, alive: list[int]) -> bool:
        """Whether one of these values has a graph that a backward has not used up."""
        nodes = [x.node for i in alive if (x := self.values[i]).node is not None]
        nodes = [x.parents[0] if type(x) is Port else x for x in nodes if type(x) is not Leaf]
        return any(node.saved is not None for node in nodes)

    # -- the end -------------------------------------------------------------------------------

    def add_older(self, sums: dict[int, Any]) -> None:
        """Add the older gradients to the new ones, as a backward does with a leaf's `.grad`."""
        for i, old in sorted(sums.items()):
            self.alone[i] = self.values[i]
            self.values[i] = wrap(self.real(old)._data + self.values[i]._data)

    def arrays(self) -> list:
        """The arrays of the values."""
        return [x._data for x in self.values]

    def nodes(self) -> dict:
        """The nodes of the values that have one."""
        return {i: y.node for i, y in enumerate(self.values) if y.node is not None}
