"""NumPy's functions on tensors: np.exp(t) is mg.exp(t), recorded; one without a rule is an error.

`numpy_table` maps a NumPy function to what it means here; ops fill it as they are defined. An
option that is not supported is refused by name, never dropped.
"""

import inspect
import opcode
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.caches import cached
from ..backends.device import NO_MASKS
from ..backends.dtypes import bfloat16
from ..engine import modes
from ..engine.graph import TensorBase
from ..engine.registry import chosen_table, numpy_table, op, scipy_table
from ..engine.versions import note_write
from .help import INSTEAD_OF, of_call


def _array(x: Any) -> Any:
    """The plain array of a tensor of any level; anything else as it is."""
    while hasattr(x, "node"):
        x = x.data
    return x


def _dtype(x: Any) -> Any:
    """The dtype of a tensor; anything else as it is."""
    return x.dtype if isinstance(x, TensorBase) else x  # `node` would be a look at a result to come


# Questions about an array that NumPy asks through functions; a tensor answers them itself.
_QUESTIONS: dict[Callable, Callable] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    np.isrealobj: lambda x: x.dtype.kind != "c",
    np.iscomplex: lambda x: op.not_equal(op.imag(x), 0),
    np.isreal: lambda x: op.equal(op.imag(x), 0),
    np.result_type: lambda *xs: np.result_type(*map(_dtype, xs)),
    np.can_cast: lambda from_, *to: np.can_cast(_dtype(from_), *to),
    np.shares_memory: lambda a, b, *work: np.shares_memory(_array(a), _array(b), *work),
    np.may_share_memory: lambda a, b: np.may_share_memory(_array(a), _array(b)),
    np.array_repr: lambda arr, *how, **options: (
        np.array_repr(_array(arr), *how, **options) if how or options else repr(arr)
    ),
    np.array_str: lambda a, *how, **options: (
        np.array_str(_array(a), *how, **options) if how or options else str(a)
    ),
    np.array2string: lambda a, *how, **options: np.array2string(_array(a), *how, **options),
}


def no_mask(x: Any) -> Any:
    """`Tensor._mask`, which np.ma reads if a tensor meets a masked array. It has then taken the
    values from `_data`, as from another masked array, and without a history."""
    if x.level or (x.requires_grad and modes.state.recording):
        raise TypeError(NO_MASKS)
    raise AttributeError("_mask")


# -- ufuncs ----------------------------------------------------------------------------------

# The op that a ufunc's reduce and accumulate mean, by the ufunc's name.
_REDUCE = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
    "fmax": "nanmax", "fmin": "nanmin", "logaddexp": "logsumexp",
    "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_ACCUMULATE = {
    "add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin",
    "logaddexp": "logcumsumexp",
}  # fmt: skip
_AT = {  # what ufunc.at would do, by the ufunc's name
    "add": "mg.index_add(x, axis, index, source) or mg.index_put(x, indices, values, "
    "accumulate=True), which give a changed copy",
} | {
    name: f"mg.index_reduce(x, axis, index, source, {reduce!r}), which gives a changed copy"
    for name, reduce in {"multiply": "prod", "maximum": "amax", "minimum": "amin"}.items()
}
_INSTEAD = {
    "at": "x[index] = {0}(x[index], values), where no index comes twice",
    "reduceat": "one reduction of each slice, or mg.index_add with the number of each segment",
}


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """`Tensor.__array_ufunc__`: np.add(t, u), and np.add's reduce, accumulate and outer."""
    entry = numpy_table.get(ufunc)
    if entry is not None and method == "__call__" and not options:
        return entry(*inputs)
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    if _adds_a_constant(inputs, options):
        y = ufunc(*map(_array, inputs), **options)
        note_write(y, "`array += tensor`")  # as of w.data -= 0.1 * w.grad
        return y
    where = options.pop("where", True) if method == "reduce" else True
    if options:
        _refuse_options(name, options)
    if method == "reduce":
        return _reduce(ufunc, name, *inputs, where=where, **options)
    if method == "accumulate":
        return _accumulate(ufunc, name, *inputs, **options)
    if method in _INSTEAD:
        instead = _INSTEAD[method].format(f"np.{ufunc.__name__}")
        if method == "at":
            instead = _AT.get(ufunc.__name__, instead)
        raise TypeError(f"np.{name} is not recorded; use {instead}")
    entry = entry or _from_scipy(ufunc)
    if entry is None:
        raise _unknown(name)
    dtype, casting = options.pop("dtype", None), options.pop("casting", "same_kind")
    if dtype is not None or casting != "same_kind":
        inputs = _in_dtype(ufunc, name, inputs, dtype, casting)
    if method == "outer":
        a, b = inputs
        inputs = op.reshape(a, shape=(*np.shape(a), *(1,) * np.ndim(b))), b
    return entry(*inputs, **options)


def _adds_a_constant(inputs: tuple, options: dict) -> bool:
    """Whether the call is `array += constant`, or another operator of that kind.

    Programs that know no tensors write so (SciPy's solvers), and nothing is lost. Only a history, a
    tangent or a value for each example cannot follow into an array.
    """
    if len(inputs) != 2 or not isinstance(inputs[0], np.ndarray):
        return False
    (y,), x = options.get("out") or (None,), inputs[1]
    return y is inputs[0] and not (x.level or (x.requires_grad and modes.state.recording))


def _from_scipy(ufunc: Any) -> Callable | None:
    """The op for a ufunc of scipy.special: a caller that has one has imported SciPy."""
    theirs = getattr(sys.modules.get("scipy.special"), ufunc.__name__, None)
    return scipy_table.get(ufunc.__name__) if theirs is ufunc else None


def _refuse_options(name: str, options: dict) -> None:
    """Remove the options that change nothing, refuse those that would change something."""
    if options.pop("out", None) is not None:
        raise TypeError(
            f"np.{name}: out= (also `array += tensor`) would write a tensor's values "
            "where no gradient can follow; write y = ... instead, `array += tensor.detach()`, or "
            "for a step of a leaf `with mg.no_grad(): w -= 0.1 * w.grad` or an optimizer"
        )
    if options.pop("where", True) is not True:
        raise TypeError(f"np.{name}: where= is not recorded; use mg.where(mask, a, b)")
    options.pop("subok", None)  # a result is a plain tensor for any argument
    refused = [option for option in ("signature", "axes") if option in options]
    if options.pop("order", "K") != "K":
        refused.append("order")
    for option in refused:
        raise TypeError(f"np.{name}: {option}= is not supported on tensors. {INSTEAD_OF[option]}")


def _in_dtype(ufunc: Any, name: str, inputs: tuple, dtype: Any, casting: str) -> tuple:
    """The inputs in the dtypes of NumPy's loop for results of `dtype` (None: NumPy's choice).
    NumPy's error if `casting` forbids the cast, or if there is no such loop.

    np.abs of complex numbers with dtype=float takes complex ones and np.less with dtype=bool any;
    np.add with dtype=int takes no fractions, which it would cut off.
    """
    wanted = None if dtype is None else np.dtype(dtype)
    given = [_loop_dtype(x, wanted) for x in inputs]
    types, signature = (*given, *(None,) * ufunc.nout), (None,) * ufunc.nin + (wanted,) * ufunc.nout
    try:
        loop = ufunc.resolve_dtypes(types, signature=signature, casting=casting)
    except TypeError as error:
        raise TypeError(f"np.{name}: dtype={wanted} does not fit {given}: {error}") from None
    if any(part.hasobject for part in loop):
        raise TypeError(f"np.{name}: dtype=object is not supported on tensors")
    return tuple([op.astype(x, to) if hasattr(x, "dtype") else x
                  for x, to in zip(inputs, loop, strict=False)])  # fmt: skip


def _loop_dtype(x: Any, wanted: Any) -> Any:
    """The dtype of an input for resolve_dtypes. A Python number is weak with bfloat16 here, as in
    the rest of minigrad, though not in NumPy.
    """
    if type(x) in (int, float, complex):
        return wanted if wanted == bfloat16 else type(x)
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def _reduce(ufunc: Any, name: str, x: Any, where: Any = True, **options: Any) -> Any:
    """ufunc.reduce: by default along the first axis; `initial` is combined with the result.

    Elements where `where` is false are replaced by the ufunc's neutral value, and get no gradient.
    """
    entry = _op_named(_REDUCE, ufunc, name)
    initial, dtype = options.pop("initial", None), options.pop("dtype", None)
    options.setdefault("axis", 0)
    x = _as_computed(ufunc, x, dtype)
    if where is not True:
        if initial is None and ufunc.identity is None:
            raise ValueError(f"np.{name}: where= may leave nothing; give initial= for that case")
        x = op.where(mask_of(name, where, x.shape), x, _neutral(ufunc, x.dtype))
    if initial is None:
        return entry(x, **options)
    if x.size == 0 and ufunc.identity is None:  # nothing has no largest entry; `initial` is all
        y = op.sum(x, dtype=x.dtype, **options)
        return y + _first(name, initial, y.dtype)
    y = entry(x, **options)
    return ufunc(y, _first(name, initial, y.dtype))


def _first(name: str, initial: Any, dtype: Any) -> Any:
    """`initial` in the dtype of the result; NumPy would cut its fraction off in silence."""
    if dtype.kind == "b":
        return bool(initial)
    if isinstance(initial, np.generic) or (isinstance(initial, np.ndarray) and not initial.ndim):
        initial = initial.item()  # as Python's: weak against the dtype, and checked against it
    kind = initial.dtype.kind if hasattr(initial, "dtype") else np.asarray(initial).dtype.kind
    whole = dtype.kind in "iu"
    if whole and kind == "f" and float(initial).is_integer():
        return int(initial)
    if (whole and kind == "f") or (kind == "c" and dtype.kind != "c"):
        raise TypeError(
            f"np.{name}: initial={initial} does not fit into the result's {dtype}; give a number "
            "that does, or combine it with the result: y + initial"
        )
    return op.astype(initial, dtype) if hasattr(initial, "dtype") else initial


def mask_of(name: str, where: Any, shape: tuple) -> Any:
    """The where= of a reduction, broadcast to the array's shape."""
    where = where if hasattr(where, "dtype") else np.asarray(where)
    if where.dtype != bool:
        raise TypeError(f"np.{name}: where= takes truths, got {where.dtype}; write mask != 0")
    return op.broadcast_to(where, shape=shape)


def _neutral(ufunc: Any, dtype: Any) -> Any:
    """The value of this dtype that changes no result of the ufunc."""
    if ufunc is np.logaddexp:
        return dtype.type(-np.inf)
    if ufunc.identity is not None:
        return dtype.type(ufunc.identity)
    lowest = ufunc in (np.maximum, np.fmax)
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return dtype.type(limits.min if lowest else limits.max)
    return dtype.type(-np.inf if lowest else np.inf)


def _accumulate(ufunc: Any, name: str, x: Any, axis: int = 0, dtype: Any = None) -> Any:
    """ufunc.accumulate along one axis, the first unless told otherwise."""
    if x.ndim == 0:
        raise TypeError(f"np.{name}: a number has no axis to run along; use mg.atleast_1d(x)")
    y = _op_named(_ACCUMULATE, ufunc, name)(_as_computed(ufunc, x, dtype), axis=axis)
    return y[0] if isinstance(y, tuple) else y  # cummax gives (values, indices)


def _as_computed(ufunc: Any, x: Any, dtype: Any) -> Any:
    """x in the dtype in which the reduction runs: `dtype`, or float64 for logaddexp of integers."""
    if dtype is None and ufunc is np.logaddexp and x.dtype.kind in "biu":
        dtype = np.float64
    return x if dtype is None else op.astype(x, dtype)


def _op_named(table: dict[str, str], ufunc: Any, name: str) -> Callable:
    entry = table.get(ufunc.__name__, "")
    if entry not in op:
        raise _unknown(name)
    return getattr(op, entry)


# -- functions -------------------------------------------------------------------------------


def array_function(self: Any, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
    """`Tensor.__array_function__`: functions such as np.sum, np.concatenate, np.linalg.inv."""
    entry = numpy_table.get(function) or _QUESTIONS.get(function)
    module = function.__module__.removeprefix("numpy").lstrip(".")
    name = f"{module}.{function.__name__}" if module else function.__name__
    if entry is None:
        raise _unknown(name)
    chosen = chosen_table.get(function)
    if chosen is not None and (len(args) > 4 or kwargs.keys() & _CHOICES):
        entry = chosen
    foreign = _foreign_names(function, entry)
    if foreign is not None and (kwargs or len(args) > foreign.alike):
        args, kwargs = foreign.translate(name, args, kwargs)
    try:
        return entry(*args, **kwargs)
    except Exception as error:
        raise of_call(error, entry, args, kwargs, f"np.{name}")  # noqa: B904 (it knows its cause)


_CHOICES = {"where", "initial", "mean"}  # further options of the functions of chosen_table
# Options that NumPy may heed and need not: here they have no effect.
_PERMISSIONS = {"overwrite_input", "subok"}


class _ForeignNames:
    """How NumPy's parameters of a function are called here.

    theirs   NumPy's names, in order
    ours     the names of the entry's parameters
    usual    NumPy's name -> its default
    renamed  NumPy's name -> ours, for parameters at the same position (np.sum's a is x here)
    alike    how many leading parameters have the same position, and need no names
    starred  whether one of them takes any number of arguments: these have no names, and stay
    """

    def __init__(self, theirs: list[str], ours: list[str], usual: dict[str, Any], starred: bool):
        self.theirs, self.ours, self.usual = theirs, set(ours), usual
        self.renamed, self.alike, self.starred = {}, 0, starred
        for a, b in zip(theirs, ours, strict=False):
            if a != b and (a in ours or b in theirs or a == "out"):
                break
            self.renamed[a] = b
            self.alike += 1

    def translate(self, name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """NumPy's arguments by our names; an option that we do not have is refused."""
        given = kwargs if self.starred else dict(zip(self.theirs, args, strict=False)) | kwargs
        given = {key: value for key, value in given.items() if key not in _PERMISSIONS}
        if given.pop("out", None) is not None:
            raise TypeError(
                f"np.{name}: out= would write a tensor's values where no gradient can follow; "
                "write y = ... instead"
            )
        given = {
            self.renamed.get(key, key): value
            for key, value in given.items()
            if self.renamed.get(key, key) in self.ours or not self._is_usual(key, value)
        }
        unknown = sorted(given.keys() - self.ours)
        if unknown:
            hints = " ".join(INSTEAD_OF[key] for key in unknown if key in INSTEAD_OF)
            raise TypeError(
                f"np.{name}: {', '.join(f'{key}=' for key in unknown)} is not supported on "
                f"tensors; this function takes {', '.join(sorted(self.ours))}. {hints}"
            )
        return (args if self.starred else ()), given

    def _is_usual(self, key: str, value: Any) -> bool:
        """Whether an option has NumPy's default, and so asks for nothing."""
        usual = self.usual.get(key, inspect.Parameter.empty)
        return value is usual or type(value) in (str, int, float) and value == usual


@cached("NumPy signatures", max_entries=1024)
def _foreign_names(function: Callable, entry: Callable) -> _ForeignNames | None:
    """The names of both sides; None where one has no signature or ours takes any names."""
    try:
        theirs = inspect.signature(function).parameters.values()
        ours = inspect.signature(entry).parameters.values()
    except (TypeError, ValueError):  # written in C, without a signature
        return None
    if any(p.kind is p.VAR_KEYWORD for p in ours):
        return None
    usual = {p.name: p.default for p in theirs if p.default is not p.empty}
    if any(p.kind is p.VAR_KEYWORD for p in theirs):
        usual = _OF_A_UFUNC | usual
    starred = any(p.kind is p.VAR_POSITIONAL for p in (*theirs, *ours))
    return _ForeignNames([p.name for p in theirs], [p.name for p in ours], usual, starred)


# What NumPy hands on to a ufunc, with its defaults: the **kwargs of np.clip and np.einsum.
_OF_A_UFUNC = {"casting": "same_kind", "dtype": None, "order": "K", "where": True}


def _unknown(name: str) -> TypeError:
    return TypeError(
        f"np.{name} has no derivative rule in minigrad, so it is not applied to a tensor. Use "
        "x.detach().numpy() if no gradient is needed, or add the op with @mg.primitive(numpy="
        f"np.{name})."
    )


def warn_of_storing(caller: Any) -> None:
    """A warning where `array[i] = x` takes the number of a tracked tensor and drops its history.

    NumPy asks for it by float(x), as the user may. Which of the two it was, the instruction tells
    that the caller's frame is executing: a store, or a call.
    """
    if caller.f_code.co_code[caller.f_lasti] == opcode.opmap.get("STORE_SUBSCR"):
        warnings.warn(
            "array[i] = x takes the value of a tracked tensor and drops its history: no gradient "
            "will come back from that array. If the value is all you want, say x.item(). To go on "
            "computing, fill a tensor, y = mg.zeros(n), or join the parts by mg.stack",
            stacklevel=3,
        )
