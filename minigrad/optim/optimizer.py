"""What optimizers share: groups of parameters with options, state by parameter, the step."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..backends.device import array_module
from ..core.tensor import Tensor
from ..core.versions import note_write


class Optimizer:
    """Base of optimizers. A subclass gives `update`, which changes one parameter in place.

    params         parameters, or dicts {"params": [...], "lr": ...} that set options of their own
    param_groups   the groups as dicts; options may be changed between steps (a schedule sets "lr")
    """

    def __init__(self, params: Iterable, defaults: dict[str, Any]):
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._state: dict[int, dict[str, Any]] = {}  # by id: tensors compare elementwise
        self._scratch: dict[Any, Any] = {}
        entries: list[Any] = [params] if isinstance(params, Tensor | Mapping) else list(params)
        if not entries:
            raise ValueError(f"{type(self).__name__} got no parameters to optimise")
        if not isinstance(entries[0], Mapping):
            entries = [{"params": entries}]
        for entry in entries:
            self.add_param_group(entry)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimise more parameters: {"params": [...]} and the options that differ."""
        name = type(self).__name__
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        unknown = group.keys() - self.defaults.keys() - {"params"}
        if unknown:
            raise TypeError(
                f"{name} has no option {sorted(unknown)}; its options are {[*self.defaults]}"
            )
        taken = {id(p) for other in self.param_groups for p in other["params"]}
        for i, p in enumerate(params):
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"{name}: params[{i}] is a {type(p).__name__}, not a tensor; pass "
                    "model.parameters()"
                )
            if not p.is_leaf:
                raise ValueError(
                    f"{name}: params[{i}] is the result of {p.node!r}; only leaves can be "
                    "optimised, results follow from them"
                )
            if id(p) in taken:
                raise ValueError(f"{name}: params[{i}] is given twice; it would be stepped twice")
            taken.add(id(p))
        self.param_groups.append({**self.defaults, **group, "params": params})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or set it to zeros with set_to_none=False."""
        for p in self._params():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.data[...] = 0
                note_write(p.grad.data, f"{type(self).__name__}.zero_grad()")

    def step(self) -> None:
        """Change every parameter that has a gradient, in place; the gradients stay as they are."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p.data, p.grad.data, self._state.setdefault(id(p), {}), group)
                    note_write(p.data, f"{type(self).__name__}.step()")

    def update(self, x: Any, g: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """Change the array x in place, from its gradient g, its state and its group's options."""
        raise NotImplementedError

    def scratch(self, x: Any, which: int = 0) -> Any:
        """An array like x for intermediate results; parameters take turns in the same memory."""
        key = (x.dtype, which, array_module(x))
        if key not in self._scratch or self._scratch[key].size < x.size:
            self._scratch[key] = array_module(x).empty(x.size, x.dtype)
        return self._scratch[key][: x.size].reshape(x.shape)

    # -- saving ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: {...}}, "param_groups": [...]}, parameters by their place; copies."""
        params = self._params()
        index = {id(p): i for i, p in enumerate(params)}
        groups = [
            {**group, "params": [index[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {
            i: {name: _copied(value) for name, value in self._state[id(p)].items()}
            for i, p in enumerate(params)
            if id(p) in self._state
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state; the groups must have the sizes that they had."""
        sizes = [len(group["params"]) for group in self.param_groups]
        given = [len(group["params"]) for group in state_dict["param_groups"]]
        if sizes != given:
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: groups of {given} parameters given, "
                f"groups of {sizes} needed"
            )
        params = self._params()
        for i, state in state_dict["state"].items():
            for name, value in state.items():
                shape = getattr(value, "shape", params[int(i)].shape)
                if shape != params[int(i)].shape:
                    raise ValueError(
                        f"{type(self).__name__}.load_state_dict: {name} of parameter {i} has "
                        f"shape {shape}, the parameter {params[int(i)].shape}"
                    )
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({name: saved[name] for name in saved if name != "params"})
        self._state = {
            id(params[int(i)]): {name: _copied(value) for name, value in state.items()}
            for i, state in state_dict["state"].items()
        }

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            options = ", ".join(f"{name}={group[name]}" for name in self.defaults)
            lines.append(f"  group {i}: {len(group['params'])} parameters, {options}")
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


def at_least_zero(owner: str, **options: float) -> None:
    """Refuse negative (and NaN) options by name."""
    for name, value in options.items():
        if not value >= 0:
            raise ValueError(f"{owner}: {name} must be 0 or more, got {value}")


def _copied(value: Any) -> Any:
    return value.copy() if hasattr(value, "shape") else value
