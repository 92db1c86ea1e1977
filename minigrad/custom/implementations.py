"""Forwards for single devices: an op may have one for "cpu", "cuda" or "cuda:1".

Only an op that has been given one pays for the choice; its `forward` is then a `ByDevice`. The
derivative rules stay as they are: they are array expressions that run on every device.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..backends import device as devices
from ..backends.caches import Cache
from ..backends.device import DeviceError, device_of
from ..backends.locks import Lock
from ..engine.primitive import Primitive
from ..engine.registry import op as registry
from ..errors import ImplementationError
from .reload import Origin, find_op, origin_of, registering_module

_changing = Lock()  # one thread at a time gives an op an implementation, or takes one away


class ByDevice:
    """A forward that chooses by where its arrays are.

    table    device -> forward; "cuda" is for every GPU without an entry of its own
    general  the forward for all other devices; None: there is none
    """

    def __init__(self, name: str, general: Callable | None):
        self.name = name
        self.general = general
        self.table: dict[str, Callable] = {}
        self.origins: dict[str, Origin] = {}  # of those in the table
        self.__doc__ = general.__doc__ if general is not None else None

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        device = None
        for x in arrays:
            # an array is told by its ndim: CuPy makes a tuple to answer for shape or strides
            if hasattr(x, "ndim") and not isinstance(x, np.generic):
                here = device_of(x)
                if device is None:
                    device = here
                elif here != device:
                    raise DeviceError(
                        f"its arrays are on {' and '.join(sorted((device, here)))}; bring them to "
                        "one device first: x.to(device)",
                        devices=tuple(sorted((device, here))),
                    )
        if devices.several and device not in (None, "cpu"):
            devices.require_current(device)
        return self.chosen(device or "cpu")(*arrays, **params)

    def chosen(self, device: str) -> Callable:
        """The forward for one device."""
        fn = self.table.get(device) or self.table.get(device.partition(":")[0]) or self.general
        if fn is None:
            raise ImplementationError(
                f"{self.name} has no implementation for {device}; it has "
                f"{', '.join(sorted(self.table)) or 'none at all'}. Give it one with "
                f'@{self.name}.implementation("{device}"), or use x.to(device)',
                op=self.name, device=device, devices=tuple(sorted(self.table)),
            )  # fmt: skip
        return fn


class Extensible:
    """What an extension may add to an op, which therefore is one object; methods of Primitive.

    Copies of a module share its ops, and a pickled module has their names.
    """

    name: str
    forward: Any
    _set_forward: Callable[[Callable], None]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict) -> Self:
        return self

    def __reduce__(self) -> tuple:
        registered = registry.__dict__.get(self.name)
        if registered is None or registered.__dict__ is not self.__dict__:  # as after a reload
            raise TypeError(
                f"{self!r} cannot be pickled: ops are pickled by their registered names"
            )
        return find_op, (self.name, registering_module(self.name))

    def implementation(self, device: str) -> Callable:
        """Decorator: the forward for arrays on `device` ("cpu", "cuda", "cuda:1").

        It takes and returns arrays, with the op's own signature and residuals. What a module has
        given it gives again when it is reloaded, or its cell is run again; else ValueError where
        the device has one already, which `remove_implementation` takes away.
        """
        if device != "cpu" and device.partition(":")[0] != "cuda":
            raise ValueError(f"{self.name}: there is no device {device!r}; 'cpu', 'cuda', 'cuda:1'")

        def add(fn: Callable) -> Callable:
            origin = origin_of(fn)
            with _changing:
                if not isinstance(self.forward, ByDevice):
                    self._set_forward(ByDevice(self.name, self.forward))
                before = self.forward.origins.get(device)
                if before is not None and not origin.repeats(before):
                    raise ValueError(
                        f"{self.name} has an implementation for {device} already; take it away "
                        f'first: {self.name}.remove_implementation("{device}")'
                    )
                self.forward.table[device] = fn
                self.forward.origins[device] = origin
            return fn

        return add

    def remove_implementation(self, device: str) -> None:
        """Take away what @implementation has added; KeyError where there is none."""
        with _changing:
            table = self.forward.table if isinstance(self.forward, ByDevice) else {}
            if device not in table:
                raise KeyError(f"{self.name} has no implementation for {device!r}")
            del table[device], self.forward.origins[device]
            if not table and self.forward.general is not None:
                self._set_forward(self.forward.general)

    def cache(
        self, what: str = "", max_entries: int | None = None, max_bytes: int | None = None
    ) -> Cache:
        """A bounded cache that belongs to this op; listed in mg.cache_stats() under its name."""
        made = Cache(f"{self.name}.{what}" if what else self.name, max_entries, max_bytes)
        self.__dict__.setdefault("caches", []).append(made)
        return made


for _name in (
    "__copy__", "__deepcopy__", "__reduce__", "implementation", "remove_implementation",
    "cache",
):  # fmt: skip
    setattr(Primitive, _name, vars(Extensible)[_name])
