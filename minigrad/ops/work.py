"""The work of an op: floating-point operations and bytes moved, forward and backward.

    of(op, inputs, outputs, params)            -> Work(flops, moved)
    of_backward(op, inputs, outputs, params)   -> Work(flops, moved)

How it is counted. One addition, multiplication or comparison of real numbers is one operation, a
multiply-add two. Complex numbers count four times (a complex multiply-add is eight real ones). A
division or root counts 4, an elementary function 10 or more (`_UFUNCS`): about their cost relative
to a multiplication in a vectorised library. Moving data counts nothing. Bytes moved are the
minimum: each input and each output once. Views move nothing. Nor does a gradient that is the
cotangent or a view of it, as those of an addition and a sum. The engine's own work on gradients
(sums over broadcast axes, additions, casts) is no op's work.

Elementwise ops need no entry: their forward and partials are run once on a `_Tally`, a number that
counts the ufuncs applied to it. The other ops have one row in `work_table.py`, which `counts` puts
into the table when minigrad.ops is imported.
"""

from collections.abc import Callable, Sequence
from math import log2, prod
from typing import Any, NamedTuple

import numpy as np

from ..engine.registry import op as registry

__all__ = ["Array", "Call", "Work", "needed_params", "of", "of_backward"]


class Work(NamedTuple):
    """Floating-point operations (None: not known) and the bytes read and written at the least."""

    flops: int | None
    moved: int


class Array(NamedTuple):
    """What counting reads of an array."""

    shape: tuple
    dtype: Any
    nbytes: int


class Call(NamedTuple):
    """A call's shapes, as the rows of the table read them; an input that is not an array is ().

    slot: in the count of a gradient, which input it is of.
    """

    inputs: list[tuple]
    outputs: list[tuple]
    params: dict[str, Any]
    slot: int = 0

    @property
    def n(self) -> int:
        """Elements of the first output."""
        return prod(self.outputs[0]) if self.outputs else 0

    @property
    def m(self) -> int:
        """Elements of the first input."""
        return prod(self.inputs[0]) if self.inputs else 0


class Row(NamedTuple):
    """How an op counts. backward: for all inputs together where `joint`, else for each needed."""

    forward: Callable[[Call], float]
    backward: Callable[[Call], float]
    joint: bool = False
    needs: tuple[str, ...] = ()  # static parameters that the counts read


_GRADIENT_IS_A_VIEW = set(  # of the cotangent; of the mean: of the cotangent by n
    "reshape transpose swapaxes squeeze expand_dims flip sum mean concatenate_arrays stack_arrays "
    "pad_zeros cast contiguous copy device_copy diagonal_dx join_heads positive real unfold_dx "
    "unwrap".split()
)
_table: dict[str, Row] = {}
_weights: dict[str, tuple[float, dict[str, float]]] = {}  # elementwise: forward, each partial


def counts(
    names: str,
    forward: Callable[[Call], float],
    backward: Callable[[Call], float] | None = None,
    joint: bool = False,
    needs: str = "",
) -> None:
    """Enter ops into the table; without `backward` a gradient costs what the forward does."""
    for name in names.split():
        _table[name] = Row(forward, backward or forward, joint, tuple(needs.split()))


def of(op: Any, inputs: Sequence, outputs: Sequence, params: dict | None = None) -> Work:
    """The work of one call. inputs, outputs: arrays, tensors or shapes; params: static ones."""
    entry, call, dtype = _call(op, inputs, outputs, params)
    if entry.view:
        return Work(0, 0)
    moved = _bytes(inputs) + _bytes(outputs)
    if entry.kind == "elementwise":
        return Work(_whole(_weights_of(entry)[0] * call.n, dtype), moved)
    row = _table.get(entry.name)
    return Work(_counted(row.forward, call, dtype) if row else None, moved)


def of_backward(
    op: Any,
    inputs: Sequence,
    outputs: Sequence,
    params: dict | None = None,
    needed: Sequence[int] | None = None,
) -> Work:
    """The work of the backward of a call with these inputs and outputs.

    needed  which inputs get a gradient (default: all that may). Moved are the cotangent, what the
            rules have saved of inputs and outputs, and the gradients.
    """
    entry, call, dtype = _call(op, inputs, outputs, params)
    tracked = [i for i in range(len(inputs)) if entry.tracked >> i & 1]
    slots = [i for i in tracked if needed is None or i in needed]
    made = [i for i in slots if not _hands_on(entry, i)]  # gradients that are new arrays
    moved = 0
    if entry.name in _GRADIENT_IS_A_VIEW:
        moved = _bytes(outputs) if entry.name == "mean" else 0
    elif made:
        moved = _bytes(outputs) + _bytes([inputs[i] for i in made if i < len(inputs)])
        moved += _saved_bytes(entry, inputs, outputs, made)
    if entry.kind == "elementwise":
        partials = _weights_of(entry)[1]
        weight = sum(partials.get(entry.arrays[i], 0.0) for i in slots)
        return Work(_whole(weight * call.n, dtype), moved)
    row = _table.get(entry.name)
    if row is None:
        return Work(None, moved)
    calls = [call] if row.joint else [call._replace(slot=slot) for slot in slots]
    parts = [_counted(row.backward, call, dtype) for call in calls]
    return Work(None if None in parts else sum(parts), moved)  # type: ignore[arg-type]


def needed_params(op: str) -> tuple[str, ...]:
    """The static parameters that an op's counts read."""
    row = _table.get(op)
    return row.needs if row else ()


def _call(op: Any, inputs: Sequence, outputs: Sequence, params: dict | None) -> tuple:
    entry = getattr(registry, op) if isinstance(op, str) else op
    shapes = [_shape(x) for x in inputs]
    kinds = [getattr(getattr(x, "dtype", None), "kind", "f") for x in (*inputs, *outputs)]
    known = {**entry.defaults, **(params or {})}
    return entry, Call(shapes, [_shape(y) for y in outputs], known), "c" in kinds


def _shape(x: Any) -> tuple:
    if type(x) is tuple:
        return x
    return tuple(getattr(x, "shape", ()))


def _bytes(arrays: Sequence) -> int:
    """Their bytes; of a plain shape, as float64."""
    return sum(8 * prod(x) if type(x) is tuple else int(getattr(x, "nbytes", 0)) for x in arrays)


def _whole(flops: float, is_complex: bool) -> int:
    return round(flops * (4 if is_complex else 1))


def _counted(count: Callable[[Call], float], call: Call, is_complex: bool) -> int | None:
    """The row's count; None where a parameter that it reads is not known."""
    try:
        return _whole(count(call), is_complex)
    except (KeyError, TypeError, AttributeError, IndexError):
        return None


def _hands_on(entry: Any, slot: int) -> bool:
    """Whether the gradient of an input is the cotangent itself: its rule is `lambda g: g`."""
    rule = None if entry.variadic else entry.rules.get(entry.arrays[slot])
    if rule is None or rule.names != ("g",):
        return False
    g = _Tally([0.0])
    try:
        return rule.fn(g) is g and not g.count[0]
    except Exception:  # it asks for more of an array than a tally has
        return False


def _saved_bytes(entry: Any, inputs: Sequence, outputs: Sequence, slots: list[int]) -> int:
    """Bytes of the inputs and outputs that the rules of these inputs read."""
    if entry.joint:
        asked = set(entry.joint.names)
    else:
        rules = [entry.rules.get(entry.arrays[0 if entry.variadic else i]) for i in slots]
        asked = {name for rule in rules if rule for name in rule.names}
    total = _bytes(outputs) if "y" in asked else 0
    if entry.variadic:
        return total + (_bytes(inputs) if entry.arrays[0] in asked else 0)
    return total + _bytes([x for x, name in zip(inputs, entry.arrays) if name in asked])


# -- elementwise: counted by running the row of the calculus table once ----------------------------

_UFUNCS = dict.fromkeys(
    "divide true_divide floor_divide remainder fmod reciprocal sqrt divmod".split(), 4.0
) | dict.fromkeys(
    "exp exp2 expm1 log log2 log10 log1p cbrt sin cos hypot sinh cosh tanh tan arctan "
    "arctan2 arcsin arccos arcsinh arccosh arctanh erf erfc expit logit".split(), 10.0
) | dict.fromkeys(
    "power float_power logaddexp logaddexp2 erfinv gammaln psi gamma zeta digamma xlogy xlog1py "
    "log_expit polygamma erfcinv".split(), 20.0
)  # fmt: skip
_FREE = {"copyto", "where", "zeros_like", "ones_like", "broadcast_to", "empty_like", "full_like",
         "real", "imag", "result_type", "iscomplexobj", "shape", "ndim", "size"}  # fmt: skip


class _Tally(np.lib.mixins.NDArrayOperatorsMixin):
    """A number that counts what is done to it; every result adds to the same count."""

    __array_priority__ = 1000.0
    dtype, shape, ndim, size, itemsize = np.dtype(np.float64), (), 0, 1, 8
    nbytes, flags = 8, np.zeros(()).flags

    def __init__(self, count: list[float]):
        self.count = count

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        self.count[0] += _UFUNCS.get(ufunc.__name__, 1.0)
        return tuple([self] * ufunc.nout) if ufunc.nout > 1 else self

    def __array_function__(self, fn: Any, types: Any, args: tuple, kwargs: Any) -> Any:
        self.count[0] += 0.0 if fn.__name__ in _FREE else _UFUNCS.get(fn.__name__, 1.0)
        return self

    @property
    def real(self) -> "_Tally":
        return self

    def _same(self, *args: Any, **kwargs: Any) -> "_Tally":
        return self

    imag = T = real
    conj = conjugate = astype = copy = view = reshape = __getitem__ = _same
    __iter__ = None  # by __getitem__ it would be an endless sequence: SciPy 1.18 unpacks some

    def __bool__(self) -> bool:
        return True

    def __float__(self) -> float:
        return 0.5


def _weights_of(entry: Any) -> tuple[float, dict[str, float]]:
    """(operations an element forward, {input: operations an element of its gradient})."""
    found = _weights.get(entry.name)
    if found is None:
        row, one = _table.get(entry.name), Call([()], [()], {})
        if row is not None:  # it computes otherwise than a tally shows
            partials = {name: float(row.backward(one)) for name in entry.rules}
            found = _weights[entry.name] = float(row.forward(one)), partials
            return found
        forward = _run(entry.forward, [_Tally] * len(entry.arrays))
        forward = 12.0 if forward is None else forward  # it does not run on a tally
        partials = {}
        for name, rule in entry.rules.items():
            asked = [entry.defaults.get(n, _Tally) for n in rule.names]
            cost = _run(rule.fn, asked)
            partials[name] = (forward if cost is None else cost) + bool(rule.partial)
        found = _weights[entry.name] = forward, partials
    return found


def _run(fn: Callable, given: list) -> float | None:
    """A function's effect on tallies, one for each _Tally given; None: it does not take them."""
    count = [0.0]
    try:
        fn(*[_Tally(count) if value is _Tally else value for value in given])
    except Exception:
        return None
    return count[0]


def levels(n: int) -> float:
    """log₂ n, at least 1: the passes of a sort or a transform of n elements."""
    return log2(max(n, 2))
