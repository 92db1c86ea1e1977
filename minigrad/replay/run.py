"""One call of a compiled function: its Python runs, and its arithmetic is awaited.

A run is a sequence of segments. A segment begins with the first op. It ends at the first look at a
number (an optimizer reads a gradient, x.item()) or at the end of the function. Until then each op
is compared with the next call of a recorded program. If all calls are equal, the program runs as a
whole. If one differs, the calls before it run op by op, and the rest of the segment is recorded. So
branches, counters and prints of the function are right by construction: its Python always runs. The
Python of this library's own layers does not, where it would make the same calls (stretches.py).
"""

import operator
from collections.abc import Callable
from sys import getrefcount
from threading import RLock
from typing import Any

from ..backends import random
from ..engine import events, graph, modes, versions
from ..engine.errors import describe
from ..engine.graph import Leaf, TensorBase
from ..errors import CompileError
from ..modes.hook_runner import any_in
from ..tensor_api import derivatives
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
from .stretches import Stretch, inside, keep


def _counts(values: list) -> list[int]:
    return list(map(getrefcount, values))


(_ALONE,) = _counts([object()])  # the count of an object that only a list refers to


def _referred_to(values: list) -> list[int]:
    """The indices of values with references from outside this list."""
    return [i for i, count in enumerate(_counts(values)) if count > _ALONE]


_outside = RLock()  # guards a segment that outlives its function


class Run:
    """The state of one call. `store` keeps the programs of this form of call, by segment.

    If the function returns a result before its backward, the last segment goes on. Ops of its
    results (a loss) and their backward belong to it, as if the function contained them. The
    backward ends the segment, and so does a look at a number.
    """

    def __init__(self, store: Any, given: set[int]):
        self.store, self.given = store, given  # given: ids of the arrays among the arguments
        self.thread = modes.state.thread
        self.segment = -1
        self.over = False  # the function has returned, and the segment has not gone on
        self.lasts = False  # the function has returned, and the segment goes on
        self.is_outside_fn = False  # like `lasts`, and stays True after the segment's end
        self.looks = 0  # how often a watched tensor was looked at: see stretches.py
        self.begin()

    def begin(self) -> None:
        """Begin the next segment."""
        self.made: list[Awaited] = []  # the results, by number
        self.recording: Recording | None = None
        if self.over:
            return
        self.segment += 1
        self.untried: list[Program] = self.store.programs(self.segment)[:]
        self.program: Program | None = self.untried.pop(0) if self.untried else None
        self.position = 0  # in the program
        self.ahead = [*self.program.calls, END] if self.program is not None else [END]
        self.bound: list = []  # the tensor or array for each Outside of the program
        self.leaves: set[int] = set()  # the ids of those that require a gradient
        self.clocks: list[int] = []  # for each of these the newest write before its first use
        self.misfit: Outside | None = None
        self.sums: dict[int, Any] = {}  # number of a gradient -> the older one to add it to
        self.gradients: set[int] = set()  # numbers of the values from a backward
        if self.program is not None and self.program.runner is None:
            self.program, self.ahead = None, [END]
            self.leave()  # the rest of the call runs op by op

    def leave(self) -> None:
        """Await nothing more in this call."""
        modes.state.pending = None

    # -- calls ---------------------------------------------------------------------------------

    def call(self, op: Any, args: tuple, params: dict, here: dict) -> Any:
        """The result of an op, awaited; None if the op must run at once.

        here   the modes of this thread
        """
        if self.is_outside_fn:
            return self.call_outside(op, args, params, here)
        expected = self.ahead[self.position]
        known, made, bound = expected.args, self.made, self.bound
        begun = len(bound)
        if (
            expected.op is op
            and expected.recording is here["recording"]
            and here["autocast"] is None
            and len(args) == len(known)
            and (not params and not expected.params or same(params, expected.params))
        ):
            for i, x in enumerate(args):  # zip(strict=True) would take longer than this loop
                n = known[i]
                if n.__class__ is not int:
                    fits = x is n.value or same(x, n.value)
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
        if len(bound) > begun:
            self.unbind(begun)
        return self.unexpected(op, args, params, here)

    def unbind(self, begun: int) -> None:
        """Release the objects that a call bound before one of its arguments differed."""
        self.leaves -= {id(x) for x in self.bound[begun:]}
        del self.bound[begun:], self.clocks[begun:]

    def has_effects(self, expected: Call, params: dict) -> bool:
        """Whether a call writes to the expected arrays, and its leaves are as in the recording."""
        if expected.writes:
            pairs = zip(arrays_in(params), arrays_in(expected.params), strict=True)
            return all(a is b for a, b in pairs)
        bound, leaves = self.bound, expected.leaves or ()
        for k, had_gradient in leaves:
            x = bound[k]
            if type(x.node) is not Leaf or (x._grad is not None) is not had_gradient:
                return False
        return not (graph.hook_count and any_in([bound[k].node for k, _ in leaves]))

    def call_outside(self, op: Any, args: tuple, params: dict, here: dict) -> Any:
        """`call` after the function has returned: ops of its results are awaited."""
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
            if made is None:  # the op is no part of the segment, which ends before it
                self.end("an op of its results runs as it stands")
            return made

    def is_outside(self, k: int, x: Any) -> bool:
        """Whether x is the object bound to Outside k in this call; binds the first that fits."""
        assert self.program is not None
        outside, bound = self.program.outsides[k], self.bound
        if k < len(bound):
            return not outside.needs and outside.is_same(bound[k], x)
        if not outside.fits(x):
            if outside.is_of_its_kind(x):
                self.misfit = outside
            return False
        if outside.shares is not None:
            if array_of(bound[outside.shares]) is not array_of(x):
                return False
        if outside.needs:
            if id(x) in self.leaves:
                return False  # the recording had two leaves, with a gradient each
            self.leaves.add(id(x))
        bound.append(x)
        self.clocks.append(versions.last_write)
        return True

    def awaiting(self, call: Call) -> tuple | Awaited:
        """The awaited results of a program's call that has several results, or effects."""
        if call.draws:
            random.await_draws(self.drawn)
        return self.promised(call, self.bound)

    def promised(self, call: Call, outsides: list) -> tuple | Awaited:
        """The awaited results of a call; those of a backward are added to the leaves' gradients."""
        made = [awaited(spec, self) for spec in call.outputs]
        self.made += made
        if call.leaves is not None:
            self.gradients.update([spec.index for spec in call.outputs])
            for (k, _), g in zip(call.leaves, made, strict=True):
                leaf = outsides[k]
                if leaf._grad is not None:
                    self.sums[spec_of(g).index] = leaf._grad
                leaf._grad = g
            if self.program is not None and self.program.runner is None:
                # leaves from before the segment get their gradients now: none is awaited for them
                self.end("a backward goes through what was computed before the call")
        return tuple(made) if call.several else made[0]

    def unexpected(self, op: Any, args: tuple, params: dict, here: dict) -> Any:
        """The result of a call that differs from the program's next one, or is being recorded."""
        if not any(isinstance(x, TensorBase) for x in args):
            return None
        if self.program is not None:
            self.differs()
            return self.call(op, args, params, here)
        if modes.state.pending is not self:
            return None
        return self.record(op, args, params)

    def record(self, op: Any, args: tuple, params: dict) -> Any:
        """Run and record a call; returns its results as Awaited."""
        if op is detach and type(args[0]) is not Awaited:
            return None
        if op is backward and not all(type(x) is Awaited for x in args):
            return None  # a program was replayed up to here
        why = "" if op is backward else unfit(op, args, params, self.gradients)
        if why:
            self.end(why)
            return None
        if self.recording is None:
            self.recording = self.new_recording()
        recording = self.recording
        call = recording.backward(args) if op is backward else recording.call(op, args, params)
        if call is None:
            return None
        return self.promised(call, [x.tensor for x in recording.outsides] if call.leaves else [])

    def new_recording(self) -> Recording:
        return Recording(self.store, self.segment, self.given, self.made, self.drawn)

    # -- layers and functions of the library ---------------------------------------------------

    def inside(self, fn: Any, call: Callable, /, *args: Any, **kwargs: Any) -> Any:
        """call(*args, **kwargs), a call of the layer or function fn of this library."""
        known = None
        if self.program is not None:
            known = self.program.stretches.get(self.position)
            if known is None:
                return call(*args, **kwargs)
        return inside(self, fn, call, args, kwargs, known)

    def progress(self) -> tuple[int, int, int]:
        """How many calls, values and Outsides this segment has so far."""
        calls, objects = self.so_far()
        done = self.position if self.program is not None else len(calls)
        return done, len(self.made), len(objects)

    def so_far(self) -> tuple[list[Call], list]:
        """The calls, and the tensor or array for each Outside."""
        if self.program is not None:
            return self.program.calls, self.bound
        if self.recording is None:
            return [], []
        return self.recording.calls, [x.tensor for x in self.recording.outsides]

    def keep_stretch(self, stretch: Stretch) -> None:
        """Let replays take these calls as a whole."""
        if self.program is not None:
            keep(self.program.stretches, stretch)
        elif self.recording is not None:
            keep(self.recording.stretches, stretch)

    # -- backward ------------------------------------------------------------------------------

    def aside(self, why: str, fn: Callable, *args: Any, **kwargs: Any) -> Any:
        """fn(...) outside the program: awaited results are computed first."""
        self.end(why)
        before, modes.state.pending = modes.state.pending, None
        try:
            return fn(*args, **kwargs)
        finally:
            modes.state.pending = before

    def backward(self, tensors: Any) -> bool:
        """Await a backward; False if it must run outside the program."""
        roots = tuple(derivatives.listed(tensors))
        if not all(type(x) is Awaited for x in roots):
            return False
        made = self.call(backward, roots, {}, modes.state.__dict__)
        if self.is_outside_fn:
            self.end("its backward was called")
        return made is not None

    # -- where the program does not fit --------------------------------------------------------

    def differs(self) -> None:
        """Continue with another program that begins like this segment, or begin to record."""
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
        """Whether a program begins with the calls so far, and its Outsides fit their objects."""
        assert self.program is not None
        begun, taken = self.program.calls[: self.position], other.outsides[: len(self.bound)]
        calls = other.calls[: self.position]
        if len(calls) != len(begun) or not all(map(operator.is_, calls, begun)):
            return False
        return all(known.fits(x) for known, x in zip(taken, self.bound, strict=True))

    def resolve(self) -> None:
        """Run the awaited calls op by op, and record from here on."""
        program, self.program = self.program, None
        assert program is not None
        random.await_draws(None)
        self.refuse_written()
        self.recording = self.new_recording()
        begun = [x for known in program.stretches.values() for x in known]
        for stretch in [x for x in begun[::-1] if x.end <= self.position]:
            keep(self.recording.stretches, stretch)
        calls, self.ahead, self.position = self.ahead[: self.position], [END], 0
        if not self.recording.repeat(calls, program, self.bound, self.clocks):
            self.leave()
            raise CompileError(
                "mg.compile: leaves changed between a backward and the first look at a "
                "gradient. Look at one (w.grad.data) before you change them."
            )

    def refuse_written(self) -> None:
        """CompileError if the program has written to memory that awaited ops read."""
        newest = versions.last_write_here()
        if not self.clocks or newest <= self.clocks[0]:  # nearly always
            return
        for x, clock in zip(self.bound, self.clocks, strict=True):
            written = newest > clock and versions.written_after(array_of(x), clock)
            if written:
                self.leave()
                raise CompileError(
                    f"mg.compile: {written[3]} changed {describe(x)} while ops that read it were "
                    "awaited. Look at one of their results (y.data) before the write, or write "
                    "outside the compiled function."
                )

    # -- the end of a segment ------------------------------------------------------------------

    def drawn(self) -> None:
        """End the segment before a random draw: its awaited ops draw first."""
        self.end("random numbers are drawn between ops")

    def look(self) -> None:
        """End the segment before a look at the numbers of a result."""
        if modes.state.thread != self.thread and not self.is_outside_fn:
            raise CompileError(
                "mg.compile: another thread looks at a result that this call has not computed yet. "
                "Look at it (y.data) before you pass it to the thread."
            )
        self.end("a number is looked at")

    def end(self, why: str) -> None:
        """Compute all awaited results; the next op begins another segment."""
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
        """Run the program, or hand out the recorded results."""
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
        """Whether the segment goes on now that the function has returned."""
        if self.recording is not None and self.recording.is_open(_referred_to(self.made)):
            self.recording.calls[-1].returns = self.lasts = True
        elif self.program is not None and self.position:
            is_last = self.ahead[self.position] is END
            self.lasts = self.ahead[self.position - 1].returns and not is_last
        self.is_outside_fn = self.lasts
        return self.lasts

    def finish(self) -> None:
        """The function has returned: compute the awaited results, outside the mode."""
        self.over = True
        self.compute("the function returned")

    def replay(self) -> bool:
        """Run the program of this segment; False if none is for all its calls and results."""
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
        random.await_draws(None)  # the program makes the draws
        self.refuse_written()
        if not self.over:
            modes.state.pending = None
            modes.add_reason(-1)
        try:
            arrays = program.run(self.bound, events.listeners)
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
        """Turn every Awaited that is still referred to into a plain tensor."""
        for i in alive:
            x = self.made[i]
            if type(x) is Awaited:
                fill(x, arrays[i], nodes.get(i))

    def settle_recorded(self) -> list[int]:
        """`settle` with the recorded results; returns the numbers of those still referred to."""
        assert self.recording is not None
        self.recording.add_older(self.sums)
        alive = _referred_to(self.made)
        self.settle(self.recording.arrays(), self.recording.nodes(), alive)
        return alive

    def built(self, alive: list[int]) -> Program:
        """The program of the recorded segment."""
        recording = self.recording
        assert recording is not None
        outer, modes.state.pending = modes.state.pending, None
        try:
            return build(recording, recording.tape, alive, recording.open)
        finally:
            modes.state.pending = outer

    def abandon(self) -> None:
        """An error leaves the function: compute the results alive, and keep no program."""
        random.await_draws(None)
        if self.made:
            if self.program is not None:
                self.resolve()
            self.settle_recorded()
            self.made, self.recording = [], None  # both refer to this run
