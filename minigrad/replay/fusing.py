"""Fusion: elementwise and row-wise steps of a program become one step.

Such a step launches one kernel or loop, made from a function that also runs on symbols
(expressions/trace.py, fusion/launch.py). Its symbols describe the work on one element or row. Steps
form a group if they share values and no other step must run between them. The symbols of a group
are one program: a kernel on a GPU, a loop on the host while mg.accelerate is on. Values that only
the group reads are never in memory.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.dtypes import finfo, is_differentiable
from ..expressions.blocks import Ref
from ..expressions.trace import Symbol
from ..fusion import launch
from ..tape.trace import Step, Trace, parts_of
from .splits import split
from .works import Work, same_memory, work_of

MOST_ARRAYS = 24  # of one kernel, read or written: each takes registers
MOST_SYMBOLS = 400  # of one kernel: more take long to compile
MOST_TRIED = 8  # groups that a step tries to join: thousands of steps may share one value


class Groups:
    """The groups so far: each step is in one, alone if it is not fused.

    before   for each group the groups that must run before it, one bit each
    """

    def __init__(self, trace: Trace):
        self.trace = trace
        self.members: list[list[int]] = []  # positions of steps
        self.works: list[dict[int, Work]] = []  # position -> work; {}: the group is not fused
        self.before: list[int] = []
        self.maker: dict[int, int] = {}  # value -> the group that computes it
        self.users: dict[int, set[int]] = {}  # value -> groups that read or compute it
        self.values: list[set[int]] = []  # for each group the values in these two
        self.barrier = 0  # the groups that must run before every later step

    def add(self, i: int, step: Step, work: Work | None, is_barrier: bool) -> None:
        """Add the next step as a group, and merge it with others where possible."""
        group = len(self.members)
        self.members.append([i])
        self.works.append({} if work is None else {i: work})
        self.before.append((1 << group) - 1 if is_barrier else self.barrier)
        for source in {self.maker[v] for v in step.reads() if v in self.maker}:
            self.before[group] |= 1 << source | self.before[source]
        made = {y for y in step.outputs if y is not None}
        self.maker.update(dict.fromkeys(made, group))
        self.values.append(made)
        if is_barrier:
            self.barrier = (2 << group) - 1
        if work is not None:
            for other in self.sharing(work)[:MOST_TRIED]:
                group = self.merge(other, group)

    def sharing(self, work: Work) -> list[int]:
        """The groups that use a value of this newest group, the newest first."""
        values = {*work.reads, *[y for y, _ in work.makes]}
        found = {self.maker[v] for v in work.reads if v in self.maker and self.works[self.maker[v]]}
        found |= {group for value in values for group in self.users.get(value, ())}
        for value in values:
            self.users.setdefault(value, set()).add(len(self.members) - 1)
        self.values[-1] |= values
        return sorted(found - {len(self.members) - 1}, reverse=True)

    def merge(self, a: int, b: int) -> int:
        """Merge b into a, if that is allowed; returns the group that then holds b."""
        together = self.works[a] | self.works[b]
        works = [*together.values()]
        if _shapes(works) is None or 1 << a & self.barrier or self.between(a, b):
            return b
        if sum(len(w.symbols) for w in works) > MOST_SYMBOLS:
            return b
        self.members[a], self.members[b] = sorted(together), []
        self.works[a], self.works[b] = together, {}
        for value in self.values[b]:
            if self.maker.get(value) == b:
                self.maker[value] = a
            if b in (users := self.users.get(value, set())):
                users.remove(b)
                users.add(a)
        self.values[a] |= self.values[b]
        self.values[b] = set()
        both = 1 << a | 1 << b
        self.before[a] = (self.before[a] | self.before[b]) & ~both
        for k, before in enumerate(self.before):
            if before & both:
                self.before[k] = (before | self.before[a] | 1 << a) & ~(1 << b)
        return a

    def between(self, a: int, b: int) -> bool:
        """Whether another group must run after one of the two and before the other."""
        for first, second in ((a, b), (b, a)):
            if not self.before[second] >> first & 1:
                continue  # nor does another group come between them
            for k, before in enumerate(self.before):
                if k not in (a, b) and before >> first & 1 and self.before[second] >> k & 1:
                    return True
        return False

    def order(self) -> list[int]:
        """The groups, each after those that must run before it, otherwise in the order of steps."""
        left = [k for k, members in enumerate(self.members) if members]
        done, order = sum(1 << k for k, members in enumerate(self.members) if not members), []
        while left:
            group = next(k for k in left if not self.before[k] & ~done)
            left.remove(group)
            order.append(group)
            done |= 1 << group
        return order


def _shapes(works: Sequence[Work]) -> dict[int, Any] | None:
    """value -> its shape in a program of these works; None if they have no common shape."""
    if len({work.full for work in works}) == 1:
        return {value: own for work in works for value, own in work.own.items()}
    if len({work.matrix for work in works}) > 1 or works[0].matrix is None:
        return None
    return {value: own for work in works for value, own in work.lines.items()}


def _values(works: Sequence[Work]) -> set[int]:
    """All values that these works read or compute."""
    return {v for w in works for v in (*w.reads, *[y for y, _ in w.makes])}


def fused(steps: list[Step], trace: Trace, ends: list[int], written: set[int]) -> list[Step]:
    """The steps of a program, fused where possible.

    ends      the values that the program hands out
    written   ids of arrays that steps write, such as running statistics
    """
    if launch.host is None and all(isinstance(x, np.ndarray) for x in trace.arrays):
        return steps  # NumPy calls run block by block: see tape/blocks.py
    steps = [_belonging(part, step) for step in steps for part in split(step, trace)]
    groups = Groups(trace)
    for i, step in enumerate(steps):
        is_barrier = step.draws or bool(written) and _touches(step, trace, written)
        groups.add(i, step, work_of(step, trace), is_barrier)
    reads = [value for step in steps for value in step.reads()]
    asked = Counter([*reads, *ends])
    made: list[Step] = []
    for group in groups.order():
        members = [(steps[i], groups.works[group].get(i)) for i in groups.members[group]]
        made += _as_few(members, asked, trace)
    for step in made:
        if step.kind == "view" and not trace.fixed[step.reads()[0]]:
            step.kind = "call"  # its argument is now another array in each run
            trace.fixed[step.outputs[0]] = False
    return made


def _belonging(part: Step, whole: Step) -> Step:
    part.source = whole.source
    if part.source is not None and part.name != whole.name:  # `bias` of linear is another kernel
        part.source = part.source._replace(op=part.name)
    return part


_ROUNDINGS = 64  # the largest error of a fused result, in roundings of the largest number


def _alike(ys: list, wanted: list[int], works: Sequence[Work], trace: Trace) -> bool:
    """Whether these results equal those of the single steps, up to rounding.

    The tolerance is relative to the largest number that the steps read or compute: where large
    numbers cancel, only rounding errors are left in both.
    """
    with np.errstate(all="ignore"):
        largest = max([_largest(trace.arrays[value]) for value in _values(works)])
        for value, y in zip(wanted, ys, strict=True):
            own, off = trace.arrays[value], 0.0
            if is_differentiable(own.dtype):
                off = _ROUNDINGS * float(finfo(own.dtype).eps) * largest
                y, own = _wide(y), _wide(own)
            same = (y == own) | ((y != y) & (own != own))
            if off:
                same |= abs(y - own) <= off
            if not bool(same.all()):
                return False
    return True


def _largest(x: Any) -> float:
    """The largest finite absolute value of an array; 0 if its numbers are not real."""
    if not is_differentiable(x.dtype) or not x.size:
        return 0.0
    x = abs(_wide(x))
    return float(np.where(x < np.inf, x, 0).max())


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _seen(x: Any, shape: tuple) -> Any:
    return x if x.shape == shape else x.reshape(shape)


def _touches(step: Step, trace: Trace, written: set[int]) -> bool:
    arrays = [trace.arrays[value] for value in step.reads()]
    constants = parts_of((step.args, step.kwargs), type(arrays[0])) if arrays else ()
    return any(id(x) in written for x in [*arrays, *constants])


def _as_few(members: list, asked: Counter, trace: Trace) -> list[Step]:
    """The steps of a group as one step; halves of the group where one kernel cannot compute it.

    members   (step, its work), in order
    asked     how often each value is read or handed out
    """
    steps = [step for step, _ in members]
    if len(members) == 1 or not _pays(steps, trace):
        return steps
    inside = Counter([value for step in steps for value in step.reads()])
    made = [y for _, work in members for y, _ in work.makes]
    wanted = [y for y in made if asked[y] > inside[y]]
    one = _joined(members, wanted, trace)
    if one is not None:
        return [one]
    half = len(members) // 2
    return [part for some in (members[:half], members[half:])
            for part in _as_few(some, asked, trace)]  # fmt: skip


_CALL, _LOOP = 3, 3  # in ufuncs of a small array: another call, and a fused loop


def _pays(steps: list[Step], trace: Trace) -> bool:
    """Whether one kernel takes less time than these steps, as far as their number tells.

    On a GPU it does, and for large arrays. A small array takes as long as the calls in Python.
    """
    arrays = [trace.arrays[value] for step in steps for value in step.reads()]
    if not isinstance(arrays[0], np.ndarray) or launch.host.takes(arrays):
        return True
    return sum(1 if step.kind == "ufunc" else _CALL for step in steps) > _LOOP


def _joined(members: list, wanted: list[int], trace: Trace) -> Step | None:
    """These steps as one step that computes the wanted values; None where no kernel can."""
    steps, works = zip(*members, strict=True)
    own = {y for work in works for y, _ in work.makes}
    inputs = list(dict.fromkeys(v for work in works for v in work.reads if v not in own))
    if not wanted or len(inputs) + len(wanted) > MOST_ARRAYS:
        return None

    def program(*given: Symbol) -> list:
        known = dict(zip(inputs, given, strict=True))
        for work in works:
            work.again(known, given[0].program)
        return [known[y] for y in wanted]

    shapes = _shapes(works)
    assert shapes is not None
    given = [shapes[value] for value in inputs]
    forms = [trace.arrays[value].shape for value in wanted]
    arrays = [trace.arrays[value] for value in inputs]

    def run(*arrays: Any) -> Any:
        seen = [_seen(x, shape) for x, shape in zip(arrays, given, strict=True)]
        ys = launch.run(program, program, seen, may_pass=True)
        return ys and [_seen(y, shape) for y, shape in zip(ys, forms, strict=True)]

    kind, fn = "call", run
    if (filling := launch.filling(program, arrays, given)) is not None:
        kind, fn = "loop", filling
        inputs, arrays = [inputs[i] for i in filling.reads], [arrays[i] for i in filling.reads]
        ys = [np.empty(trace.arrays[value].shape, trace.arrays[value].dtype) for value in wanted]
        filling.on([*arrays, *ys])()
    elif (ys := run(*arrays)) is None:
        return None
    if not _alike(ys, wanted, works, trace):
        return None
    for value, y in zip(wanted, ys, strict=True):
        same = next((v for v, x in zip(inputs, arrays, strict=True) if same_memory(x, y)), None)
        trace.owners[value] = frozenset([value]) if same is None else trace.owners[same]
        trace.arrays[value], trace.fixed[value] = y, kind == "loop"
    names = "+".join(dict.fromkeys(step.name for step in steps))
    step = Step(kind, fn, tuple([Ref(value) for value in inputs]), {}, f"fused({names})")
    step.outputs, step.several, step.fused = list(wanted), True, steps
    return step
