"""Symbols: a function of arrays runs once on them, and they record its work on one element.

A `Symbol` represents an array. NumPy's functions on it (`np.exp(x)`, `x * y`, `np.where(m, x, 0)`)
give further symbols: the program of one element. Sums, maxima and means along the last axis with
keepdims are recorded as well: values of a row. Any other operation on a symbol (a branch on a
value, an index) raises `NotFusible`, and the function runs unfused.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.dtypes import is_floating
from ..custom.variants import Variants
from ..engine import modes
from .dtypes import COMPARISONS, common_dtype, dtype_of_number, dtype_of_step


class NotFusible(Exception):
    """The function does something that cannot be recorded as work on one element or one row."""


class InFull(NotFusible):
    """It can if arrays with a single repeated element are in memory in full length."""


ROW_FUNCTIONS = {"sum", "max", "min"}
_OF_ROWS = ROW_FUNCTIONS | {"length", "place"}
_EXTREMA = {"maximum", "minimum", "fmax", "fmin"}
KNOWN = COMPARISONS | set(
    "add subtract multiply divide negative positive power float_power exp exp2 expm1 log log2 "
    "log10 log1p sqrt cbrt square reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh arctan2 hypot absolute fabs sign floor ceil rint trunc maximum "
    "minimum fmax fmin copysign heaviside remainder erf erfc erfinv erfcx expit gammaln "
    "ndtr".split()
)
_NAMES = {"true_divide": "divide", "abs": "absolute"}
_NUMBERS = (bool, int, float, np.generic)  # bfloat16's scalars have no NumPy class


class Program:
    """A recorded program: symbols in the order of their creation, no value computed twice.

    shape    of the kernel, which symbols show as theirs; it represents any shape
    is_real  whether it is the shape of a call, and symbols show the shapes of arrays in that call
    """

    def __init__(self, shape: tuple = (2, 3), is_real: bool = False) -> None:
        self.symbols: list[Symbol] = []
        self.shape, self.is_real = shape, is_real
        self._known: dict[tuple, Symbol] = {}

    def shape_of(self, op: str, args: tuple, is_row: bool) -> tuple:
        """The shape that a symbol shows. A number never shows a smaller shape than in a real
        call."""
        if not self.is_real:
            return (*self.shape[:-1], 1) if is_row else self.shape
        if op in ROW_FUNCTIONS:
            return (*args[0].shape[:-1], 1)
        shape = np.broadcast_shapes(*[x.shape for x in args if isinstance(x, Symbol)])
        return self.shape if op == "place" else shape

    def steps(self) -> list[tuple]:
        """The computed steps, for comparison with another program."""
        return [*self._known]

    def symbol(self, op: str, args: tuple, dtype: Any, is_row: bool) -> "Symbol":
        """The symbol of this step; the earlier one if the same step was recorded before."""
        key = (
            op,
            *[x.number if isinstance(x, Symbol) else (type(x), repr(x)) for x in args],
            dtype,
        )
        if key not in self._known:
            self._known[key] = found = Symbol(self, len(self.symbols), op, args, dtype, is_row)
            self.symbols.append(found)
        return self._known[key]


class Symbol:
    """One value of the program, and the step that computes it.

    op   "input"; a ufunc's name, "where" or "cast"; "sum", "max" or "min" of a row; "constant",
         "length" (of a row) and "place" (the position in it)
    """

    __slots__ = ("args", "dtype", "is_row", "number", "op", "program", "shape")
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(
        self, program: Program, number: int, op: str, args: tuple, dtype: Any, is_row: bool
    ):
        self.program, self.number, self.op, self.args = program, number, op, args
        self.dtype, self.is_row = np.dtype(dtype), is_row
        self.shape = program.shape_of(op, args, is_row)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def _refuse(self, what: str) -> Any:
        raise NotFusible(f"{what} is not work on one element")

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse("a conversion to an array")

    def __bool__(self) -> bool:
        return self._refuse("a branch on a value")

    def __getitem__(self, key: Any) -> Any:
        return self._refuse("an index")

    def __len__(self) -> int:
        return self._refuse("len()")

    def __iter__(self) -> Any:
        return self._refuse("iteration")

    # -- NumPy's functions -------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        name = _NAMES.get(ufunc.__name__, ufunc.__name__)
        if method != "__call__" or kwargs.keys() - {"dtype"} or name not in KNOWN:
            return self._refuse(f"np.{ufunc.__name__} with {method} and {sorted(kwargs)}")
        if kwargs.get("dtype") is not None:
            args = tuple(_cast(_symbol(self.program, x), kwargs["dtype"]) for x in args)
        return _step(self.program, name, args)

    def __array_function__(self, fn: Callable, kinds: Any, args: tuple, kwargs: dict) -> Any:
        here = _FUNCTIONS.get(fn)
        return self._refuse(f"np.{fn.__name__}") if here is None else here(*args, **kwargs)

    def astype(self, dtype: Any, copy: bool = True) -> "Symbol":
        return _cast(self, dtype)

    def copy(self, order: str = "K") -> "Symbol":
        return self

    def conj(self) -> "Symbol":
        return self

    def reshape(self, *shape: Any) -> "Symbol":
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self if tuple(shape) == self.shape else self._refuse("reshape")

    @property
    def real(self) -> "Symbol":
        return self

    def sum(self, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> "Symbol":
        return _row("sum", self, axis, keepdims, dtype)

    def mean(self, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> "Symbol":
        dtype = np.float64 if dtype is None and self.dtype.kind in "biu" else dtype
        total = _row("sum", self, axis, keepdims, dtype)
        return _step(self.program, "divide", (total, row_length(self.program, total.dtype)))

    def max(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _row("max", self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _row("min", self, axis, keepdims)


Variants.symbol = Symbol  # symbols record an op's own form


def _binary(name: str) -> tuple[Callable, Callable]:
    def forward(self: Symbol, other: Any) -> Any:
        return _step(self.program, name, (self, other))

    def reflected(self: Symbol, other: Any) -> Any:
        return _step(self.program, name, (other, self))

    return forward, reflected


for _method, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
    "mod": "remainder",
}.items():  # fmt: skip
    _forward, _reflected = _binary(_name)
    setattr(Symbol, f"__{_method}__", _forward)
    setattr(Symbol, f"__r{_method}__", _reflected)
for _method, _name in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "and": "logical_and", "or": "logical_or",
}.items():  # fmt: skip
    setattr(Symbol, f"__{_method}__", _binary(_name)[0])
for _method, _name in {"neg": "negative", "abs": "absolute", "invert": "logical_not"}.items():
    setattr(Symbol, f"__{_method}__", lambda self, _name=_name: _step(self.program, _name, (self,)))


def _symbol(program: Program, x: Any) -> Symbol:
    if isinstance(x, Symbol):
        return x
    if isinstance(x, _NUMBERS):
        return _constant(program, x, np.result_type(type(x)))
    raise NotFusible(f"a {type(x).__name__} together with symbols")


def _constant(program: Program, x: Any, dtype: Any) -> Symbol:
    return program.symbol("constant", (x,), np.dtype(dtype), True)


def place(x: Symbol) -> Symbol:
    """The position of an element in its row: 0, 1, 2 … along the last axis."""
    return x.program.symbol("place", (), np.dtype(np.int64), False)


def row_length(program: Program, dtype: Any) -> Symbol:
    """The number of elements of a row, known when the kernel runs."""
    return program.symbol("length", (), np.dtype(dtype), True)


def _step(program: Program, name: str, args: tuple) -> Symbol:
    """The symbol of a ufunc's result, in NumPy's dtype (scalars are weak)."""
    dtypes = [x.dtype for x in args if isinstance(x, Symbol)]
    common = common_dtype(dtypes)
    symbols = [x if isinstance(x, Symbol) else _number(program, x, common) for x in args]
    working = dtype_of_step(name, [s.dtype for s in symbols])
    if working is None:
        raise NotFusible(f"{name} of {', '.join([str(s.dtype) for s in symbols])}")
    if name in _EXTREMA and working == np.float16:
        symbols.reverse()  # of ±0 NumPy's half-precision function takes the first
    if name in ("logical_and", "logical_or", "logical_not", "logical_xor"):
        symbols = [s if s.dtype == bool else _step(program, "not_equal", (s, 0)) for s in symbols]
    else:
        symbols = [_cast(s, working) for s in symbols]
    dtype = np.dtype(bool) if name in COMPARISONS else working
    return program.symbol(name, tuple(symbols), dtype, all(s.is_row for s in symbols))


def _number(program: Program, x: Any, common: np.dtype) -> Symbol:
    """A number in an op with arrays of a dtype, in NumPy's dtype for it."""
    dtype = dtype_of_number(x, common) if isinstance(x, _NUMBERS) else None
    if dtype is None:
        raise NotFusible(f"{x!r:.40} together with symbols of {common}")
    return _constant(program, x, dtype)


def _cast(x: Symbol, dtype: Any) -> Symbol:
    dtype = np.dtype(dtype)
    if dtype == x.dtype:
        return x
    if dtype.kind == "c":
        raise NotFusible("complex numbers")
    if x.op == "constant" and dtype.kind != "b":
        return _constant(x.program, x.args[0], dtype)
    return x.program.symbol("cast", (x,), dtype, x.is_row)


def _row(name: str, x: Symbol, axis: Any, keepdims: bool, dtype: Any = None) -> Symbol:
    if isinstance(axis, tuple) and len(axis) == 1:
        (axis,) = axis
    if not keepdims or axis not in (-1, x.ndim - 1):
        raise NotFusible(f"{name} over axis {axis!r}, keepdims={keepdims}")
    if x.program.is_real and (not x.shape or x.shape[-1] != x.program.shape[-1]):
        raise NotFusible(f"{name} of rows that are shorter than the kernel's")
    if dtype is None and name == "sum" and x.dtype.kind in "biu":
        dtype = np.empty(0, x.dtype).sum().dtype  # NumPy adds small integers as large ones
    x = x if dtype is None else _cast(x, dtype)
    if x.is_row:  # the same value at every position
        return (
            _step(x.program, "multiply", (x, row_length(x.program, x.dtype)))
            if name == "sum"
            else x
        )
    return x.program.symbol(name, (x,), x.dtype, True)


# -- NumPy functions that are not ufuncs ----------------------------------------------------------


def _where(condition: Any, a: Any, b: Any) -> Symbol:
    program = next(x for x in (condition, a, b) if isinstance(x, Symbol)).program
    condition = _symbol(program, condition)
    dtypes = [x.dtype for x in (a, b) if isinstance(x, Symbol)]
    common = common_dtype(dtypes) if dtypes else np.result_type(type(a), type(b))
    a, b = (x if isinstance(x, Symbol) else _number(program, x, common) for x in (a, b))
    dtype = common_dtype([a.dtype, b.dtype])
    a, b = _cast(a, dtype), _cast(b, dtype)
    condition = (
        condition if condition.dtype == bool else _step(program, "not_equal", (condition, 0))
    )
    return program.symbol("where", (condition, a, b), dtype, all(
        x.is_row for x in (condition, a, b)))  # fmt: skip


def _filled(value: Any) -> Callable:
    def like(x: Symbol, dtype: Any = None, shape: Any = None, **_: Any) -> Symbol:
        if shape not in (None, x.shape):
            raise NotFusible("an array of another shape")
        return _constant(x.program, value, dtype or x.dtype)

    return like


def _clip(x: Any, a_min: Any = None, a_max: Any = None, **named: Any) -> Any:
    low, high = named.pop("min", a_min), named.pop("max", a_max)
    if named:
        raise NotFusible(f"np.clip with {sorted(named)}")
    program = next(v for v in (x, low, high) if isinstance(v, Symbol)).program
    numbers = all(isinstance(v, _NUMBERS) and v == v for v in (low, high))
    if numbers and isinstance(x, Symbol) and is_floating(x.dtype):
        return _step(program, "clip", (x, low, high))  # keeps the sign of a zero
    y = x if low is None else _step(program, "maximum", (x, low))
    return y if high is None else _step(program, "minimum", (y, high))


def _expand(x: Symbol, shape: Any = None, **_: Any) -> Symbol:
    if tuple(shape) != x.program.shape:
        raise NotFusible("broadcast_to another shape")
    return x


_FUNCTIONS: dict[Callable, Callable] = {
    np.where: _where,
    np.zeros_like: _filled(0),
    np.ones_like: _filled(1),
    np.full_like: lambda x, value, **options: _filled(value)(x, **options),
    np.clip: _clip,
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.copy: lambda x, **_: x,
    np.real: lambda x: x,
    np.broadcast_to: _expand,
    np.sum: lambda x, axis=None, dtype=None, keepdims=False: _row("sum", x, axis, keepdims, dtype),
    np.max: lambda x, axis=None, keepdims=False: _row("max", x, axis, keepdims),
    np.min: lambda x, axis=None, keepdims=False: _row("min", x, axis, keepdims),
    np.mean: lambda x, axis=None, dtype=None, keepdims=False: x.mean(axis, keepdims, dtype),
}


def reached(outputs: Sequence[Symbol]) -> set[int]:
    """The numbers of these symbols, and of all that they depend on."""
    found: set[int] = set()
    stack = list(outputs)
    while stack:
        s = stack.pop()
        if s.number not in found:
            found.add(s.number)
            stack += [x for x in s.args if isinstance(x, Symbol)]
    return found


def trace(
    fn: Callable, dtypes: Sequence[Any], of_rows: Sequence[bool] = ()
) -> tuple[list[Symbol], list]:
    """(inputs, outputs) of fn run on symbols of these dtypes; NotFusible if that is impossible.

    of_rows: which inputs have one value for each row (default: none)

    An output that is None (no gradient) stays None; a number becomes a constant.
    """
    program = Program()
    flags = of_rows or [False] * len(dtypes)
    inputs = [
        program.symbol("input", (i,), dtype, flag)
        for i, (dtype, flag) in enumerate(zip(dtypes, flags, strict=True))
    ]
    return inputs, _outputs(program, fn, inputs)


def of_row(y: Symbol) -> bool:
    """Whether a result has one value for each row; a constant fills its array."""
    return y.is_row and y.op != "constant"


class Recording:
    """A function recorded for arrays of these dtypes: the base of a kernel or a loop.

    lines    which arrays have one value for each row, if it is a program of rows
    passing  which arrays may be results themselves, without a copy
    by_rows  whether it is a program of rows in any case

    found    for each result its symbol, or None; outputs: the symbols to compute
    """

    def __init__(
        self,
        fn: Callable,
        dtypes: Sequence[Any],
        lines: Sequence[bool],
        passing: Sequence[bool],
        by_rows: bool = False,
    ):
        self.inputs, self.found = trace(fn, dtypes)
        self.by_rows = by_rows or any(s.op in _OF_ROWS for s in self.inputs[0].program.symbols)
        if self.by_rows:
            self.inputs, self.found = trace(fn, dtypes, lines)
        given = [y for y in self.found if y is not None]
        if not given:
            raise NotFusible("no result")
        self._passed = {y.number for y in given if y.op == "input" and passing[y.number]}
        self.outputs: list[Symbol] = [y for y in given if y.number not in self._passed]

    def is_line(self, y: Symbol) -> bool:
        """Whether a result's array has one value for each row."""
        return self.by_rows and of_row(y)

    def made(self, shape: tuple) -> list:
        """The results of a Launch (fusion/launch.py), for arrays of this common shape."""
        line = (*shape[:-1], 1)
        return [
            None if y is None else y.number if y.number in self._passed
            else (line if self.is_line(y) else shape, y.dtype)
            for y in self.found
        ]  # fmt: skip


def require_lines_of(
    fn: Callable, dtypes: Sequence[Any], shapes: Sequence[tuple], length: int, found: Sequence[Any]
) -> None:
    """InFull if a result in `found` has one value for each row only because of an array's layout.

    An array with a single repeated element is read as one number, and so are values computed from
    it alone. But its softmax has the length of the array.
    """
    _, ys = trace(fn, dtypes, [(shape or (1,))[-1] != length for shape in shapes])
    if [y is not None and y.is_row for y in ys] != [y is not None and y.is_row for y in found]:
        raise InFull("a result that is longer than its argument is in memory")


def holds_for(fn: Callable, dtypes: Sequence[Any], shapes: Sequence[tuple]) -> bool:
    """Whether the program from `trace` is valid for arrays of these shapes.

    It is not if fn
      - reads a shape,
      - returns several results or none,
      - returns a result, or takes a sum, of less than the arguments' common shape.
    Symbols that show the real shapes then give another program, or none. Arguments without a common
    shape have no program, either.
    """
    try:
        common = np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    general, real = Program(), Program(common, is_real=True)
    try:
        for program in (general, real):
            inputs = [program.symbol("input", (i,), dt, False) for i, dt in enumerate(dtypes)]
            for x, shape in zip(inputs, shapes, strict=True):
                x.shape = shape if program.is_real else x.shape
            ys = _outputs(program, fn, inputs)
    except NotFusible:
        return False
    one = len(ys) == 1 and ys[0] is not None and ys[0].shape == real.shape
    return one and general.steps() == real.steps()


def _outputs(program: Program, fn: Callable, inputs: list[Symbol]) -> list:
    try:
        ys = on_symbols(fn, *inputs)
    except NotFusible:
        raise
    except Exception as error:  # symbols may lack a feature of arrays that fn uses
        raise NotFusible(f"{type(error).__name__}: {error}") from error
    ys = list(ys) if isinstance(ys, tuple | list) else [ys]
    return [y if y is None or isinstance(y, Symbol) else _symbol(program, y) for y in ys]


def on_symbols(fn: Callable, *args: Any) -> Any:
    """fn(*args), whose ops compute nothing (fusion records them): no listener, tape, Saver or
    anomaly mode hears of symbols, which are not arrays.
    """
    own = modes.state.__dict__
    inside = {"muted": True, "tapes": (), "saving": (), "anomaly": None}
    outer = {name: getattr(modes.state, name) for name in (*inside, "plain")}
    try:
        modes.state.set(inside)
        return fn(*args)
    finally:
        own |= outer
