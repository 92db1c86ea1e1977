"""Fusion: steps of a program that work on one element, or on one row, become one.

Such a step launches one kernel or loop, made from a function that can be run on symbols as well
(expressions/trace.py, fusion/launch.py). Its symbols say what it does to one element or row. Steps
that share values, and between which nothing else must run, are one group, and the symbols of a
group are one program: a kernel on a GPU, a loop on the host while mg.accelerate is on. Values that
only the group reads are never in memory.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.device import is_contiguous
from ..backends.dtypes import finfo, is_differentiable
from ..engine.registry import op
from ..expressions.blocks import Ref
from ..expressions.trace import ROW_FUNCTIONS, NotFusible, Program, Symbol, on_symbols, reached
from ..fusion import launch
from ..on_gpu.products import biased
from ..tape.trace import Step, Trace, flat, mapped, parts_of

MOST_ARRAYS = 24  # that one kernel reads and writes: each takes registers
MOST_SYMBOLS = 400  # of one kernel, so that compiling it takes no minute
MOST_TRIED = 8  # groups that a step may join: thousands of steps may share one value


class Work:
    """What a step does to one element or one row of arrays that are seen as a matrix.

    reads     the values that it takes, in the order of its inputs
    makes     (value, its symbol) for each result
    symbols   those that the results need, in order
    full      the shape that the arrays have together, and `own` that of each of them
    matrix    (rows, length of a row), and `lines` each array in it; None where one is broadcast
              over some of the axes before the last alone
    """

    def __init__(self, fn: Callable, reads: dict[int, tuple], makes: list[int], trace: Trace):
        """reads: the values with the shapes in which fn takes them"""
        self.reads, self.own = list(reads), reads
        self.full = np.broadcast_shapes(*reads.values())
        self.lines = {value: _in_matrix(own, self.full) for value, own in reads.items()}
        self.matrix = None
        if len(self.full) > 1 and None not in self.lines.values():
            self.matrix = prod(self.full[:-1]), self.full[-1]
        program = Program(self.full, is_real=True)
        given = []
        for i, (value, own) in enumerate(reads.items()):
            of_row = own[-1:] == (1,) != self.full[-1:]
            given.append(program.symbol("input", (i,), trace.arrays[value].dtype, of_row))
            given[-1].shape = own
        ys = on_symbols(fn, *given)
        ys = list(ys) if isinstance(ys, list | tuple) else [ys]
        if not all(isinstance(y, Symbol) for y in ys) or len(ys) != len(makes):
            raise NotFusible("a result that is no symbol")
        self.makes = list(zip(makes, ys, strict=True))
        needed = reached(ys)
        self.symbols = [s for s in program.symbols if s.number in needed]

    def fits(self, trace: Trace) -> bool:
        """Whether the results are those of the step: as large, of the same dtypes, neighbours side
        by side.
        """
        line = (*self.full[:-1], 1)
        return all(
            y.op != "constant"
            and y.shape in (self.full, line)
            and y.dtype == trace.arrays[value].dtype
            and trace.arrays[value].size == prod(y.shape)
            and (is_contiguous(trace.arrays[value]) or not any(trace.arrays[value].strides))
            for value, y in self.makes
        )

    def again(self, known: dict[int, Symbol], program: Program) -> None:
        """Record it in another program, in which `known` has the values that it reads."""
        made: dict[int, Symbol] = {}
        for s in self.symbols:
            args: list[Any] = [made[x.number] if isinstance(x, Symbol) else x for x in s.args]
            if s.op == "input":
                made[s.number] = known[self.reads[args[0]]]
            elif s.op in ROW_FUNCTIONS:  # of a value that all elements share, perhaps
                made[s.number] = getattr(args[0], s.op)(axis=-1, keepdims=True)
            else:
                of_row = s.op != "place" and all(x.is_row for x in args if isinstance(x, Symbol))
                made[s.number] = program.symbol(s.op, tuple(args), s.dtype, of_row)
        known.update([(value, made[y.number]) for value, y in self.makes])


def _in_matrix(own: tuple, shape: tuple) -> tuple | None:
    """How an array of shape `own`, broadcast to `shape`, lies in the matrix of its rows."""
    own = (1,) * (len(shape) - len(own)) + own
    rows = prod(own[:-1])
    if own[-1] not in (1, shape[-1]) or rows != 1 and own[:-1] != shape[:-1]:
        return None
    return rows, own[-1]


def work_of(step: Step, trace: Trace) -> Work | None:
    """What a step does to an element or a row; None where it does anything else.

    It runs once more on its arrays, and the kernels that it launches are watched.
    """
    if step.kind == "view" or step.draws or not step.reads():
        return None
    arrays, read = trace.arrays, [trace.arrays[value] for value in step.reads()]
    if isinstance(read[0], np.ndarray) and not (launch.host and launch.host.takes(read)):
        return None  # so little work that no loop pays
    try:
        if step.kind == "ufunc":
            reads = {x.value: arrays[x.value].shape for x in step.args if type(x) is Ref}
            return _checked(Work(_with_numbers(step), reads, step.outputs, trace), trace)
        seen, ys = _watched(step, trace)
        (fn, taken, given) = seen
        reads = {_value_of(x, step.reads(), arrays): x.shape for x in taken}
        if len(reads) < len(taken):
            return None  # one value in two forms
        left, makes = list(zip(ys, step.outputs, strict=True)), []
        for g in given:
            makes.append(left.pop(next(k for k, (y, _) in enumerate(left) if _is(y, g)))[1])
        if any(value is not None for _, value in left):
            return None
        return _checked(Work(fn, reads, makes, trace), trace)
    except (NotFusible, LookupError, StopIteration, TypeError, ValueError):
        return None


def _checked(work: Work, trace: Trace) -> Work | None:
    return work if work.makes and prod(work.full) and work.fits(trace) else None


def _with_numbers(step: Step) -> Callable:
    """A step of a ufunc as a function of its arrays, the numbers among its arguments in place."""
    values = list(dict.fromkeys(step.reads()))

    def function(*symbols: Symbol) -> Any:
        known = dict(zip(values, symbols, strict=True))
        return step.fn(*[known[x.value] if type(x) is Ref else x for x in step.args])

    return function


def _watched(step: Step, trace: Trace) -> tuple[tuple, list]:
    """((function, arrays, results) of the one kernel that a step launches, the step's results).

    NotFusible where it launches none, or several.
    """
    args, named = mapped((step.args, step.kwargs), Ref, lambda ref: trace.arrays[ref.value])
    launch.watching = seen = []
    try:
        ys = list(flat(step.fn(*args, **named)))
    finally:
        launch.watching = None
    if len(seen) != 1:
        raise NotFusible(f"{len(seen)} launches")
    return seen[0], ys


def _value_of(x: Any, values: list[int], arrays: list) -> int:
    """The value whose array x is, or is another view of as a whole; KeyError if there is none."""
    for value in values:
        if arrays[value] is x:
            return value
    for value in values:
        if _is(arrays[value], x):
            return value
    raise KeyError("an array that the step has made itself")


def _is(a: Any, b: Any) -> bool:
    """Whether two arrays are the same memory, neighbours side by side."""
    if a is b:
        return True
    if a is None or a.size != b.size or a.dtype != b.dtype:
        return False
    if not (is_contiguous(a) and is_contiguous(b)):
        return False
    return _address(a) == _address(b)


def _address(x: Any) -> int:
    return x.ctypes.data if isinstance(x, np.ndarray) else x.data.ptr


class Groups:
    """The groups so far: each step is in one, alone if it is not fused.

    before   for each group those that must run before it, one bit each
    """

    def __init__(self, trace: Trace):
        self.trace = trace
        self.members: list[list[int]] = []  # positions of steps
        self.works: list[dict[int, Work]] = []  # of these by position; {}: it is not fused
        self.before: list[int] = []
        self.maker: dict[int, int] = {}  # value -> the group that makes it
        self.users: dict[int, set[int]] = {}  # value -> the groups of works that read or make it
        self.barrier = 0  # what every later step waits for

    def add(self, i: int, step: Step, work: Work | None, is_barrier: bool) -> None:
        """Put the next step into a group."""
        group = len(self.members)
        self.members.append([i])
        self.works.append({} if work is None else {i: work})
        self.before.append((1 << group) - 1 if is_barrier else self.barrier)
        for source in {self.maker[v] for v in step.reads() if v in self.maker}:
            self.before[group] |= 1 << source | self.before[source]
        for y in step.outputs:
            if y is not None:
                self.maker[y] = group
        if is_barrier:
            self.barrier = (2 << group) - 1
        if work is not None:
            for other in self.sharing(work)[:MOST_TRIED]:
                group = self.merge(other, group)

    def sharing(self, work: Work) -> list[int]:
        """The groups that use a value of this newest one, the newest first."""
        values = {*work.reads, *[y for y, _ in work.makes]}
        found = {self.maker[v] for v in work.reads if v in self.maker and self.works[self.maker[v]]}
        found |= {group for value in values for group in self.users.get(value, ())}
        for value in values:
            self.users.setdefault(value, set()).add(len(self.members) - 1)
        return sorted(found - {len(self.members) - 1}, reverse=True)

    def merge(self, a: int, b: int) -> int:
        """Make b part of a, if they may be one; returns the group that b is in then."""
        together = self.works[a] | self.works[b]
        works = [*together.values()]
        if _shapes(works) is None or 1 << a & self.barrier or self.between(a, b):
            return b
        if sum(len(w.symbols) for w in works) > MOST_SYMBOLS:
            return b
        self.members[a], self.members[b] = sorted(together), []
        self.works[a], self.works[b] = together, {}
        for known in (self.maker, self.users):
            _rename(known, b, a)
        both = 1 << a | 1 << b
        self.before[a] = (self.before[a] | self.before[b]) & ~both
        for k, before in enumerate(self.before):
            if before & both:
                self.before[k] = (before | self.before[a] | 1 << a) & ~(1 << b)
        return a

    def between(self, a: int, b: int) -> bool:
        """Whether a group must run behind one of the two and before the other."""
        for first, second in ((a, b), (b, a)):
            for k, before in enumerate(self.before):
                if k not in (a, b) and before >> first & 1 and self.before[second] >> k & 1:
                    return True
        return False

    def order(self) -> list[int]:
        """The groups, each behind those that it waits for, else as the steps came."""
        left = [k for k, members in enumerate(self.members) if members]
        done, order = sum(1 << k for k, members in enumerate(self.members) if not members), []
        while left:
            group = next(k for k in left if not self.before[k] & ~done)
            left.remove(group)
            order.append(group)
            done |= 1 << group
        return order


def _rename(known: dict, old: int, new: int) -> None:
    """Let it be `new` in place of `old` in what is known of values."""
    for value, group in known.items():
        if group == old:
            known[value] = new
        elif isinstance(group, set) and old in group:
            group.remove(old)
            group.add(new)


def _shapes(works: Sequence[Work]) -> dict[int, Any] | None:
    """How a program of these takes each value; None where they have no shape in common."""
    if len({work.full for work in works}) == 1:
        return {value: own for work in works for value, own in work.own.items()}
    if len({work.matrix for work in works}) > 1 or works[0].matrix is None:
        return None
    return {value: own for work in works for value, own in work.lines.items()}


def _values(works: Sequence[Work]) -> set[int]:
    """What these read and make."""
    return {v for w in works for v in (*w.reads, *[y for y, _ in w.makes])}


def fused(steps: list[Step], trace: Trace, ends: list[int], written: set[int]) -> list[Step]:
    """The steps of a program, those that can be as one.

    ends      the values that the program hands out
    written   ids of arrays that steps write, as running statistics are
    """
    if launch.host is None and all(isinstance(x, np.ndarray) for x in trace.arrays):
        return steps  # NumPy's calls go block by block: tape/blocks.py
    steps = [part for step in steps for part in _split(step, trace)]
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
            step.kind = "call"  # its argument is another array in each run now
            trace.fixed[step.outputs[0]] = False
    return made


_ROUNDINGS = 64  # by which a fused result may be off, in units of the largest number met


def _alike(ys: list, wanted: list[int], works: Sequence[Work], trace: Trace) -> bool:
    """Whether these results are those of the single steps, to rounding.

    Measured by the largest number among all that the steps read and make: where large numbers
    cancel, what is left is rounding in both.
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
    """The largest finite number of an array, without its sign; 0 for numbers that are not real."""
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
    """The steps of a group as one; as halves of it where one kernel cannot be made of them.

    members   (step, its work), in order
    asked     how often each value is read or handed out
    """
    steps = [step for step, _ in members]
    if len(members) == 1:
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


def _joined(members: list, wanted: list[int], trace: Trace) -> Step | None:
    """These steps as one that makes the wanted values; None where no kernel can."""
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

    def run(*arrays: Any) -> Any:
        seen = [_seen(x, shape) for x, shape in zip(arrays, given, strict=True)]
        ys = launch.run(program, program, seen, may_pass=True)
        return ys and [_seen(y, shape) for y, shape in zip(ys, forms, strict=True)]

    arrays = [trace.arrays[value] for value in inputs]
    if (ys := run(*arrays)) is None or not _alike(ys, wanted, works, trace):
        return None
    for value, y in zip(wanted, ys, strict=True):
        same = next((v for v, x in zip(inputs, arrays, strict=True) if _is(x, y)), None)
        trace.owners[value] = frozenset([value]) if same is None else trace.owners[same]
        trace.arrays[value], trace.fixed[value] = y, False
    names = "+".join(dict.fromkeys(step.name for step in steps))
    step = Step("call", run, tuple([Ref(value) for value in inputs]), {}, f"fused({names})")
    step.outputs, step.several, step.fused = list(wanted), True, steps
    return step


# -- steps that are two, of which one fuses --------------------------------------------------------

ROW = 32  # elements from which on a row is worth a sum of its own


def _split(step: Step, trace: Trace) -> list[Step]:
    """A product or convolution and the sum with its bias; the sums of rows and that of all; a
    norm's gradients. On a GPU alone steps are whole ops: NumPy adds in another order.
    """
    if step.whole == (op.standardize, "rules"):
        return _by_needs(step, trace)
    if step.whole in ((op.linear, "forward"), (op.conv, "forward")):
        return _without_bias(step, trace)
    if step.whole in ((op.sum, "forward"), (op.mean, "forward")):
        return _by_rows(step, trace)
    return [step]


def _by_needs(step: Step, trace: Trace) -> list[Step]:
    """The rule of a norm as two steps: the gradient of its input, which is a kernel of rows, and
    those of its weights, which are sums over the rows.
    """
    at = next(
        (k for k, x in enumerate(step.args) if type(x) is list and x[:2] == [True, True]), None
    )
    if at is None or not all(type(x) is bool for x in step.args[at]):
        return [step]
    values = [y for y in step.outputs if y is not None]
    needs = step.args[at]
    alone = [k == 0 for k in range(len(needs))]
    parts = []
    for wanted, own in (
        (alone, values[:1]),
        ([n and not a for n, a in zip(needs, alone)], values[1:]),
    ):
        part = Step("call", step.fn, (*step.args[:at], wanted, *step.args[at + 1 :]), {}, step.name)
        ys = list(flat(step.fn(*mapped(part.args, Ref, lambda ref: trace.arrays[ref.value]))))
        if [y.shape for y in ys if y is not None] != [trace.arrays[y].shape for y in own]:
            return [step]
        left = iter(own)
        part.outputs, part.several = [None if y is None else next(left) for y in ys], True
        parts.append(part)
    return parts


def _without_bias(step: Step, trace: Trace) -> list[Step]:
    x, w, b, *rest = step.args if len(step.args) > 2 else (*step.args, None)
    if type(b) is not Ref:
        return [step]
    bias, y = trace.arrays[b.value], trace.arrays[step.outputs[0]]
    shape = (-1,) if step.whole == (op.linear, "forward") else (-1, *(1,) * (y.ndim - 2))
    if bias.ndim != 1 or bias.dtype != y.dtype or not is_contiguous(bias):
        return [step]

    def add_bias(product: Any, b: Any) -> Any:
        b = b.reshape(shape)
        (y,) = launch.run("bias", biased, [product, b]) or [product + b]
        return y

    first = Step("call", step.fn, (x, w, None, *rest), {}, step.name)
    product = step.fn(*mapped(first.args, Ref, lambda ref: trace.arrays[ref.value]))
    value = trace.value(product, False).value
    first.outputs = [value]
    last = Step("call", add_bias, (Ref(value), b), {}, "bias")
    last.outputs = step.outputs
    return [first, last]


def _by_rows(step: Step, trace: Trace) -> list[Step]:
    (y,), x = step.outputs, trace.arrays[step.args[0].value]
    result = trace.arrays[y]
    if x.ndim < 2 or x.shape[-1] < ROW or result.shape or result.dtype != x.dtype:
        return [step]
    if x.dtype.kind != "f" or x.dtype.itemsize < 4 or len(step.reads()) > 1:
        return [step]  # 16-bit floats add up in float32, which a row's sum would round
    count = x.size if step.name == "mean" else 1

    def of_rows(x: Any) -> Any:
        (rows,) = launch.run("sum of rows", _row_sums, [x]) or [x.sum(axis=-1, keepdims=True)]
        return rows

    def of_all(rows: Any) -> Any:
        return rows.sum() / rows.dtype.type(count) if count > 1 else rows.sum()

    rows = trace.value(of_rows(x), False).value
    first = Step("call", of_rows, step.args[:1], {}, f"{step.name} of rows")
    first.outputs = [rows]
    last = Step("call", of_all, (Ref(rows),), {}, step.name)
    last.outputs = [y]
    return [first, last]


def _row_sums(x: Any) -> list:
    return [x.sum(axis=-1, keepdims=True)]
