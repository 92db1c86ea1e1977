"""The common part of kernels and loops: operators, needed steps, passes over a row."""

from collections.abc import Iterator, Sequence

from .trace import ROW_FUNCTIONS, Symbol, reached

OPERATORS = {  # the same in C and in Python
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}",
    "negative": "-{0}", "positive": "{0}", "square": "{0} * {0}",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "less": "{0} < {1}",
    "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
    "logical_xor": "{0} != {1}", "isnan": "{0} != {0}",
}  # fmt: skip


# e^z²/2 Φ(−z) for z of 0 to 14.5 as a quotient of polynomials, for float32: fitted for the smallest
# largest relative error, 6e-9 (forms of this kind: Cody, Rational Chebyshev approximations for the
# error function, 1969).
NUMERATOR = (48.4594779, 42.4790601, 17.7589346, 3.93812128, 0.39894691)
DENOMINATOR = (96.9189552, 162.288299, 116.545256, 45.5005404, 9.87203098, 1)


def operands(s: Symbol) -> list[Symbol]:
    """The symbols that a step reads."""
    return [x for x in s.args if isinstance(x, Symbol)]


def steps(wanted: Sequence[Symbol], given: set[int] | None = None) -> list[Symbol]:
    """The steps to compute for these symbols, in order, without the given ones."""
    given, needed = given or set(), set()
    stack = list(wanted)
    while stack:
        s = stack.pop()
        if s.number in needed or s.number in given:
            continue
        needed.add(s.number)
        if s.op not in ROW_FUNCTIONS:
            stack += operands(s)
    return [s for s in (wanted[0].program.symbols if wanted else []) if s.number in needed]


class Passes:
    """The passes of a program over its row: one for each sum or maximum, one for the results.

    lines    for each input, whether it has one value for each row

    used     the inputs that the results depend on; phases: the sums and maxima
    of_row   the numbers of the symbols with one value for each row, computed outside the loops
    given    the numbers of those that are computed already
    """

    def __init__(self, inputs: Sequence[Symbol], outputs: Sequence[Symbol], lines: Sequence[bool]):
        self.inputs, self.outputs = inputs, outputs
        self.symbols, needed = inputs[0].program.symbols, reached(outputs)
        self.used = [x for x in inputs if x.number in needed]
        self.phases = [s for s in self.symbols if s.op in ROW_FUNCTIONS and s.number in needed]
        self.given: set[int] = set()
        self.of_row: set[int] = set()
        for s in self.symbols:
            of_parts = self.of_row.issuperset([x.number for x in operands(s)]) and s.op != "place"
            if lines[s.number] if s.op == "input" else s.op in ROW_FUNCTIONS or of_parts:
                self.of_row.add(s.number)

    def row_steps(self, wanted: Sequence[Symbol]) -> Iterator[Symbol]:
        """The steps with one value for each row that these symbols need; they are then given."""
        for s in steps(wanted, self.given):
            ready = self.given.issuperset([x.number for x in operands(s)])
            if s.op not in ROW_FUNCTIONS and s.number in self.of_row and ready:
                self.given.add(s.number)
                yield s
