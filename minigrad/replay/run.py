"""One call of a compiled function: its Python runs, and its arithmetic is awaited.

A run is a row of segments. A segment begins with the first op and ends where somebody looks at a
number: an optimizer that reads a gradient, x.item(), the end of the function. While it lasts, each
op is compared with the next call of the program that was recorded before. Where all are the same
the program runs, as one. Where one differs, what came before it runs op by op, and the rest of the
segment is recorded anew. So branches, counters and prints of the function are right by
construction: nothing that Python does is left out.
"""

import operator
from collections.abc import Callable
from sys import getrefcount
from threading import RLock
from typing import Any

from ..backends import random
from ..engine import graph, modes, versions
from ..engine.errors import describe
from ..engine.graph import Leaf, TensorBase
from ..errors import CompileError
from ..modes.hook_runner import any_in
from ..tensor_api import derivatives
from ..tensor_api.tensor import Tensor
from .awaited import Awaited, awaited, detach, fill, spec_of
from .calls import (
    END,
    Call,
    Outside,
    array_of,
    arrays_in,
    mode_in_the_way,
    same,
    unfit,
)
from .program import Program, build
from .recording import Recording, backward


def _counts(values: list) -> list[int]:
    return list(map(getrefcount, values))


(_ALONE,) = _counts([object()])  # the count of what a list alone refers to


def _referred_to(values: list) -> list[int]:
    """The numbers of those that somebody has besides this list."""
    return [i for i, count in enumerate(_counts(values)) if count > _ALONE]


_outside = RLock()  # held where a segment that outlives its function is used


class Run:
    """The state of one call. `store` keeps the programs of this form of call, by segment.

    Where the function returns a result whose backward is still to come, its last segment goes on:
    ops of its results (a loss) and their backward belong to it, as if they stood in the function.
    The backward ends it, and so does a look at a number.
    """

    def __init__(self, store: Any, given: set[int]):
        self.store, self.given = store, given  # given: ids of the arrays among the arguments
        self.thread = modes.state.thread
        self.segment = -1
        self.over = False  # the function has returned, and the segment has not gone on
        self.lasts = False  # the function has returned, and the segment goes on
        self.is_outside_fn = False  # the same, also when it has ended
        self.begin()

    def begin(self) -> None:
        """The next segment."""
        self.made: list[Awaited] = []  # the results, by number
        self.recording: Recording | None = None
        if self.over:
            return
        self.segment += 1
        self.untried: list[Program] = self.store.programs(self.segment)[:]
        self.program: Program | None = self.untried.pop(0) if self.untried else None
        self.position = 0  # in the program
        self.ahead = [*self.program.calls, END] if self.program is not None else [END]
        self.bound: list = []  # the tensor or array in place of each Outside of the program
        self.clocks: list[int] = []  # for each of them the newest write before its first use
        self.misfit: Outside | None = None
        self.sums: dict[int, Any] = {}  # gradient -> the older one that it is added to
        self.gradients: set[int] = set()  # the values that a backward has made
        if self.program is not None and self.program.runner is None:
            self.program, self.ahead = None, [END]
            self.leave()  # the rest of the call runs as it stands

    def leave(self) -> None:
        """Await nothing more in this call."""
        modes.state.pending = None

    # -- calls ---------------------------------------------------------------------------------

    def call(self, op: Any, args: tuple, params: dict, here: dict) -> Any:
        """The result of an op, awaited; None where the op may run as ever.

        here   the modes of this thread
        """
        if self.is_outside_fn:
            return self.call_outside(op, args, params, here)
        expected = self.ahead[self.position]
        known, made, bound = expected.args, self.made, self.bound
        before = len(bound)
        if (
            expected.op is op
            and expected.recording is here["recording"]
            and here["autocast"] is None
            and len(args) == len(known)
            and (not params and not expected.params or same(params, expected.params))
        ):
            for i, x in enumerate(args):  # zip(strict=True) takes longer than all this
                n = known[i]
                if n.__class__ is not int:
                    fits = same(x, n.value)
                elif n >= 0:
                    fits = x is made[n]
                else:
                    fits = ~n < len(bound) and x is bound[~n] or self.is_outside(~n, x)
                if not fits:
                    break
            else:
                if expected.only is not None:
                    self.position += 1
                    y = awaited(expected.only, self)
                    made.append(y)
                    return y
                if self.has_effects(expected, params):
                    self.position += 1
                    return self.awaiting(expected)
        del bound[before:], self.clocks[before:]
        return self.unexpected(op, args, params, here)

    def has_effects(self, expected: Call, params: dict) -> bool:
        """Whether a call writes where the expected one did, and its gradients go to such leaves."""
        if expected.writes:
            pairs = zip(arrays_in(params), arrays_in(expected.params), strict=True)
            return all(a is b for a, b in pairs)
        leaves = [(self.bound[k], had) for k, had in expected.leaves or ()]
        if graph.hook_count and any_in([x.node for x, _ in leaves]):
            return False
        return all(type(x.node) is Leaf and (x._grad is not None) is had for x, had in leaves)

    def call_outside(self, op: Any, args: tuple, params: dict, here: dict) -> Any:
        """The same after the function has returned: ops of its results are awaited."""
        with _outside:
            if any(type(x) is Awaited for x in args):
                why = mode_in_the_way(here)
            elif arrays_in(params):
                why = "an op writes"
            elif _referred_to(self.made):
                return None
            else:
                why = "nobody refers to its results"
            if why or not self.lasts:
                self.end(why)
                return None
            self.is_outside_fn = False
            try:
                made = self.call(op, args, params, here)
            finally:
                self.is_outside_fn = True
            if made is None:  # it is no part of the segment, which has ended before it
                self.end("an op of its results runs as it stands")
            return made

    def is_outside(self, k: int, x: Any) -> bool:
        """Whether x is what stands for Outside k in this call, or may from now on."""
        assert self.program is not None
        outside = self.program.outsides[k]
        if k < len(self.bound):
            return not outside.needs and outside.is_same(self.bound[k], x)
        if not outside.fits(x):
            if outside.is_of_its_kind(x):
                self.misfit = outside
            return False
        if outside.shares is not None:
            if array_of(self.bound[outside.shares]) is not array_of(x):
                return False
        if outside.needs and any(known is x for known in self.bound):
            return False  # two leaves were two: their gradients are not summed as those of one
        self.bound.append(x)
        self.clocks.append(versions.last_write)
        return True

    def awaiting(self, call: Call) -> tuple | Awaited:
        """What a call with several results, or with effects, returns that the program will make."""
        if call.draws:
            random.await_draws(self.drawn)
        return self.promised(call, self.bound)

    def promised(self, call: Call, outsides: list) -> tuple | Awaited:
        """The results of a call; those of a backward are added to the leaves' gradients."""
        made = [awaited(spec, self) for spec in call.outputs]
        self.made += made
        if call.leaves is not None:
            for (k, _), g in zip(call.leaves, made, strict=True):
                self.deposit(outsides[k], g)
            if self.program is not None and self.program.runner is None:
                # leaves from before the segment have no awaited gradient: they get theirs now
                self.end("a backward goes through what was computed before the call")
        return tuple(made) if call.several else made[0]

    def unexpected(self, op: Any, args: tuple, params: dict, here: dict) -> Any:
        """The result of a call that is not the program's next one, or is recorded."""
        if not any(isinstance(x, TensorBase) for x in args):
            return None
        if self.program is not None:
            self.differs()
            return self.call(op, args, params, here)
        if modes.state.pending is not self:
            return None
        return self.record(op, args, params)

    def record(self, op: Any, args: tuple, params: dict) -> Any:
        """Run a call, note it, and hand out its results as Awaited ones."""
        if op is detach and type(args[0]) is not Awaited:
            return None
        if op is backward and not all(type(x) is Awaited for x in args):
            return None  # a program was replayed up to here
        why = "" if op is backward else unfit(op, args, params, self.gradients)
        if why:
            self.end(why)
            return None
        if self.recording is None:
            self.recording = Recording(self.store, self.segment, self.given, self.made)
        recording = self.recording
        call = recording.backward(args) if op is backward else recording.call(op, args, params)
        if call is None:
            return None
        return self.promised(call, [x.tensor for x in recording.outsides] if call.leaves else [])

    # -- backward ------------------------------------------------------------------------------

    def aside(self, why: str, fn: Callable, *args: Any, **kwargs: Any) -> Any:
        """fn(...) as it stands, on what is computed by now."""
        self.end(why)
        before, modes.state.pending = modes.state.pending, None
        try:
            return fn(*args, **kwargs)
        finally:
            modes.state.pending = before

    def backward(self, tensors: Any) -> bool:
        """Await a backward; False where it has to run as it stands."""
        roots = tuple(derivatives.listed(tensors))
        if not all(type(x) is Awaited for x in roots):
            return False
        made = self.call(backward, roots, {}, modes.state.__dict__)
        if self.is_outside_fn:
            self.end("its backward was called")
        return made is not None

    def deposit(self, leaf: Tensor, g: Awaited) -> None:
        """Add an awaited gradient to a leaf's."""
        number = spec_of(g).index
        self.gradients.add(number)
        if leaf._grad is not None:
            self.sums[number] = leaf._grad
        leaf._grad = g

    # -- where the program does not fit --------------------------------------------------------

    def differs(self) -> None:
        """Go on with another program that begins like this segment; else record from here on."""
        program, misfit, self.misfit = self.program, self.misfit, None
        assert program is not None
        if misfit is not None and not misfit.varying:
            self.store.vary(self.segment, program, misfit.first_use)
        else:
            while self.untried:
                other = self.untried.pop(0)
                if len(other.calls) > self.position and self.is_alike(other):
                    self.program, self.ahead = other, [*other.calls, END]
                    return
            if self.position == len(program.calls) and self.replay():
                return  # this call begins the next segment
        self.resolve()

    def is_alike(self, other: Program) -> bool:
        """Whether a program begins with the calls made so far, on what they took."""
        assert self.program is not None
        begun, taken = self.program.calls[: self.position], other.outsides[: len(self.bound)]
        calls = other.calls[: self.position]
        if len(calls) != len(begun) or not all(map(operator.is_, calls, begun)):
            return False
        return all(known.fits(x) for known, x in zip(taken, self.bound, strict=True))

    def resolve(self) -> None:
        """Run op by op what was awaited, and go on recording."""
        program, self.program = self.program, None
        assert program is not None
        random.await_draws(None)
        self.refuse_written()
        self.recording = Recording(self.store, self.segment, self.given, self.made)
        calls, self.ahead, self.position = self.ahead[: self.position], [END], 0
        if not self.recording.repeat(calls, program, self.bound, self.clocks):
            self.leave()
            raise CompileError(
                "mg.compile: leaves were changed between a backward and the first look at a "
                "gradient. Look at one (w.grad.data) before that."
            )

    def refuse_written(self) -> None:
        """CompileError where memory that awaited ops read was written meanwhile."""
        newest = versions.last_write_here()
        if not self.clocks or newest <= self.clocks[0]:  # nearly always
            return
        for x, clock in zip(self.bound, self.clocks, strict=True):
            written = newest > clock and versions.written_after(array_of(x), clock)
            if written:
                self.leave()
                raise CompileError(
                    f"mg.compile: {written[3]} has changed {describe(x)} while ops that read it "
                    "were awaited. Look at a result of theirs before (y.data), or write outside of "
                    "the compiled function."
                )

    # -- the end of a segment ------------------------------------------------------------------

    def drawn(self) -> None:
        """Somebody draws random numbers, and awaited ops draw before."""
        self.end("random numbers are drawn between ops")

    def look(self) -> None:
        """Somebody looks at the numbers of a result."""
        if modes.state.thread != self.thread and not self.is_outside_fn:
            raise CompileError(
                "mg.compile: another thread looks at a result that this call has not computed yet. "
                "Look at it (y.data) before it is handed to the thread."
            )
        self.end("a number is looked at")

    def end(self, why: str) -> None:
        """Compute all that is awaited; the next op begins another segment."""
        if not self.is_outside_fn:
            self.compute(why)
            return
        with _outside:  # another thread may look at the same time
            if modes.state.pending is self:
                modes.state.pending = None
            if self.lasts:
                self.over = True
                modes.add_reason(-1)
                try:
                    self.compute(why)
                finally:
                    self.lasts = False

    def compute(self, why: str) -> None:
        """Run the program, or settle what was recorded."""
        if not self.made:
            return
        random.await_draws(None)
        if self.program is not None:
            if self.replay():
                return
            self.resolve()
        alive = self.settle_recorded()
        self.store.keep(self.segment, self.built(alive), why)
        self.begin()

    def goes_on(self) -> bool:
        """Whether the segment does, now that the function has returned."""
        if self.recording is not None and self.recording.is_open(_referred_to(self.made)):
            self.recording.calls[-1].returns = self.lasts = True
        elif self.program is not None and self.position:
            is_last = self.ahead[self.position] is END
            self.lasts = self.ahead[self.position - 1].returns and not is_last
        self.is_outside_fn = self.lasts
        return self.lasts

    def finish(self) -> None:
        """The function has returned: compute what is awaited, outside of the mode."""
        self.over = True
        self.compute("the function returned")

    def replay(self) -> bool:
        """Run the program, if it is the one for this segment."""
        program, begun = self.program, self.position
        assert program is not None
        if len(program.calls) != begun:
            known = self.store.programs(self.segment)
            ended = [x for x in known if len(x.calls) == begun and self.is_alike(x)]
            if not ended:
                return False
            program = ended[0]
        alive = _referred_to(self.made)
        if program.runner is None or not program.hands_out.issuperset(alive):
            return False
        random.await_draws(None)  # the program draws itself
        self.refuse_written()
        if not self.over:
            modes.state.pending = None
            modes.add_reason(-1)
        try:
            arrays = program.run([array_of(x) for x in self.bound])
            for i, old in sorted(self.sums.items()):
                older = arrays[spec_of(old).index] if type(old) is Awaited else old._data
                arrays[i] = older + arrays[i]
            for i in program.views:
                if i in alive:
                    arrays[i] = program.view(i, arrays, self.bound)
        finally:
            if not self.over:
                modes.add_reason()
                modes.state.pending = self
        self.settle(arrays, program.nodes, alive)
        self.store.used(self.segment, program)
        self.begin()
        return True

    def settle(self, arrays: Any, nodes: dict, alive: list[int]) -> None:
        """Every Awaited that somebody refers to becomes a plain tensor."""
        for i in alive:
            x = self.made[i]
            if type(x) is Awaited:
                fill(x, arrays[i], nodes.get(i))

    def settle_recorded(self) -> list[int]:
        """The same with what was computed op by op; the numbers of what is alive."""
        assert self.recording is not None
        self.recording.add_older(self.sums)
        alive = _referred_to(self.made)
        self.settle(self.recording.arrays(), self.recording.nodes(), alive)
        return alive

    def built(self, alive: list[int]) -> Program:
        """The program of the segment that was recorded."""
        recording = self.recording
        assert recording is not None
        outer, modes.state.pending = modes.state.pending, None
        try:
            return build(recording, recording.tape, alive, recording.open)
        finally:
            modes.state.pending = outer

    def abandon(self) -> None:
        """An error leaves the function: what is alive gets its numbers, and nothing is kept."""
        random.await_draws(None)
        if self.made:
            if self.program is not None:
                self.resolve()
            self.settle_recorded()
            self.made, self.recording = [], None  # they refer to this run
