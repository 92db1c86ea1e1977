"""Taking the state of a module out, and putting one in: all of it or nothing."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import is_differentiable, resolve_dtype
from ..core import create
from ..core.errors import MinigradError, describe
from ..core.tensor import Tensor
from ..core.versions import note_write
from .parameter import UninitializedParameter


class PathError(MinigradError, AttributeError, KeyError):
    """A module has nothing of this kind at a path."""

    __str__ = Exception.__str__  # KeyError's would quote the message


class Unmatched(NamedTuple):
    """The paths that a module has and a state has not, and those that only the state has."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class ExtraState:
    """Base of Module: state that is no tensor. A subclass defines both or neither."""

    def get_extra_state(self) -> Any:
        """What state_dict is to have of this module besides tensors, as `_extra_state`."""
        raise NotImplementedError(
            f"{type(self).__name__} has a set_extra_state and no get_extra_state; define both"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take what get_extra_state gave; called by load_state_dict, after the tensors."""
        raise NotImplementedError(
            f"{type(self).__name__} has a get_extra_state and no set_extra_state; define both"
        )

    def _has_extra_state(self) -> bool:
        """Whether the class defines one of the two."""
        own = type(self)
        return (
            own.get_extra_state is not ExtraState.get_extra_state
            or own.set_extra_state is not ExtraState.set_extra_state
        )


def copies_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The same names with copies of the tensors, as constants, and what else there is."""
    return {
        path: Tensor(value.data.copy()) if isinstance(value, Tensor) else value
        for path, value in state.items()
    }


def fill(live: Mapping[str, Any], given: Mapping[str, Any], strict: bool, owner: str) -> Unmatched:
    """Write `given` values into the `live` tensors of the same names; what did not match.

    Every fault is found before the first value is written. A module among the live ones is handed
    its extra state.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{owner}.load_state_dict: a state is a dictionary by name, got {describe(given)}; "
            "that of a file is mg.load(path)"
        )
    missing = [path for path in live if path not in given]
    unexpected = [path for path in given if path not in live]
    found = {path: x for path, x in live.items() if path in given}
    extras = {path: x for path, x in found.items() if isinstance(x, ExtraState)}
    values = {path: array_of(given[path]) for path in found if path not in extras}
    faults = [
        f"{path}: {value.dtype} {value.shape} given, {live[path].dtype} {live[path].shape} needed"
        for path, value in values.items()
        if value.shape != live[path].shape
        or not np.can_cast(value.dtype, live[path].dtype, "same_kind")
    ]
    if strict and missing:
        faults.append(f"missing: {', '.join(missing)}")
    if strict and unexpected:
        faults.append(f"unexpected: {', '.join(unexpected)}")
    if faults:
        hint = " (strict=False passes over missing and unexpected names)" if strict else ""
        raise ValueError(f"{owner}.load_state_dict{hint}:\n  " + "\n  ".join(faults))
    for path, value in values.items():
        target = live[path].data
        target[...] = array_module(target).asarray(value)
        note_write(target, f"{owner}.load_state_dict")
    for path, module in extras.items():
        module.set_extra_state(given[path])
    return Unmatched(missing, unexpected)


def at(root: Any, path: str, kind: type, what: str) -> Any:
    """The module, parameter or buffer at a path, by whichever of its paths; PathError if none is.

    A buffer's kind is Tensor, which a module must have registered.
    """
    found = root
    for name in path.split(".") if path else []:
        is_buffer = name in getattr(found, "_buffers", ())
        found = vars(found).get(name) if isinstance(found, ExtraState) else None
        if isinstance(found, Tensor) and is_buffer != (what == "buffer"):
            found = None
    if not isinstance(found, kind):
        paths = [name for name, _ in getattr(root, f"named_{what}s")() if name]
        raise PathError(f"{type(root).__name__} has nothing at {path!r}; its {what}s are {paths}")
    return found


def array_of(value: Any) -> Any:
    """A value of a state as an array: a tensor's, PyTorch's too, an array itself, or numbers."""
    if isinstance(value, Tensor):
        return value.data
    if hasattr(value, "detach"):  # PyTorch's
        value = value.detach().cpu()
        value = (value.float() if "bfloat16" in str(value.dtype) else value).numpy()
    return value if hasattr(value, "dtype") else np.asarray(value)


def moved(tensor: Tensor, device: str | None, dtype: Any) -> None:
    """Give a tensor and its gradient another device, and, if it is floating, another dtype."""
    if isinstance(tensor, UninitializedParameter):
        return tensor.move(device, dtype)
    for x in (tensor, tensor.grad):
        if x is not None:
            kind = resolve_dtype(dtype) if is_differentiable(x.dtype) else None
            x.data = create.as_tensor(x.detach(), dtype=kind or x.dtype, device=device).data
    if tensor.requires_grad:
        tensor.node.dtype = tensor.dtype  # what a gradient that arrives will have
