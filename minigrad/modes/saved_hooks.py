"""saved_tensors_hooks: keep what nodes save in another form until the backward needs it.

Made of it: save_on_disk, save_on_cpu, and allow_mutation_on_saved_tensors, which keeps copies.
"""

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np

from ..backends.device import to_device, to_host
from ..backends.leaving import left_always
from ..backends.memory_order import in_memory_order
from ..engine import modes, versions
from ..engine.errors import about, describe
from ..engine.graph import raw
from ..errors import HookError
from ..tensor_api.tensor import Tensor
from .recording import decorated
from .saving import Deferred, Saver

__all__ = [
    "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "save_on_cpu", "save_on_disk",
    "saved_tensors_hooks",
]  # fmt: skip


class saved_tensors_hooks(Saver):
    """with saved_tensors_hooks(pack, unpack): arrays that nodes save inside are kept as
    pack(tensor).

    pack(tensor) returns any object; unpack(object) gives back a tensor of the same shape and dtype
    when a backward needs it, each time it does. Of nested ones the innermost is used. A saved array
    may be a mask or an index too. Half the memory of float32 numbers, the others as they are:

        pack=lambda x: (x.dtype, x.astype("float16") if x.dtype == "float32" else x)
        unpack=lambda kept: kept[1].astype(kept[0])
    """

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]):
        self.pack = pack
        self.unpack = unpack

    def __enter__(self) -> "saved_tensors_hooks":
        if modes.state.no_hooks is not None:
            raise RuntimeError(modes.state.no_hooks)
        super().__enter__()
        return self

    def take(self, node: Any, y: Any, args: tuple) -> None:
        """Pack the arrays of a node, unless hooks further in have them already."""
        if type(node.saved) is tuple:
            node.saved = _Packed(node, self.pack, self.unpack)


class _Packed(Deferred):
    """The saved values of one node with its arrays packed away."""

    __slots__ = ("number", "op", "names", "values", "unpack")

    def __init__(self, node: Any, pack: Callable, unpack: Callable):
        super().__init__(node)
        self.number = node.number
        self.op = node.op.name
        self.names = node.plan.names
        self.unpack = unpack
        self.values = [_mapped(value, lambda x: _Entry(x, pack)) for value in node.saved]

    def __iter__(self) -> Iterator:
        for name, value in zip(self.names, self.values, strict=True):
            yield _mapped(value, lambda entry, name=name: self._unpacked(entry, name))

    def _unpacked(self, entry: "_Entry", name: str) -> Any:
        try:
            array = raw(self.unpack(entry.packed))
        except StopIteration as error:  # it would end the loop over the saved values
            raise HookError(
                f"saved_tensors_hooks: unpack raised StopIteration for the saved {name!r} of "
                f"{self.op}; catch it there"
            ) from error
        if getattr(array, "shape", None) != entry.shape or array.dtype != entry.dtype:
            raise HookError(
                f"saved_tensors_hooks: unpack returned {describe(array)} for the saved {name!r} of "
                f"{self.op}, which was {entry.dtype} {entry.shape}",
                **about(entry, array),
            )
        versions.refuse_if_changed(array, self.number, self.op, name)
        return in_memory_order(array, entry.strides)


class _Entry:
    """One packed array, with the shape and dtype that unpack has to give back.

    Its strides are kept as well: rules add up in memory order, so a copy in another order would
    change a gradient's last bits.
    """

    __slots__ = ("packed", "shape", "dtype", "strides")

    def __init__(self, array: Any, pack: Callable):
        self.shape, self.dtype, self.strides = array.shape, array.dtype, array.strides
        shown = array.view()
        if isinstance(shown, np.ndarray):
            shown.flags.writeable = False  # others hold the same memory
        self.packed = pack(Tensor(shown))


def _mapped(value: Any, fn: Callable) -> Any:
    """fn of an array, an entry, or each in a tuple or list; anything else as it is."""
    if isinstance(value, tuple | list) and any(map(_is_kept, value)):
        return type(value)([fn(part) if _is_kept(part) else part for part in value])
    return fn(value) if _is_kept(value) else value


def _is_kept(value: Any) -> bool:
    return isinstance(value, _Entry) or hasattr(value, "strides") and hasattr(value, "view")


class disable_saved_tensors_hooks:
    """with disable_saved_tensors_hooks(message): entering saved_tensors_hooks is a RuntimeError.

    Its text is the message. So is entering this block inside of saved_tensors_hooks. For this
    thread; also a decorator. mg.checkpoint, which packs nothing, goes on.
    """

    def __init__(self, error_message: str):
        if not isinstance(error_message, str):
            raise TypeError(
                "disable_saved_tensors_hooks takes the text of the error that saved_tensors_hooks "
                f"raises inside, got {describe(error_message)}"
            )
        self.error_message = error_message
        self._outer = modes.Outer()

    def __enter__(self) -> None:
        if any(isinstance(saver, saved_tensors_hooks) for saver in modes.state.saving):
            raise RuntimeError(self.error_message)
        self._outer.enter({"no_hooks": self.error_message})

    @left_always(attrgetter("_outer.depth"))
    def __exit__(self, *exc: object) -> None:
        self._outer.leave()

    def __call__(self, fn: Callable) -> Callable:
        return decorated(fn, lambda: type(self)(self.error_message))


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """with allow_mutation_on_saved_tensors(): tensors that nodes need may be changed afterwards.

    Saved arrays inside are kept as copies, so the gradients are those of the values at the call.
    These may be overwritten in any way: `x += 1`, x[i] = v, an optimizer's step, NumPy's memory.
    The copies take memory until the backward, which may come after the block.
    """

    def __init__(self) -> None:
        super().__init__(lambda x: x.data.copy(order="K"), lambda copy: copy)


class save_on_cpu(saved_tensors_hooks):
    """with save_on_cpu(): arrays on a GPU that nodes save are kept on the host.

    They are copied back when a backward needs them. pin_memory=True keeps them in page-locked
    memory, to and from which copies are faster. Arrays on the host stay as they are.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        if device_type != "cuda":
            raise ValueError(f"save_on_cpu: device_type is 'cuda', got {device_type!r}")
        self.pin_memory = pin_memory
        super().__init__(self._to_host, lambda kept: to_device(*kept))

    def _to_host(self, x: Tensor) -> Any:
        into = None
        if self.pin_memory and x.device != "cpu":
            import cupyx

            into = cupyx.empty_pinned(x.shape, x.dtype)
        return to_host(x.data, into), x.device


class save_on_disk(saved_tensors_hooks):
    """with save_on_disk("/scratch"): arrays of at least `min_bytes` that nodes save go to files.

    They are read back when a backward needs them, and removed with the graph.
    """

    def __init__(self, directory: str | os.PathLike | None = None, min_bytes: int = 1 << 16):
        self.directory = directory
        self.min_bytes = min_bytes
        super().__init__(self._write, lambda kept: kept.read() if type(kept) is _File else kept)

    def _write(self, x: Tensor) -> Any:
        on_disk = x.nbytes >= self.min_bytes and isinstance(x.data, np.ndarray)
        return _File(x.data, self.directory) if on_disk else x


class _File:
    """An array in its file, which is deleted with this object."""

    def __init__(self, array: np.ndarray, directory: Any):
        self.shape, self.dtype = array.shape, array.dtype
        handle, self.path = tempfile.mkstemp(prefix="minigrad-saved-", dir=directory)
        weakref.finalize(self, _remove, self.path, os.getpid())
        with os.fdopen(handle, "wb") as file:
            file.write(np.ascontiguousarray(array).view(np.uint8).data)

    def read(self) -> Tensor:
        """The array again."""
        return Tensor(np.fromfile(self.path, self.dtype).reshape(self.shape))


def _remove(path: str, process: int) -> None:
    if os.getpid() == process and os.path.exists(path):  # a forked child has a copy of the object
        os.remove(path)
