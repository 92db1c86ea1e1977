"""Taking the state of a module out, and putting one in: all of it or nothing."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import is_differentiable, resolve_dtype
from ..core import create
from ..core.tensor import Tensor
from ..core.versions import note_write
from .parameter import UninitializedParameter


class Unmatched(NamedTuple):
    """The paths that a module has and a state has not, and those that only the state has."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def copies_of(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same names with copies of the values, as constants."""
    return {path: Tensor(tensor.data.copy()) for path, tensor in state.items()}


def fill(
    live: Mapping[str, Tensor], given: Mapping[str, Any], strict: bool, owner: str
) -> Unmatched:
    """Write `given` values into the `live` tensors of the same names; what did not match.

    Every fault is found before the first value is written.
    """
    missing = [path for path in live if path not in given]
    unexpected = [path for path in given if path not in live]
    values = {path: array_of(given[path]) for path in live if path in given}
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
    return Unmatched(missing, unexpected)


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
