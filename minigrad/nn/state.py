"""Taking the state of a module out, and putting one in: all of it or nothing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..backends import device
from ..backends.device import array_module, device_of, plain_array, to_device
from ..backends.dtypes import is_differentiable, resolve_dtype
from ..engine.errors import MinigradError, describe
from ..engine.versions import note_write
from ..errors import StateError
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from .parameter import Parameter, UninitializedParameter


class PathError(MinigradError, AttributeError, KeyError):
    """A module has nothing of this kind at a path.

    path    what was asked for
    known   the paths that there are
    """

    path: str | None = None
    known: tuple[str, ...] | None = None
    __str__ = Exception.__str__  # KeyError's would quote the message


class Unmatched(NamedTuple):
    """The paths that a module has and a state has not, and those that only the state has."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class ExtraState:
    """Base of Module: state that is not a tensor. A subclass defines both or neither."""

    def get_extra_state(self) -> Any:
        """Further state of this module for state_dict, as `_extra_state`."""
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


class ModuleState(ExtraState):
    """Base of Module: its saved state, and how it loads one."""

    _buffers: tuple[str, ...] = ()
    _transient: tuple[str, ...] = ()  # buffers that state_dict leaves out

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """{path: tensor} of parameters and buffers: copies, so later training leaves them alone.

        The result of a module's get_extra_state is at `_extra_state` below its path. With
        keep_vars=True the values are the live tensors themselves. `prefix` stands before every
        path; `destination` is a dict to write into, and is what is returned.
        """
        modules = self._by_path()
        for path, module, fn in _hooks_of(modules, "state_dict_pre"):
            fn(module, start(prefix + path), keep_vars)
        found: dict[str, Any] = {}
        for path, value in _state_of(modules).items():
            if isinstance(value, ModuleState):
                value = value.get_extra_state()
            elif not keep_vars:
                value = Tensor(value.data.copy())
            found[prefix + path] = value
        for path, module, fn in _hooks_of(modules, "state_dict_post"):
            fn(module, found, start(prefix + path), {})
        if destination is None:
            return found
        destination.update(found)
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Unmatched:
        """Write the values of a state_dict into this module.

        Returns the paths that did not match, as (missing_keys, unexpected_keys). With assign=True
        the parameters and buffers, which stay the same objects, take the arrays of the state, with
        their dtypes and devices, and have no gradient. Read-only arrays are copied.

        A lazy module becomes the layer whose weight has the shape in the state. Missing or
        unexpected paths (unless strict=False) and wrong shapes raise ValueError, which lists all
        of them; nothing is written then. Only where a post hook may strike paths from what did not
        match is that known after it.
        """
        owner, modules = type(self).__name__, self._by_path()
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"{owner}.load_state_dict: a state is a dictionary by name, got "
                f"{describe(state_dict)}; that of a file is mg.load(path)"
            )
        state, unmatched, faults = dict(state_dict), Unmatched([], []), list[str]()
        for path, module, fn in _hooks_of(modules, "load_state_dict_pre"):
            fn(module, state, start(path), {}, strict, *unmatched, faults)
        layers = {id(module): module for module in modules.values()}
        for path, module in modules.items():
            if layers[id(module)] is module:  # a lazy one may have several paths
                layers[id(module)] = module._layer_in(state, start(path))
        live = _state_of({path: layers[id(module)] for path, module in modules.items()})
        unmatched.missing_keys.extend([path for path in live if path not in state])
        unmatched.unexpected_keys.extend([path for path in state if path not in live])
        after = _hooks_of(modules, "load_state_dict_post")
        _refuse(owner, [*faults, *_faults(live, state, assign)], unmatched, strict, not after)
        fill(live, state, owner, assign)
        for module in {id(module): module for module in modules.values()}.values():
            if layers[id(module)] is not module:
                module._become(layers[id(module)])
        for _, module, fn in after:
            fn(module, unmatched)
        _refuse(owner, [], unmatched, strict)
        return unmatched

    def _by_path(self) -> dict[str, Any]:
        return dict(self.named_modules(remove_duplicate=False))  # type: ignore[attr-defined]

    def _layer_in(self, state: Mapping[str, Any], prefix: str) -> Any:
        """The module itself; for a lazy one the layer whose arrays the state has under `prefix`."""
        return self

    def _become(self, layer: Any) -> None:
        """Turn a lazy module into its layer."""
        raise NotImplementedError(f"{type(self).__name__} is not lazy")


def join(path: str, name: str) -> str:
    """The path of what a module at `path` calls `name`."""
    return f"{path}.{name}" if path else name


def start(path: str) -> str:
    """The prefix of the names in a module at `path`."""
    return f"{path.removesuffix('.')}." if path else ""


def _state_of(modules: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter and persistent buffer under each of its paths, as it lives.

    Those of one module in PyTorch's order: parameters, buffers, and the module itself at the path
    of its extra state.
    """
    state: dict[str, Any] = {}
    for path, module in modules.items():
        own = vars(module)
        for name, value in own.items():
            if isinstance(value, Parameter):
                state[join(path, name)] = value
        for name in module._buffers:
            if name not in module._transient and own.get(name) is not None:
                state[join(path, name)] = own[name]
        if module._has_extra_state():
            state[join(path, "_extra_state")] = module
    return state


def _hooks_of(modules: Mapping[str, Any], kind: str) -> list[tuple[str, Any, Callable]]:
    """(path, module, hook) of a kind; hooks after the fact of what is below a module first."""
    found = [
        (path, module, [hook.fn for hook in module._hooks if hook.kind == kind])
        for path, module in modules.items()
        if module._hooks
    ]
    if kind.endswith("post"):
        found.reverse()
    return [(path, module, fn) for path, module, fns in found for fn in fns]


def _faults(live: Mapping[str, Any], given: Mapping[str, Any], assign: bool) -> list[str]:
    """What of the `given` values cannot be written into the `live` tensors of the same names."""
    faults = []
    for path, x in live.items():
        if path in given and isinstance(x, Tensor):
            value = array_of(given[path])
            fits = np.can_cast(value.dtype, x.dtype, "same_kind")
            if assign:
                fits = is_differentiable(value.dtype) or not x.requires_grad
            if value.shape != x.shape or not fits:
                had = f"{value.dtype} {value.shape}"
                faults.append(f"{path}: {had} given, {x.dtype} {x.shape} needed")
    return faults


def _refuse(
    owner: str, faults: list[str], unmatched: Unmatched, strict: bool, known: bool = True
) -> None:
    """StateError with a list of everything wrong; `known`: unmatched names stay unmatched."""
    unfit = tuple([fault.partition(": ")[0] for fault in faults])
    if strict and (known or faults):
        for what, paths in zip(("missing", "unexpected"), unmatched, strict=True):
            faults += [f"{what}: {', '.join(paths)}"] * bool(paths)
    if faults:
        hint = " (strict=False passes over missing and unexpected names)" if strict else ""
        raise StateError(
            f"{owner}.load_state_dict{hint}:\n  " + "\n  ".join(faults),
            missing=tuple(unmatched.missing_keys), unexpected=tuple(unmatched.unexpected_keys),
            unfit=unfit,
        )  # fmt: skip


def fill(live: Mapping[str, Any], given: Mapping[str, Any], owner: str, assign: bool) -> None:
    """Write `given` values into the `live` tensors of the same names, or assign their arrays.

    A module among the live ones is handed its extra state, after the tensors.
    """
    found = {path: x for path, x in live.items() if path in given}
    for path, x in found.items():
        if isinstance(x, Tensor):
            value = array_of(given[path])
            if assign:
                x.grad, x.data = None, _own(value)
            else:
                with device.at(x.data):
                    x.data[...] = to_device(value, device_of(x.data))
                note_write(x.data, f"{owner}.load_state_dict")
    for path, module in found.items():
        if not isinstance(module, Tensor):
            module.set_extra_state(given[path])


def _own(value: Any) -> Any:
    """An array that a tensor can keep: a copy if it is read-only, such as a memory map opened for
    reading, or another library's.
    """
    if array_module(value) is np and not (isinstance(value, np.ndarray) and value.flags.writeable):
        return np.array(value)
    return value


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
        raise PathError(
            f"{type(root).__name__} has nothing at {path!r}; its {what}s are {paths}",
            path=path, known=tuple(paths),
        )  # fmt: skip
    return found


def require_name(module: Any, name: Any, what: str) -> None:
    """KeyError for a name made in code by which nothing could be found, or a method no more."""
    if not isinstance(name, str) or not name or "." in name or hasattr(type(module), name):
        raise KeyError(
            f"{type(module).__name__}: {name!r} cannot be a {what}: choose a string with no '.', "
            "that is not an attribute of Module"
        )


def require_entry(module: Any, name: Any, value: Any, kind: type, what: str) -> None:
    """An error for a name, or a value, that cannot be registered as one of this kind."""
    require_name(module, name, what)
    held = vars(module).get(name)
    if isinstance(held, Tensor | ExtraState) and not isinstance(held, kind):
        raise KeyError(
            f"{type(module).__name__}.{name} is a {type(held).__name__} now, which a {what} would "
            f"take the place of; delete it first: del module.{name}"
        )
    require_kind(module, name, value, kind, what)


def require_kind(module: Any, name: str, value: Any, kind: type, what: str) -> None:
    """TypeError unless the value is one of this kind, or None, which holds its place."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(
            f"{type(module).__name__}.{name} is a {what}: it can be None or a {kind.__name__}, got "
            f"{describe(value)}, a {type(value).__name__}, which would be neither moved nor saved "
            f"as one. {_MADE[what]}"
        )


_MADE = {
    "buffer": "mg.tensor(value) makes one",
    "parameter": "nn.Parameter(value.detach()) makes one of a tensor's values",
    "module": "A class that derives from nn.Module makes one of a function: it calls it in forward",
}


def array_of(value: Any) -> Any:
    """A value of a state as an array: a tensor's, PyTorch's too, an array itself, or numbers."""
    if isinstance(value, Tensor):
        return value.data
    if hasattr(value, "detach"):  # PyTorch's
        value = plain_array(value.detach().cpu())
    return value if hasattr(value, "dtype") else np.asarray(value)


def move(
    owner: str, tensors: Iterable[Tensor], device: str | None, dtype: Any, floating: bool = True
) -> None:
    """Move the tensors of a module; TypeError for a dtype in which nothing can be learned.

    With floating=False those of integers get the dtype too.
    """
    kind = resolve_dtype(dtype)
    if kind is not None and not is_differentiable(kind):
        raise TypeError(
            f"{owner}.to({kind}): parameters are floating or complex, and {kind} would cut off "
            "their values; to(mg.float16) or to(mg.bfloat16) takes less memory"
        )
    for tensor in tensors:
        if isinstance(tensor, UninitializedParameter):
            tensor.move(device, kind)
        else:
            learned = not floating or is_differentiable(tensor.dtype)
            _move_values(tensor, device, kind if learned else None)


def _move_values(tensor: Tensor, device: str | None, dtype: Any) -> None:
    """Those of the gradient, too."""
    for x in (tensor, tensor.grad):
        if x is not None:
            x.data = create.as_tensor(x.detach(), dtype=dtype or x.dtype, device=device).data
