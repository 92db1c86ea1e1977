"""Base of optimizers: groups of parameters with options, state by parameter, the step."""

import difflib
import reprlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..backends.device import array_module, at, device_of, plain_array, to_device
from ..engine.errors import describe
from ..engine.events import capture_origin
from ..engine.versions import note_write
from ..modes.recording import enable_grad
from ..modes.scopes import spanned
from ..nn.parameter import UninitializedParameter, zero_grads
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from .arguments import loads_whole, number_of, require_state, takes_implementations, unzipped
from .hooks import OptimizerHooks, hooked
from .packs import (
    Pack,
    State,
    any_lost,
    grouped,
    scratch,
    step_alone,
    step_by_kernels,
    warn_of_loss,
    working,
    working_dtype,
)

Group = dict[str, Any]


class Optimizer(OptimizerHooks):
    """Base of optimizers. A subclass gives `update`, which changes an array in place.

    A step warns if parameters on the host hold NaN or infinite numbers after it. Of large
    parameters each step checks a part, all of it in turn. A subclass may define `step` itself
    instead, as PyTorch's do, and keep what it likes in `state`.

    params         parameters, (name, parameter) pairs, or dicts {"params": [...], "lr": ...} that
                   set their own options; other entries are kept ("name": "head")
    param_groups   the groups as dicts; options may be changed between steps (a schedule sets "lr")
    state          {parameter: {name: array or number}}, made at the first step

    With the option maximize the negative gradient is taken. The step treats 16-bit parameters in
    float32, and complex ones as pairs of real numbers; their states have these forms too.

    PyTorch's foreach=, fused= and capturable=, which choose an implementation there, are taken by
    every optimizer and have no effect, as does differentiable=False.
    """

    _lost, _turn = False, 0  # whether the last step left NaN or ∞, and has said so; its number
    elementwise = True  # else `update` needs a parameter as a whole: no blocks, packs or kernels

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = takes_implementations(cls.__init__)  # type: ignore[method-assign]
        for name in ("step", "state_dict", "load_state_dict"):
            if name in vars(cls):
                setattr(cls, name, hooked(vars(cls)[name]))

    def __init__(self, params: Iterable, defaults: dict[str, Any]):
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self._state: defaultdict[Tensor, State] = defaultdict(dict)  # a tensor's hash is its id
        self._packs: dict[int, tuple] = {}  # by place of the group: (ids, packs and single ones)
        if not hasattr(params, "__iter__"):  # a model, or its method that was not called
            raise TypeError(f"{type(self).__name__}: params is {params!r}; pass model.parameters()")
        entries: list[Any] = [params] if isinstance(params, Tensor | Mapping) else list(params)
        if not entries:
            raise ValueError(
                f"{type(self).__name__} got no parameters to optimise; what model.parameters() "
                "gives can be read once: call it anew, or keep list(model.parameters()). Of a "
                "module they are its attributes that are nn.Parameter(...), not tensors or lists"
            )
        if not isinstance(entries[0], Mapping):
            entries = [{"params": entries}]
        for entry in entries:
            self.add_param_group(entry)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Optimise more parameters: {"params": [...]} and the options that differ."""
        name, group = type(self).__name__, param_group
        if "params" not in group:
            raise TypeError(
                f"{name}: a group is a dict with its parameters under 'params'; got one of "
                f"{[*group][:3]}. Of a model pass model.parameters(), not its state_dict()"
            )
        params, names = unzipped(name, group["params"])
        if self.param_groups and bool(names) != ("param_names" in self.param_groups[0]) and params:
            raise ValueError(f"{name}: either all groups are of (name, parameter) pairs or none")
        for key in group.keys() - self.defaults.keys():
            like = difflib.get_close_matches(key, self.defaults, 1, 0.85)
            if like:  # else it is the script's own, as "name" or "lr_scale"
                raise TypeError(f"{name} has no option {key!r}; it has {like[0]!r}")
        taken = {id(p) for other in self.param_groups for p in other["params"]}
        for i, p in enumerate(params):
            if not isinstance(p, Tensor):
                kind = f"{type(p).__module__}.{type(p).__name__}".removeprefix("builtins.")
                raise TypeError(
                    f"{name}: params[{i}] is a {kind}, not a tensor of minigrad's; pass "
                    "model.parameters()"
                )
            if isinstance(p, UninitializedParameter):
                raise p.error(f"{name}: params[{i}]")
            if not p.is_leaf:
                raise ValueError(
                    f"{name}: params[{i}] is the result of {p.node!r}; only leaves can be "
                    "optimised, results follow from them"
                )
            if id(p) in taken:
                raise ValueError(f"{name}: params[{i}] is given twice; it would be stepped twice")
            taken.add(id(p))
        options = {**self.defaults, **group, "params": params}
        options |= {"param_names": names} if names else {}
        # tensors of one number are read here once
        options |= {key: number_of(options[key]) for key in self.defaults}
        self.param_groups.append(options)

    @property
    def state(self) -> defaultdict[Tensor, State]:
        """{parameter: {name: array or number}}, as it lives; empty for one not stepped yet.

        16-bit and complex parameters' arrays have the forms in which they are stepped. Changes here
        hold from the next step on; read the state anew after a step.
        """
        self._packs.clear()  # they would go on with what they have
        return self._state

    @state.setter
    def state(self, state: Mapping[Tensor, State]) -> None:
        self._packs.clear()
        self._state = defaultdict(dict, state)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or set it to zeros with set_to_none=False."""
        zero_grads(self._params(), set_to_none, f"{type(self).__name__}.zero_grad()")

    # -- the step ----------------------------------------------------------------------------

    @hooked
    @spanned("optimizer")
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, in place; the gradients stay as they are.

        closure, if given, computes the loss and its gradients anew first; its loss is returned.
        """
        loss, what, origin = None, f"{type(self).__name__}.step()", capture_origin()
        if closure is not None:
            if not callable(closure):
                raise TypeError(
                    f"{type(self).__name__}.step takes a function that computes the loss, or "
                    f"nothing; got {describe(closure)}. loss.backward() first, then step()"
                )
            with enable_grad():
                loss = closure()
        stepped: list[Any] = []
        for place, group in enumerate(self.param_groups):
            ready = [p for p in group["params"] if p.grad is not None]
            for p in ready:
                self._advance(p, group)
            update = self._update_in(group)
            alone = []
            for params in self._together(place, ready):
                if isinstance(params, Pack):
                    with at(params.x):
                        params.step(update)
                    stepped.append(params.x)
                else:
                    job = working(params.data), working(params.grad.data), self._state[params]
                    alone.append(job)
            left = step_by_kernels(update, alone) if self.elementwise else alone
            for x, g, state in left:
                with at(x):
                    step_alone(update, x, g, state, self.elementwise)
                stepped.append(x)
            for p in ready:
                note_write(p.data, what, origin)
        lost = any_lost(stepped, self._turn)
        if lost and not self._lost:
            warn_of_loss(what)
        self._lost, self._turn = lost, self._turn + 1
        return loss

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the arrays that a parameter's state holds; they start at `start`."""
        return ()

    def start(self, name: str, group: Mapping[str, Any]) -> float:
        """The value with which a state array is filled at first."""
        return 0.0

    def shape(self, name: str, x: Any) -> tuple[int, ...] | None:
        """The shape of a state array of a parameter x; None where such a parameter has none."""
        return x.shape

    def advance(self, state: State, group: Mapping[str, Any]) -> None:
        """Bring the numbers of a parameter's state forward, once a step."""
        state["step"] = state.get("step", 0) + 1

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        """Change x in place, and the state's arrays, from the gradient g, which stays as it is.

        Where the class is elementwise, x may be a block of a parameter, or several parameters side
        by side; else it is a parameter.
        """
        raise NotImplementedError

    def _advance(self, p: Tensor, group: Group) -> None:
        state = self._state[p]
        for name in self.buffers(group):
            if name not in state:
                x, value = working(p.data), self.start(name, group)
                shape = self.shape(name, x)
                if shape is not None:
                    with at(x):
                        state[name] = array_module(x).full(shape, value, working_dtype(x))
                    self._packs.clear()
        self.advance(state, group)

    def _together(self, place: int, ready: list[Tensor]) -> list:
        """The group's packs, kept for as long as the same parameters have gradients."""
        key = [(id(p), id(p.data)) for p in ready]
        known = self._packs.get(place)
        if known is None or known[0] != key:
            made: list[Any] = []
            for p in ready:
                self._follow(p)
            # states of a pack share their numbers: the count of steps, and what follows from it
            alike = ready if self.elementwise else []
            for params in grouped(alike, lambda p: _numbers(self._state[p])):
                if len(params) > 1:
                    with at(params[0].data):
                        made.append(Pack(params, [self._state[p] for p in params]))
                    made[-1].adopt()
                else:
                    made.append(params[0])
            known = self._packs[place] = (key, made if self.elementwise else ready)
        return known[1]

    def _follow(self, p: Tensor) -> None:
        """Bring the arrays of the parameter's state to where it lies: it may have been moved."""
        state = self._state[p]
        for name, value in state.items():
            if hasattr(value, "shape") and not isinstance(value, Tensor):
                if device_of(value) != p.device:
                    state[name] = to_device(value, p.device)

    def _update_in(self, group: Group) -> Callable:
        """`update` with the options of a group."""

        def update(x: Any, g: Any, state: State) -> None:
            if group.get("maximize"):
                g = np.negative(g, out=scratch(g, 9))
            self.update(x, g, state, group)

        return update

    # -- saving ------------------------------------------------------------------------------

    @hooked
    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: {...}}, "param_groups": [...]}, parameters by their place; copies."""
        params = self._params()
        index = {id(p): i for i, p in enumerate(params)}
        groups = [
            {**group, "params": [index[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {
            i: {name: _copied(value) for name, value in self._state[p].items()}
            for i, p in enumerate(params)
            if p in self._state
        }
        return {"state": state, "param_groups": groups}

    @hooked
    @loads_whole
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state, PyTorch's too; groups must have the sizes that they had.

        A state is that of the parameter at the place where the saved groups name it.
        """
        owner, name = type(self).__name__, f"{type(self).__name__}.load_state_dict"
        require_state(owner, state_dict, "state", "param_groups")
        for saved in state_dict["param_groups"]:
            require_state(owner, saved, "params")
        sizes = [len(group["params"]) for group in self.param_groups]
        given = [len(group["params"]) for group in state_dict["param_groups"]]
        if sizes != given:
            raise ValueError(
                f"{name}: groups of {given} parameters given, groups of {sizes} needed"
            )
        pairs = zip(self.param_groups, state_dict["param_groups"], strict=True)
        merged = [
            {**group, **{k: number_of(v) for k, v in saved.items()}, "params": group["params"]}
            for group, saved in pairs
        ]
        names = [i for saved in state_dict["param_groups"] for i in saved["params"]]
        places = [(p, group) for group in merged for p in group["params"]]
        # by text: a file of JSON has made texts of numbers that are keys
        named = dict(zip(map(str, names), places, strict=True))
        states: defaultdict[Tensor, State] = defaultdict(dict)
        for i, saved in state_dict["state"].items():
            if str(i) not in named:
                raise ValueError(
                    f"{name}: a state of parameter {i}, and there are {len(names)}, called "
                    f"{reprlib.repr(names)} in the groups"
                )
            p, group = named[str(i)]
            states[p] = {
                key: self._loaded(key, value, p, group, f"{name}: {key} of parameter {i}")
                for key, value in saved.items()
                if value is not None
            }
            if type(self).update is not Optimizer.update:  # it has no own step
                # PyTorch's SGD does not count, but has begun where there is a buffer
                states[p].setdefault("step", 1 if states[p] else 0)
        for group, new in zip(self.param_groups, merged, strict=True):
            group.update(new)
        self._state = states
        self._packs.clear()

    def _loaded(self, key: str, value: Any, p: Tensor, group: Group, what: str) -> Any:
        """One entry of a saved state: an array as the parameter needs it, or a number.

        Other entries, which a subclass keeps for its `step`, stay as they are.
        """
        if isinstance(value, Tensor):
            if key not in self.buffers(group):
                return create.tensor(value, device=p.device)
            value = value.data
        elif hasattr(value, "detach"):  # PyTorch's
            value = plain_array(value.detach().cpu())
        if not hasattr(value, "shape"):
            if key in self.buffers(group):
                raise TypeError(f"{what} is {describe(value)}, and has to be an array")
            return value
        if not value.shape and key not in self.buffers(group):  # PyTorch's numbers are tensors
            return int(value) if key == "step" else float(value)
        x, value = working(p.data), to_device(value, p.device)
        xp = array_module(x)
        if p.data.dtype.kind == "c" and value.shape == p.shape:  # PyTorch's stay complex
            value = working(xp.asarray(value, order="C"))
        if key not in self.buffers(group):
            return xp.array(value)
        shape = self.shape(key, x)
        if value.shape != shape:
            raise ValueError(f"{what} has shape {tuple(value.shape)}, not {shape} as it needs")
        return xp.array(value, working_dtype(x))

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_packs": {}, "_hooks": (), "_running": frozenset()}

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            options = ", ".join(f"{name}={group[name]}" for name in self.defaults)
            lines.append(f"  group {i}: {len(group['params'])} parameters, {options}")
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


# -- what updates share ------------------------------------------------------------------------


def decayed(x: Any, g: Any, group: Mapping[str, Any]) -> Any:
    """g + weight_decay·x, in scratch memory; g itself where there is no decay."""
    if not group["weight_decay"]:
        return g
    d = np.multiply(x, group["weight_decay"], out=scratch(x, 8))
    d += g
    return d


def average(m: Any, value: Any, beta: float, work: Any) -> None:
    """m ← beta·m + (1 − beta)·value, in place; work is scratch memory and may be value."""
    m *= beta
    m += np.multiply(value, 1 - beta, out=work)


def average_square(v: Any, g: Any, beta: float, work: Any) -> None:
    """v ← beta·v + (1 − beta)·g², in place."""
    average(v, np.multiply(g, g, out=work), beta, work)


def step_by_ratio(x: Any, d: Any, size: Any, rate: float, eps: float) -> None:
    """x ← x − rate·d / (size + eps), in place; size is scratch memory."""
    size += eps
    np.divide(d, size, out=size)
    size *= rate
    x -= size


def _numbers(state: State) -> tuple:
    return tuple([value for value in state.values() if not hasattr(value, "shape")])


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor(value.data.copy())
    return value.copy() if hasattr(value, "shape") else value
