"""Tracing: the NumPy calls that an op's forward, or a rule, makes on its arrays.

A `Traced` holds an array and replaces it. NumPy code computes with it as with the array, and every
call is recorded as a `Step`. Some code cannot be recorded in this way: a branch on a value, a write
in place, a random draw, an array that is not an argument. It raises Untraceable, and the whole
function becomes one step, which calls it. In both cases the steps compute the original's results.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..backends import random
from ..custom.variants import Variants
from ..engine import versions
from ..expressions.blocks import Ref


class Untraceable(Exception):
    """The code did something that a list of array calls cannot represent."""


class Source(NamedTuple):
    """The recorded call of an op that steps compute: its "forward", or its "rules" in a backward.

    origin   the user's line of the call, as sites.py reads it
    """

    op: str
    part: str
    origin: tuple


class Step:
    """One call: fn(*args, **kwargs), with Refs for values; `outputs` are the numbers of its
    results.

    kind     "ufunc": may write into a buffer; "view": a view of its one argument, valid in every
             run; "loop": fn.on(arrays, results) makes a call that writes its results (it is a
             compiled/launch.Filling); "call": anything else. An output None means a None in the
             result.
    several  the result is a sequence
    draws    it may draw random numbers: it runs even if its result is not used
    whole    (op, "forward" or "rules") of a step that is the whole of either; else None
    fused    the steps that it represents, if it is several in one
    source   the recorded call that it belongs to; None of a sum of gradients
    """

    __slots__ = (
        "kind", "fn", "args", "kwargs", "outputs", "several", "name", "draws", "whole", "fused",
        "source",
    )  # fmt: skip

    def __init__(self, kind: str, fn: Callable, args: tuple, kwargs: dict, name: str):
        self.kind = kind
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.outputs: list[Any] = []
        self.several = False
        self.draws = False
        self.whole: tuple[Any, str] | None = None
        self.fused: tuple[Step, ...] = ()
        self.source: Source | None = None
        self.name = name

    def reads(self) -> list[int]:
        """The values that the call takes."""
        return [part.value for part in parts_of((self.args, *self.kwargs.values()), Ref)]


class Trace:
    """The steps so far and the values they make.

    arrays   for each value, its array in this run
    fixed    for each value, whether it has the same memory in every run
    owners   for each value, those whose memory it may share (itself, if it has its own)
    seeds    the values that are cotangents given to a backward: no run changes them
    forms    for each value its shape and dtype, once the arrays are forgotten
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.arrays: list[Any] = []
        self.fixed: list[bool] = []
        self.owners: list[frozenset[int]] = []
        self.constants: dict[int, Any] = {}
        self.seeds: set[int] = set()
        self.forms: list[tuple] = []
        self.errors = np.geterr()

    def value(self, array: Any, fixed: bool, owners: frozenset[int] | None = None) -> "Traced":
        """A new value."""
        number = len(self.arrays)
        self.arrays.append(array)
        self.fixed.append(fixed)
        self.owners.append(frozenset([number]) if owners is None else owners)
        return Traced(self, number, array)

    def forget(self) -> None:
        """Drop the arrays of this run: a program has other memory, and no longer needs them."""
        self.forms = [(x.shape, x.dtype) for x in self.arrays]
        self.arrays = [None] * len(self.arrays)
        self.constants = {}

    def follow(
        self,
        fn: Callable,
        args: list | tuple,
        name: str,
        pure: bool,
        params: Any = (),
        check: Callable[[Any, Any], None] = lambda result, args: None,
    ) -> Any:
        """fn(*args), recorded as its steps, or as one step if these cannot be traced.

        Arrays among args and params are the same in every run. check(result, args) may raise
        Untraceable.
        """
        mark, state = len(self.steps), random.get_state()
        self.constants = {id(x): x for x in parts_of((args, params), np.ndarray)}
        if pure:
            try:
                result = fn(*args)
                check(result, args)
                if not random.get_state() == state:
                    raise Untraceable("it drew random numbers")
                expected = fn(*unwrapped(args))
                if _same(result, expected):
                    return result
            except Exception:  # the plain call below raises a true error again
                pass
            random.set_state(state)
        del self.steps[mark:]
        result = self.call("call", fn, args, {}, name)
        self.steps[-1].draws = not pure
        return result

    def call(self, kind: str, fn: Callable, args: Any, kwargs: dict, name: str) -> Any:
        """Note a call and make it. Returns what fn returns, with Traced for arrays."""
        if np.geterr() != self.errors:
            raise Untraceable("it runs under np.errstate")
        for array in parts_of((args, *kwargs.values()), np.ndarray):
            if id(array) not in self.constants:
                raise Untraceable("it used an array that is not an argument")
        result = fn(*unwrapped(args), **unwrapped(kwargs))
        read = list(parts_of((args, *kwargs.values()), Traced))
        step = Step(kind, fn, _refs(tuple(args)), _refs(kwargs), name)
        step.several = isinstance(result, tuple | list)
        values = []
        for y in flat(result):
            if y is None or type(y) is str:  # a name (of a device) does not depend on values
                values.append(y)
            elif _is_array(y):
                values.append(self._result(step, y, read))
            else:
                raise Untraceable(f"{name} returned {type(y).__name__}")
        step.outputs = [y.value if type(y) is Traced else None for y in values]
        self.steps.append(step)
        return _like(result, iter(values))

    def settle(self, y: "Traced") -> "Traced":
        """A result of an op as an eager call returns it: an array, where NumPy returned a scalar.

        That affects the last bit, since NumPy's scalars have their own implementation of `**`.
        """
        if not isinstance(y.array, np.generic):
            return y
        last = self.steps[-1]
        if last.outputs != [y.value]:  # other steps have read it already
            return self.call("call", np.asarray, (y,), {}, "asarray")
        y.array = self.arrays[y.value] = np.asarray(y.array)  # buffers.py then does the same
        if type(last.fn) is np.ufunc and last.fn.signature is None and not last.kwargs:
            last.kind, self.fixed[y.value] = "ufunc", True
        return y

    def _result(self, step: Step, y: Any, read: list["Traced"]) -> "Traced":
        """The value of a result y, which may share memory with the arrays that were read."""
        seen = [x for x in read if may_share(y, x.array)]
        owners = frozenset().union(*[self.owners[x.value] for x in seen])
        if len(read) == 1 and not step.several and self.fixed[read[0].value] and _looks(y, seen):
            step.kind = "view"
            return self.value(y, True, owners)
        if step.kind == "ufunc" and not isinstance(y, np.generic) and not seen:
            return self.value(y, True)
        step.kind = "call"
        return self.value(y, False, owners if seen else None)


def may_share(a: Any, b: Any) -> bool:
    """Whether two arrays may look at the same memory."""
    if isinstance(a, np.ndarray | np.generic) and isinstance(b, np.ndarray | np.generic):
        return np.may_share_memory(a, b)
    return _memory(a) is _memory(b)


def _memory(x: Any) -> Any:
    """The memory of an array: on a GPU, two arrays without a common base may share one memory."""
    return getattr(x.data, "mem", None) or versions.owner_of(x)


def _looks(y: Any, seen: list) -> bool:
    """Whether a result is a view of its one argument."""
    if not seen:
        return False
    x = seen[0].array
    if isinstance(y, np.ndarray | np.generic):
        return y is x or y.base is not None
    return y is x or getattr(y.data, "mem", y) is getattr(x.data, "mem", x)


def _is_array(y: Any) -> bool:
    return hasattr(y, "dtype") and hasattr(y, "shape") and hasattr(y, "strides")


def _same(traced: Any, expected: Any) -> bool:
    """Whether a traced result has the bits of the real one."""
    if isinstance(expected, tuple | list):
        return len(traced) == len(expected) and all(map(_same, traced, expected))
    if expected is None or type(traced) is not Traced:
        return traced is expected
    y, layout = traced.array, getattr(expected, "strides", None)
    if y.shape != expected.shape or y.dtype != expected.dtype or y.strides != layout:
        return False
    return y.tobytes() == expected.tobytes()


def parts_of(value: Any, kind: type) -> Iterator[Any]:
    """All values of this kind in nested tuples, lists and dicts."""
    if type(value) is kind:
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from parts_of(part, kind)
    elif isinstance(value, dict):
        yield from parts_of(list(value.values()), kind)


def flat(result: Any) -> Iterator[Any]:
    """The results of a call, without the tuples and lists around them."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from flat(part)
    else:
        yield result


def _like(result: Any, values: Iterator) -> Any:
    """The next values in the tuples and lists of `result`."""
    if isinstance(result, tuple | list):
        return (list if isinstance(result, list) else tuple)([_like(y, values) for y in result])
    return next(values)


def mapped(value: Any, kind: type, fn: Callable) -> Any:
    """The same nested value with fn(x) in place of each x of this kind."""
    if type(value) is kind:
        return fn(value)
    if type(value) in (tuple, list):
        return type(value)([mapped(part, kind, fn) for part in value])
    if type(value) is dict:
        return {name: mapped(part, kind, fn) for name, part in value.items()}
    return value


def unwrapped(value: Any) -> Any:
    """Arrays in place of Traced."""
    return mapped(value, Traced, lambda x: x.array)


def _refs(value: Any) -> Any:
    return mapped(value, Traced, lambda x: Ref(x.value))


# Functions of shape and dtype alone: their result is the same in every run.
_STATIC = {
    np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj,
    np.common_type, np.min_scalar_type, np.may_share_memory,
}  # fmt: skip
# Functions that write into an argument, with or without `out`.
_WRITING = {
    np.copyto, np.put, np.put_along_axis, np.putmask, np.place, np.fill_diagonal,
}  # fmt: skip
# Methods of an array that return another and change nothing.
_PURE = frozenset(
    "all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum diagonal dot "
    "flatten max mean min prod ravel repeat reshape round squeeze std sum swapaxes take trace "
    "transpose var".split()
)
_PROPERTIES = frozenset(["T", "mT", "real", "imag"])
_FIXED = frozenset("shape dtype ndim size itemsize nbytes strides device".split())


class Traced:
    """A stand-in for an array; it supports only methods and functions known to be traceable."""

    __slots__ = ("trace", "value", "array")

    def __init__(self, trace: Trace, value: int, array: Any):
        self.trace = trace
        self.value = value
        self.array = array

    @property
    def __class__(self) -> type:  # isinstance(x, np.ndarray) is then true, as for the array
        return np.ndarray if isinstance(self.array, np.generic) else type(self.array)

    def __getattr__(self, name: str) -> Any:
        array = self.array
        if name in _FIXED:
            return getattr(array, name)
        if name == "flags":
            return _Layout(array.flags)
        if name in _PROPERTIES:
            return self.trace.call("call", operator.attrgetter(name), (self,), {}, name)
        if name in _PURE:
            return _Method(self, name)
        if hasattr(array, name) and not name.startswith("__array_"):
            raise Untraceable(f"it used .{name}")
        raise AttributeError(name)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs or method == "at":
            raise Untraceable("it writes in place")
        if method == "__call__" and not kwargs and ufunc.nout == 1:
            core = ufunc.signature is not None and any(x.ndim < 2 for x in args)
            return self.trace.call("call" if core else "ufunc", ufunc, args, {}, ufunc.__name__)
        fn = ufunc if method == "__call__" else getattr(ufunc, method)
        return self.trace.call("call", fn, args, kwargs, f"{ufunc.__name__}.{method}")

    def __array_function__(self, fn: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        if fn in _STATIC:
            return fn(*unwrapped(args), **unwrapped(kwargs))
        if "out" in kwargs or fn in _WRITING or kwargs.get("copy") is False:
            raise Untraceable("it writes in place")
        return self.trace.call("call", fn, args, kwargs, fn.__name__)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable("it asked for the plain array")

    def __getitem__(self, index: Any) -> "Traced":
        return self.trace.call("call", operator.getitem, (self, index), {}, "getitem")

    def __pow__(self, b: Any) -> "Traced":  # NumPy has short cuts here: x ** 2 is not np.power
        return self.trace.call("call", operator.pow, (self, b), {}, "pow")

    def __rpow__(self, a: Any) -> "Traced":
        return self.trace.call("call", operator.pow, (a, self), {}, "pow")

    def added(self, c: Any) -> "Traced":
        """self + c in the layout of self, like `self += c`: later sums depend on the layout."""
        y = self + c
        if self.trace.fixed[y.value] and self.array.base is None:
            in_place = np.empty_like(self.array)
            in_place[...] = y.array
            y.array = self.trace.arrays[y.value] = in_place
        return y

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator["Traced"]:
        return iter([self[i] for i in range(len(self))])

    __hash__ = object.__hash__


Variants.followed_array = Traced


class _Layout:
    """The flags of an array's memory layout."""

    def __init__(self, flags: Any):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous


class _Method:
    """A method of a traced array, to be called."""

    __slots__ = ("x", "name")

    def __init__(self, x: Traced, name: str):
        self.x = x
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            raise Untraceable("it writes in place")
        x, name = self.x, self.name
        if name == "copy" and x.array.flags.c_contiguous:
            return x  # nothing writes in place here, so the copy is x itself

        def method(x: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(x, name)(*args, **kwargs)

        return x.trace.call("call", method, (x, *args), kwargs, name)


def _operator(fn: Callable, ufunc: np.ufunc, reflected: bool = False) -> Callable:
    def method(self: Traced, *others: Any) -> Any:
        if any(not isinstance(x, Traced | int | float | complex | np.generic) for x in others):
            return NotImplemented
        args = (*others, self) if reflected else (self, *others)
        if isinstance(self.array, np.generic) or any(
            type(x) is Traced and isinstance(x.array, np.generic) for x in others
        ):  # the arithmetic of NumPy's scalars may differ in the last bit
            return self.trace.call("call", fn, args, {}, ufunc.__name__)
        return self.__array_ufunc__(ufunc, "__call__", *args)

    return method


def _refused(name: str) -> Callable:
    def method(self: Traced, *args: Any) -> Any:
        raise Untraceable(f"it used {name}")

    return method


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "matmul": np.matmul,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_COMPARE = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "abs": np.absolute, "invert": np.invert}
for _name, _ufunc in _BINARY.items():
    _fn = getattr(operator, f"__{_name}__")
    setattr(Traced, f"__{_name}__", _operator(_fn, _ufunc))
    setattr(Traced, f"__r{_name}__", _operator(_fn, _ufunc, reflected=True))
for _name, _ufunc in (_COMPARE | _UNARY).items():
    setattr(Traced, f"__{_name}__", _operator(getattr(operator, f"__{_name}__"), _ufunc))
for _name in (
    "bool int float complex index setitem iadd isub imul itruediv ifloordiv imod ipow imatmul iand "
    "ior ixor contains"
).split():
    setattr(Traced, f"__{_name}__", _refused(f"__{_name}__"))
