"""What a run records of a segment: its calls, as they run op by op."""

from collections.abc import Callable
from typing import Any

from ..engine import graph, modes, versions
from ..engine.graph import TensorBase, wrap
from ..modes.hook_runner import any_in
from ..tape.tape import Tape
from ..tensor_api import derivatives
from ..tensor_api.tensor import Tensor
from .awaited import Awaited, Spec, awaited, run_of, spec_of
from .calls import (
    Call,
    Constant,
    Outside,
    array_of,
    is_array,
    kept,
    needs,
    unfit,
)


def backward(*roots: Tensor) -> list[tuple[Tensor, Any]]:
    """[(leaf, its gradient)] of one backward from these roots."""
    found: list = []

    def keep(vertex: Any, g: Any) -> None:
        x = vertex.tensor()
        if x is not None and x.node is not None:  # else dropped or frozen meanwhile
            found.append((x, g))

    derivatives.differentiate(list(roots), None, keep, None, None, False, deposits=True)
    return found


def identity(x: Any) -> tuple:
    """Of tensors and arrays with the same one an Outside stands for one."""
    return id(array_of(x)), isinstance(x, TensorBase), id(x) if needs(x) else 0


class Recording:
    """The part of a Run that runs ops one by one and notes them; run.py says what these are."""

    store: Any
    given: set[int]
    segment: int
    made: list[Awaited]
    calls: list[Call]
    outsides: list[Outside]
    numbers: dict[tuple, int]
    values: list[Any]
    sums: dict[int, Any]
    gradients: set[int]
    alone: dict[int, Any]
    tape: Tape | None
    open: str
    end: Callable[[str], None]
    deposit: Callable[[Tensor, Awaited], None]

    def record(self, op: Any, args: tuple, params: dict) -> Any:
        """Run a call, and note it."""
        why = unfit(op, args, params, self.gradients)
        if why:
            self.end(why)
            return None
        if self.tape is None:
            self.tape = Tape()
        call = Call(op, self.references(args), kept(params), modes.state.recording)
        before = versions.last_write_here()
        y = self.run(call, [self.real(x) for x in args], params)
        if versions.last_write_here() != before:
            call.writes, call.params = True, params
        call.several = isinstance(y, tuple)
        return self.made_by(call, y if call.several else (y,))

    def run(self, call: Call, args: list, params: dict) -> Any:
        """Run a call on real tensors, on the tape."""
        state, tape = modes.state, self.tape
        assert tape is not None
        outer = {name: getattr(state, name) for name in ("pending", "recording")}
        state.set({"pending": None, "recording": call.recording})  # that of when it was called
        try:
            with tape:
                return call.op(*args, **params)
        finally:
            state.set(outer)

    def made_by(self, call: Call, ys: tuple) -> Any:
        """The results of a call that was recorded, as Awaited ones."""
        call.outputs = [Spec(len(self.values) + i, y) for i, y in enumerate(ys)]
        if not (call.several or call.draws or call.writes):
            call.only = call.outputs[0]
        self.calls.append(call)
        self.values += ys
        made = [awaited(spec, self) for spec in call.outputs]
        self.made += made
        return tuple(made) if call.several else made[0]

    def references(self, args: tuple) -> tuple:
        """The arguments as a Call keeps them."""
        return tuple([self.reference(x, i) for i, x in enumerate(args)])

    def reference(self, x: Any, i: int) -> Any:
        if type(x) is Awaited and run_of(x) is self:
            return spec_of(x).index
        if not (isinstance(x, TensorBase) or is_array(x)):
            return Constant(x)
        return ~self.outside(x, (self.segment, len(self.calls), i))

    def outside(self, x: Any, use: tuple) -> int:
        """The number of an Outside."""
        key = identity(x)
        if key not in self.numbers:
            self.add_outside(x, use)
        return self.numbers[key]

    def add_outside(self, x: Any, use: tuple) -> Outside:
        """A new Outside."""
        array = array_of(x)
        shares = next((k for k, o in enumerate(self.outsides) if o.array is array), None)
        varying = id(array) in self.given or use in self.store.varying
        self.numbers.setdefault(identity(x), len(self.outsides))
        self.outsides.append(Outside(x, varying, use, shares))
        return self.outsides[-1]

    def real(self, x: Any) -> Any:
        """The tensor that an Awaited of this segment stands for, while it is recorded."""
        return self.values[spec_of(x).index] if type(x) is Awaited else x

    def record_backward(self, roots: tuple) -> tuple | None:
        """The gradients of a backward that is recorded; None where it has to run as it stands."""
        if not all(type(x) is Awaited for x in roots):  # a program was replayed up to here
            return None
        reals = [self.real(x) for x in roots]
        if graph.hook_count and any_in(graph.backward_order([x.node for x in reals if x.node])):
            return None
        call = Call(backward, self.references(roots), {}, modes.state.recording)
        call.several = True
        leaves, gs = self.differentiated(call, reals)
        call.leaves = tuple([(self.numbers[identity(x)], x._grad is not None) for x in leaves])
        made = self.made_by(call, tuple(gs))
        for x, g in zip(leaves, made, strict=True):
            self.deposit(x, g)
        return made

    def differentiated(self, call: Call, roots: list) -> tuple[list, list]:
        """(the leaves, their gradients as tensors)."""
        if self.tape is None:
            self.tape = Tape()
        leaves, gs = [], []
        for x, g in self.run(call, roots, {}):
            if identity(x) in self.numbers:
                leaves.append(x)
                gs.append(g if isinstance(g, Tensor) else wrap(g))
            else:
                self.open = "a backward goes through what was computed before the call"
                derivatives.accumulate(x, g if isinstance(g, Tensor) else wrap(g), False)
        return leaves, gs

    def values_with_sums(self) -> list:
        """The recorded values, gradients with what they are added to."""
        for i, old in sorted(self.sums.items()):
            self.alone[i] = self.values[i]
            self.values[i] = wrap(self.real(old)._data + self.values[i]._data)
        return self.values

    def nodes(self) -> dict:
        """The nodes of the values that have one."""
        return {i: y.node for i, y in enumerate(self.values) if y.node is not None}
