"""A recorded program (trace.py) as the Python source of one loop for numba, as cuda.py does for
GPUs.

    for i0 in range(n0):                # the axes that arrays do not share, outermost first
        x = x0[i0]; w = x1[0] …         # rows of the arrays; values with one entry for each row
        for j in range(n1): …           # a pass for each step of sums and maxima, then the results

A row stays in the first-level cache for all its passes. A value that costs more to compute again
than to read (an exponential, a division) is kept in a buffer of one row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .passes import OPERATORS, Passes, operands, steps
from .trace import ROW_FUNCTIONS, NotFusible, Symbol, of_row

# An op in Python, for floats and truth values; `known` of compiled/launch.py has the names.
_WORDS = OPERATORS | {
    "reciprocal": "{t}(1) / {0}", "maximum": "larger({0}, {1})", "minimum": "smaller({0}, {1})",
    "sign": "sign({0}, {t}(1))", "clip": "clipped({0}, {1}, {2})",
    "logical_and": "{0} & {1}", "logical_or": "{0} | {1}", "logical_not": "not {0}",
    "where": "select({0}, {1}, {2})",
    "isfinite": "abs({0}) < {t}(np.inf)", "isinf": "abs({0}) == {t}(np.inf)",
    "absolute": "abs({0})", "fabs": "abs({0})", "sqrt": "np.sqrt({0})", "floor": "np.floor({0})",
    "ceil": "np.ceil({0})", "rint": "np.rint({0})", "trunc": "np.trunc({0})",
}  # fmt: skip
# defined in compiled/functions.py
CALLED = set("exp expm1 log log1p tanh expit ndtr density erf erfc".split())
_DEAR = CALLED | {"divide", "sqrt", "reciprocal"}
_OF_NUMBERS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "where"}
_OF_TRUTH = _OF_NUMBERS | {"logical_and", "logical_or", "logical_xor", "logical_not"}
TYPES = {"float32", "float64", "bool", "int64"}
_START = {"sum": "0", "max": "-np.inf", "min": "np.inf"}
_FOLD = {"sum": "plus", "max": "largest", "min": "smallest"}


class Layout(NamedTuple):
    """The axes of a program's arrays: the number of loops, and the axes that each array has.

    of_rows   whether the last axis is the row of sums and maxima
    """

    ndim: int
    has: tuple[tuple[bool, ...], ...]
    of_rows: bool


def type_of(dtype: Any) -> str:
    """The name of a dtype that loops support."""
    name = np.dtype(dtype).name
    if name not in TYPES:
        raise NotFusible(f"{name} in a loop")
    return name


def expression(s: Symbol, last: str) -> str:
    """One step in Python; `last` names the length of a row."""
    args = [f"v{x.number}" for x in operands(s)]
    kind = s.args[0].dtype if s.args and isinstance(s.args[0], Symbol) else s.dtype
    t = type_of(s.dtype)
    if s.op == "constant":
        return _literal(s.args[0], t)
    if s.op in ("length", "place"):
        return f"np.{t}({last if s.op == 'length' else 'j'})"
    if s.op == "cast":
        return f"{args[0]} != 0" if t == "bool" else f"np.{t}({args[0]})"
    if s.op == "power" and getattr(s.args[1], "op", "") == "constant" and kind.kind == "f":
        exponent = s.args[1].args[0]
        if exponent in (2, 3):
            return " * ".join([args[0]] * int(exponent))
    if kind.kind in "biu" and s.op not in (_OF_NUMBERS if kind.kind != "b" else _OF_TRUTH):
        raise NotFusible(f"{s.op} of {kind} in a loop")
    if s.op in CALLED:
        return f"{s.op}_{type_of(kind)}({args[0]})"
    if s.op in _WORDS:
        return _WORDS[s.op].format(*args, t=f"np.{type_of(kind)}")
    raise NotFusible(f"{s.op} in a loop")


def _literal(value: Any, t: str) -> str:
    if t == "bool":
        return str(bool(value))
    if t == "int64":
        return f"np.int64({int(value)})"
    value = float(value)
    word = (
        "np.nan" if value != value else f"{'-' * (value < 0)}np.inf" if abs(value) == np.inf else ""
    )
    return f"np.{t}({word or repr(value)})"


class _Writer(Passes):
    def __init__(self, inputs: Sequence[Symbol], outputs: Sequence[Symbol], layout: Layout):
        super().__init__(inputs, outputs, [not has[-1] for has in layout.has])
        self.layout, self.last = layout, f"n{layout.ndim - 1}"
        self.lines: list[str] = []
        self.indent = 1

    def say(self, *words: str) -> None:
        self.lines += ["    " * self.indent + word for word in words]

    def row_values(self, wanted: Sequence[Symbol]) -> None:
        """Compute the values of these with one entry for each row, as far as their arguments are
        known."""
        for s in self.row_steps(wanted):
            self.say(f"v{s.number} = {self.value(s)}")

    def value(self, s: Symbol) -> str:
        if s.op != "input":
            return expression(s, self.last)
        type_of(s.dtype)
        axes = [f"i{k}" for k, has in enumerate(self.layout.has[s.number][:-1]) if has]
        if self.layout.has[s.number][-1]:
            return f"r{s.number}[j]"
        return f"x{s.number}[{', '.join(axes) or '0'}]"

    def is_line(self, y: Symbol) -> bool:
        return self.layout.of_rows and of_row(y)

    # -- passes ------------------------------------------------------------------------------------

    def groups(self) -> list[list[Symbol]]:
        """The sums and maxima in the order of passes: those of one pass do not need each other."""
        depth: dict[int, int] = {}
        for s in self.symbols:
            below = max([depth[x.number] for x in operands(s)], default=0)
            depth[s.number] = below + (s.op in ROW_FUNCTIONS)
        found: dict[int, list[Symbol]] = {}
        for phase in self.phases:
            found.setdefault(depth[phase.number], []).append(phase)
        return [found[k] for k in sorted(found)]

    def kept(self, passes: list[list[Symbol]]) -> dict[int, int]:
        """Expensive values that several passes need: number -> the pass that computes it."""
        first: dict[int, int] = {}
        again: dict[int, int] = {}
        for k, wanted in enumerate(passes):
            for s in steps(wanted, self.of_row):
                if s.op in _DEAR and first.setdefault(s.number, k) < k:
                    again[s.number] = first[s.number]
        return again

    def element_pass(self, k: int, wanted: Sequence[Symbol], buffers: dict[int, int]) -> None:
        """The steps at position j; values for later passes go into their buffers."""
        there = {n for n, at in buffers.items() if at < k}
        for s in steps(wanted, self.given | there):
            self.say(f"v{s.number} = {self.value(s)}")
            if buffers.get(s.number) == k:
                self.say(f"b{s.number}[j] = v{s.number}")

    def loaded(self, k: int, wanted: Sequence[Symbol], buffers: dict[int, int]) -> None:
        there = {n for n, at in buffers.items() if at < k}
        needs = {x.number for s in steps(wanted, self.given | there) for x in operands(s)}
        needs |= {s.number for s in wanted}
        self.say(*[f"v{n} = b{n}[j]" for n in sorted(there & needs)])

    def read_rows(self) -> None:
        """A name for the current row of each array that has rows."""
        for x in self.used:
            *lead, inner = self.layout.has[x.number]
            if inner:
                axes = [f"i{k}" for k, has in enumerate(lead) if has]
                self.say(f"r{x.number} = x{x.number}[{', '.join([*axes, ':'])}]")

    # -- the whole ---------------------------------------------------------------------------------

    def source(self) -> str:
        layout, last = self.layout, self.last
        names = [f"n{k}" for k in range(layout.ndim)] + [f"x{x.number}" for x in self.used]
        names += [f"y{i}" for i in range(len(self.outputs))]
        groups = self.groups()
        whole = [y for y in self.outputs if not self.is_line(y)]
        sums = [[p.args[0] for p in group] for group in groups]
        passes = [*sums, whole]
        buffers = self.kept(passes)
        for n in buffers:
            self.say(f"b{n} = np.empty({last}, np.{type_of(self.symbols[n].dtype)})")
        for k in range(layout.ndim - 1):
            self.say(f"for i{k} in range(n{k}):")
            self.indent += 1
        self.read_rows()
        for k, group in enumerate(groups):
            self.row_values(sums[k])
            self.sums(k, group, buffers)
        self.row_values(self.outputs)
        lead = [f"i{k}" for k in range(layout.ndim - 1)]
        for i, y in enumerate(self.outputs):
            if self.is_line(y):
                self.say(f"y{i}[{', '.join(lead) or '0'}] = v{y.number}")
            else:
                self.say(f"z{i} = y{i}[{', '.join([*lead, ':'])}]")
        if whole:
            self.say(f"for j in range({last}):")
            self.indent += 1
            self.loaded(len(groups), whole, buffers)
            self.element_pass(len(groups), whole, buffers)
            self.say(*[f"z{i}[j] = v{y.number}" for i, y in enumerate(self.outputs)
                       if not self.is_line(y)])  # fmt: skip
        return "\n".join([f"def fused({', '.join(names)}):", *self.lines, ""])

    def sums(self, k: int, group: list[Symbol], buffers: dict[int, int]) -> None:
        """One pass over the row: its sums and maxima; `plus` lets the compiler add in lanes."""
        wanted = [p.args[0] for p in group]
        for p in group:
            self.say(f"v{p.number} = np.{type_of(p.dtype)}({_START[p.op]})")
        self.say(f"for j in range({self.last}):")
        self.indent += 1
        self.loaded(k, wanted, buffers)
        self.element_pass(k, wanted, buffers)
        for p in group:
            self.say(f"v{p.number} = {_FOLD[p.op]}(v{p.number}, v{p.args[0].number})")
        self.indent -= 1
        self.given |= {p.number for p in group}


def row_source(inputs: Sequence[Symbol], outputs: Sequence[Symbol], layout: Layout) -> str:
    """The function fused(sizes of the axes, arrays to read, arrays to write)."""
    return _Writer(inputs, outputs, layout).source()


def column_source(
    inputs: Sequence[Symbol], outputs: Sequence[Symbol], has: Sequence[tuple[bool, bool]]
) -> str:
    """The function that adds a program's values to sums down columns: y_k[j] += Σ_r value[r, j].

    has   for each array, whether it has rows and whether it has columns
    """
    writer = _Writer(inputs, outputs, Layout(2, tuple(has), False))
    if writer.phases or any(s.op in ("length", "place") for s in writer.symbols):
        raise NotFusible("a row's value in a sum over rows")
    names = ["n0", "n1", *[f"x{x.number}" for x in writer.used]]
    names += [f"y{i}" for i in range(len(outputs))]
    writer.say("for i0 in range(n0):")
    writer.indent += 1
    writer.read_rows()
    writer.row_values(outputs)
    writer.say("for j in range(n1):")
    writer.indent += 1
    writer.element_pass(0, outputs, {})
    writer.say(*[f"y{i}[j] += v{y.number}" for i, y in enumerate(outputs)])
    return "\n".join([f"def fused({', '.join(names)}):", *writer.lines, ""])
