"""An op: a forward written in NumPy, its derivative rules, and the one way it runs.

Three ways to write one:

    tan = elementwise(np.tan, dx=lambda y: 1 + y * y)            # partials, name = variable

    @primitive                                                    # anything else
    def softmax(x, *, axis=-1): ...

    @softmax.vjp("x")
    def softmax_dx(g, y, axis): ...

    @linear                                                       # jvp is the op itself
    def transpose(x, *, axes=None): ...

Calling an op is the one doorway: unwrap, run, link, wrap. `Primitive.general` does it for any call;
fast/ generates the same for the fast calls of each op.
"""

import inspect
import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from ..backends.device import array_module, plain_arrays
from ..backends.dtypes import KINDS, NUMBERS, PLAIN, WITHOUT_DTYPE, plain_numbers, weak_scalars
from . import events, graph, modes
from .errors import describe, refuse_left_behind
from .graph import Node, Port, TensorBase, raw, record, wrap
from .help import explain, held, operand, signature_error
from .plan import Plan, Plans, Rule
from .registry import numpy_table
from .registry import op as registry
from .rule import (
    RESERVED,
    Differentiable,
    check_partials,
    in_own_names,
    plain_name,
    split_signature,
)

_ndarray = np.ndarray
_ANY_WAY = inspect.Parameter.POSITIONAL_OR_KEYWORD

# -- between tensors and arrays --------------------------------------------------------------------


def unwrap(op: Any, args: tuple, params: dict) -> tuple[list, list, Any]:
    """(arrays, the node of each or None, the largest tensor's array or None) of the arguments."""
    arrays: list = []
    nodes: list = []
    bit, largest, weak = 1, None, False
    for x in args:
        node = None
        if isinstance(x, TensorBase):
            array = x._data
            if largest is None or array.size > largest.size:
                largest = array
            if bit & op.tracked:
                node = x.node
        elif type(x) in WITHOUT_DTYPE:  # Python scalars stay weak
            weak, array = True, x
        else:
            plain = type(x) in plain_arrays and x.dtype.kind in KINDS
            array = x if plain else operand(x, op, args, params)
        arrays.append(array)
        nodes.append(node)
        bit += bit
    if weak:
        beside = largest is not None
        arrays = weak_scalars(arrays) if beside else scalars_as_arrays(op, arrays)
    return arrays, nodes, largest


def as_results(op: Any, y: Any, kind: type, args: tuple, params: dict) -> Any:
    """A result that is no array: several, a scalar of NumPy, CuPy's, or a tensor of a level below.

    kind   the class of the result; inside a transform its data is such a tensor
    """
    if not kind.level or isinstance(y, np.generic):  # type: ignore[attr-defined]
        y = as_result(op, y, args, params)
    return as_arrays(y) if op.outputs else y


def scalars_as_arrays(op: Any, values: list) -> list:
    """mg.sum(2.0): if no argument is a tensor, Python numbers are 0-d arrays to all but ufuncs.

    In elementwise ops they stay weak next to an array, as next to a tensor.
    """
    weak = op.kind == "elementwise" and any(hasattr(x, "dtype") for x in values)
    if weak or isinstance(op.reference, np.ufunc):
        return values
    xp = next((array_module(x) for x in values if hasattr(x, "dtype")), np)
    return [xp.asarray(x) if type(x) in NUMBERS else x for x in values]


def as_result(op: Any, y: Any, args: tuple, params: dict) -> Any:
    """A forward's result that is not a NumPy array, in the form that a tensor may hold."""
    if isinstance(y, np.generic):
        return np.asarray(y)  # see as_arrays
    if isinstance(y, TensorBase | tuple):
        y = without_tensors(op, y, args, params)
    if not op.outputs and not hasattr(y, "dtype"):
        several = isinstance(y, tuple) and len(y) > 1
        advice = f", or a tuple of {len(y)} with outputs={len(y)}" if several else ""
        raise TypeError(
            f"the forward of {op.name} returned {describe(y)}; an op returns an array{advice}"
        )
    return y


def as_arrays(ys: Any) -> Any:
    """Several results, with arrays instead of the scalars that NumPy returns for 0-d ones.

    Scalars are read-only. Also, products of complex scalars are rounded differently from those of
    arrays, which use fused multiply-add, and a replay of a tape computes on arrays.
    """
    return tuple([np.asarray(y) if isinstance(y, np.generic) else y for y in ys])


def without_tensors(op: Any, y: Any, args: tuple, params: dict) -> Any:
    """The array of a result that came out as a tensor because a static parameter was one.

    A parameter that requires a gradient is refused: it would silently get none. So is an argument
    left over from a transform that has ended, also where there are several results.
    """
    refuse_left_behind(op, args)
    for name, value in params.items():
        if isinstance(value, TensorBase) and (value.level or value.requires_grad):
            raise TypeError(
                f"{op.name}: {name} is a constant here, and the one given, {describe(value)}, "
                f"asks for a derivative that it would not get; pass {name}={name}.item()"
            )
    return raw(y)


# -- the seams of a call ---------------------------------------------------------------------------


def _general(op: Any, name: str) -> Callable:
    return op.general


# Seam A. `make_call(op, "apply")` makes what the operators call, `make_call(op, "instrumented")`
# what that goes to under a mode; fast/ generates both for each op.
make_call: Callable[[Any, str], Callable] = _general


def _under_modes(op: Any, args: tuple, params: dict) -> tuple:
    """How a call runs: (its result if it has run already, args, forward, class of the result,
    whether it is recorded, whether there are listeners).
    """
    return None, args, op.forward, graph.made, modes.state.recording, bool(events.listeners)


def _tell(
    op: Any, kind: type, node: Any, args: tuple, params: dict, y: Any, t0: int, t1: int
) -> Any:
    """Inform the listeners of a call, which took from t0 to t1; returns y."""
    if not modes.state.muted:
        ys = y if op.outputs else (y,)
        events.emit(("forward", op.name, t0, t1, node, args, ys, params))
    return y


# Seam F. Called while `modes.active`, before and after a call; modes/slow_path.py puts functions
# here that know transforms, autocast, tapes, checkpoints and sessions.
enter: Callable[[Any, tuple, dict], tuple] = _under_modes
tell: Callable = _tell
holders: dict[int, weakref.ref] = {}  # the ops that hold a call so made, by id


class Primitive(Differentiable):
    """One op. Positional arguments are arrays that may carry gradients; keywords are static.

    arrays      names of the array arguments, in order
    constants   those of them that never carry a gradient (indices, masks, targets)
    optional    those that may be left out or None (a bias)
    defaults    static parameters with their defaults
    rules       input name -> Rule; or `joint`, one rule for all inputs (rules.py)
    kind        "elementwise", "linear", "multilinear" or "": how jvp and vmap may treat it; the
                rules of an elementwise op are run on large arrays block by block
    outputs     0: the result is an array; n: a tuple of n
    residuals   names of what the forward returns after y, for its rules alone (constants there)
    variadic    whether it takes any number of arrays, which its one name means as a list
    view        whether the result may share memory with the input
    """

    other_names: dict[str, str] = {}  # of arguments, and what they are called here
    implementation: Callable[..., Callable]  # this and those below: custom/implementations.py
    remove_implementation: Callable[..., None]
    variant: Callable[..., Callable]
    variants: tuple
    remove_variant: Callable[..., None]
    cache: Callable[..., Any]

    def __init__(
        self,
        forward: Callable,
        name: str,
        arrays: Iterable[str],
        *,
        constants: Iterable[str] = (),
        optional: Iterable[str] = (),
        defaults: dict[str, Any] | None = None,
        kind: str = "",
        outputs: int = 0,
        residuals: Iterable[str] = (),
        variadic: bool = False,
        view: bool = False,
        differentiable: bool = True,
    ):
        name = plain_name(name)
        self.forward = forward  # what a call runs: seam C (custom/variants.py) may choose
        self.reference: Any = forward
        self.name = self.__name__ = name
        self.called = name  # in errors: of an op that only another one calls, that one's name
        self.__doc__ = forward.__doc__
        self.arrays = tuple(map(plain_name, arrays))
        self.arity = -1 if variadic else len(self.arrays)
        self.constants = frozenset(constants)
        self.optional = frozenset(optional)
        self.defaults = {plain_name(key): value for key, value in (defaults or {}).items()}
        # NumPy itself refuses a keepdims that is no truth value
        flags = [key for key, value in self.defaults.items() if value.__class__ is bool]
        self.flags = tuple([key for key in flags if key != "keepdims"])
        self.kind = kind
        self.outputs = outputs
        self.residuals = tuple(map(plain_name, residuals))
        self.when_missing = ""  # what else may be meant by a call that lacks an argument
        self.variadic = variadic
        self.view = view
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, _ANY_WAY) for name in self.arrays]
        )
        self.rules: dict[str, Rule] = {}
        self.joint: Rule | None = None
        self.shortcuts: dict[tuple, Rule] = {}  # names of inputs: a rule for them together
        self.jvp_rule: Rule | None = None
        self.batch_rule: Callable | None = None
        self.plans = Plans(self)
        self.derived: dict[Any, Any] = {}  # what others make of it; emptied when a rule changes
        self.tracked = self._tracked(differentiable)
        if reserved := RESERVED & {*self.arrays, *self.defaults}:
            raise ValueError(f"{name}: {sorted(reserved)} are names that rules use; rename them")

    def _tracked(self, differentiable: bool) -> int:
        """Bit i is set where input i may carry a gradient (−1: every input does)."""
        if not differentiable:
            return 0
        constant = sum(1 << i for i, name in enumerate(self.arrays) if name in self.constants)
        return ~constant

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join([*self.arrays, *self.defaults])})>"

    # -- the one doorway ---------------------------------------------------------------------

    @cached_property
    def apply(self) -> Callable:
        """The function that operators call: the op's fast call, generated; other calls go on to
        general.

        The interpreter calls a function held in an attribute without leaving its own loop;
        through `__call__` it would have to.
        """
        holders[id(self)] = weakref.ref(self)
        return make_call(self, "apply")

    @cached_property
    def instrumented(self) -> Callable:
        """Where `apply` goes under a mode: a fast call with listeners or without recording."""
        holders[id(self)] = weakref.ref(self)
        return make_call(self, "instrumented")

    def __call__(self, *args: Any, **params: Any) -> Any:
        if args and len(args) == self.arity and type(args[-1]) is not _ndarray:
            if not params:
                return self.apply(*args)
            if self.defaults:
                return self.apply(*args, **params)
        return self.general(*args, **params)  # rules call ops on arrays alone, which are not plain

    def general(self, *args: Any, **params: Any) -> Any:
        """Any call, of any arguments under any modes."""
        if len(args) != self.arity and not self.variadic:
            args, params = self._bind(args, params)
        if params:
            params = self.static(params)
        forward, kind, residuals, recording, heard = self.forward, graph.made, (), True, False
        if modes.active:
            done, args, forward, kind, recording, heard = enter(self, args, params)
            if done is not None:
                return done
        # unwrap
        arrays, nodes, largest = unwrap(self, args, params)
        # run
        try:
            if heard:  # times bracket NumPy's work alone, not the engine's
                t0, y, t1 = events.clock(), forward(*arrays, **params), events.clock()
            else:
                y = forward(*arrays, **params)
        except Exception as error:
            raise explain(error, self, args, params)  # noqa: B904 (it knows its cause)
        if self.residuals:
            y, *residuals = y
        if largest is None:  # where no argument is a tensor, the result is none
            return y
        if type(y) is not _ndarray:
            y = as_results(self, y, kind, args, params)
        # link
        node = record(self, nodes, [*arrays, y], params, residuals) if recording else None
        if heard:
            y = tell(self, kind, node, args, params, y, t0, t1)
        # wrap
        return self._wrap_outputs(y, node, kind) if self.outputs else wrap(y, node, kind)

    def _bind(self, args: tuple, params: dict) -> tuple[tuple, dict]:
        """Accept NumPy's positional spelling of static parameters, and arrays by keyword."""
        names = (*self.arrays, *self.defaults)
        if len(args) > len(names):
            raise TypeError(f"{self.name} takes at most {len(names)} arguments, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        if self.other_names:
            params = in_own_names(params, self.other_names)
        if twice := given.keys() & params.keys():
            raise TypeError(f"{self.name} got {sorted(twice)} both by position and by name")
        given |= params
        missing = [name for name in self.arrays if name not in given and name not in self.optional]
        if missing:
            needed = f"{self.name} needs {missing}; its arguments are {list(names)}"
            raise signature_error(TypeError(needed + self.when_missing), self, args, params)
        # an optional array that was not given is None: rules find every input in its place
        return tuple([given.pop(name, None) for name in self.arrays]), given

    def static(self, params: dict) -> dict:
        """The static parameters of a call, NumPy's numbers as Python's; TypeError for no flag."""
        if not PLAIN.issuperset(map(type, params.values())):
            params = plain_numbers(params)
        if self.flags:
            self.check_flags(params)
        return params

    def check_flags(self, params: dict) -> None:
        """TypeError for a flag that is no truth value: any text would count as True."""
        for name in self.flags:
            value = params.get(name)
            if value.__class__ is not bool and value is not None:
                held(self.called, name, value, bool)

    def plan_for(self, pattern: int) -> Plan:
        """The plan of calls whose inputs need gradients by this bit pattern, made once.

        A variadic op has one plan for all patterns: its saved values include `needs`.
        """
        key = 1 if self.variadic else pattern
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = Plan(self, pattern)
        return plan  # not looked up again: another thread may have cleared the plans

    def _set_forward(self, forward: Callable) -> None:
        self.forward = forward
        self.plans.clear()

    def _wrap_outputs(self, ys: Any, node: Node | None, kind: type) -> tuple:
        results = []
        for index, y in enumerate(ys):
            results.append(wrap(y, node and Port(node, index, y), kind))
        if node is not None:
            node.shape = tuple(r._data.shape for r in results)
            node.dtype = tuple(r._data.dtype for r in results)
            node.ports = tuple([weakref.ref(r.node) for r in results])
        return tuple(results)


def primitive(fn: Callable | None = None, *, numpy: Callable | tuple = (), **options: Any) -> Any:
    """Make an op of a forward function; its rules follow with `@op.vjp`.

    Arguments without a default are arrays, those with one are static; `arrays="x w b"` says it
    otherwise. `numpy=` names the NumPy function(s) that mean this op on tensors.
    """
    if fn is None:
        return lambda forward: primitive(forward, numpy=numpy, **options)
    arrays, optional, defaults, variadic = split_signature(fn, options.pop("arrays", None))
    options |= {"optional": optional, "defaults": defaults, "variadic": variadic}
    name = options.pop("name", fn.__name__)
    entry = Primitive(fn, name, arrays, **options)
    entry.__signature__ = inspect.signature(fn)
    registry.register(name, entry)
    for function in numpy if isinstance(numpy, tuple) else (numpy,):
        numpy_table[function] = entry
    return entry


def linear(fn: Callable | None = None, **options: Any) -> Any:
    """An op that is linear in all its arrays together: its jvp is the op on the tangents."""
    return primitive(fn, kind="linear", **options)


def multilinear(fn: Callable | None = None, **options: Any) -> Any:
    """An op that is linear in each of its arrays, the others held (matmul, conv)."""
    return primitive(fn, kind="multilinear", **options)


def elementwise(
    forward: Callable, *, name: str = "", doc: str = "", numpy: Any = (), **partials: Any
) -> Primitive:
    """An op from a NumPy ufunc and its partial derivatives: dx= for x; da=, db= for a and b.

    A partial is a function of what it names. The engine multiplies it by the cotangent (by its
    conjugate for complex numbers), reduces broadcasting and restores the dtype; forward mode uses
    the same partial. One that names `g` gives the product itself. None: that input is a constant.
    """
    arrays = [partial.removeprefix("d") for partial in partials]
    name = name or forward.__name__
    check_partials(name, forward, partials)
    constants = [array for array, p in zip(arrays, partials.values(), strict=True) if p is None]
    entry = Primitive(forward, name, arrays, constants=constants, kind="elementwise")
    entry.__doc__ = doc
    for array, partial in zip(arrays, partials.values(), strict=True):
        if partial is not None:
            entry.rules[array] = entry.checked_rule(partial, partial=True)
    registry.register(entry.name, entry)
    for function in (forward, *(numpy if isinstance(numpy, tuple) else (numpy,))):
        if isinstance(function, np.ufunc):
            numpy_table[function] = entry
    return entry
