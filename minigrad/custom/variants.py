"""Seam C: variants, which compute an op's forward in another form for some calls.

    @mg.exp.variant(on="cpu", least=1 << 15)
    def compiled(x):
        return my_loop(x) if x.flags.c_contiguous else None

An op keeps one ordered list of them, users' own first. A call asks each that suits its device and
size. The first result that is not None counts; if there is none, the op's own form computes it, the
reference. Derivative rules stay as they are: they are array expressions that run on every device.

An op without variants pays nothing for this: its `forward` is the reference itself. A look-up takes
longer than a sum of few numbers, so a variant may also be for "any" device and every call. It runs
in the reference's place, behind all others; where it is the only one, it is the op's `forward`.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..backends.device import DeviceError, device_of
from ..backends.leaving import contextmanager
from ..backends.threads import identity
from ..errors import ImplementationError

_ndarray = np.ndarray
ANY = "any"
# The variants that have computed a call, and of which op: a profile looks at these alone.
called: weakref.WeakKeyDictionary["Variant", str] = weakref.WeakKeyDictionary()
unbounded: set[int] = set()  # threads at any size: nearly always empty, and then quick to ask


@contextmanager
def at_any_size() -> Iterator[None]:
    """Variants that launch are asked by this thread whatever the size: a program may fuse them."""
    own = identity()
    try:
        unbounded.add(own)
        yield
    finally:
        unbounded.discard(own)


class Variant:
    """One form of an op's forward.

    fn        takes the op's own arrays and parameters; returns its result and residuals, or None
    on        "cpu", "cuda" or "cuda:1"; "any": in the reference's place, for all that this takes
    when      when(*arrays, **params) says whether fn is asked; None: always
    least     elements that one of the arrays must have
    name      what lists and profiles call it
    followed  a tape follows the calls of NumPy in it, as it does in the reference
    origin    the module of the user who has given it; None: it is the library's own
    alone     it is an op.implementation, of which a device has one
    launches  it computes by fusion/launch.py: see at_any_size
    calls     how often it has computed a result
    """

    def __init__(
        self, fn: Callable, on: str, when: Callable[..., bool] | None = None, least: int = 0, *,
        name: str = "", followed: bool = False, origin: Any = None, alone: bool = False,
        launches: bool = False,
    ):  # fmt: skip
        self.fn, self.on, self.when, self.least = fn, on, when, least
        self.name = name or getattr(fn, "__name__", type(fn).__name__)
        self.followed, self.origin, self.alone = followed, origin, alone
        self.launches = launches
        self.calls = 0

    def __repr__(self) -> str:
        least = f", {self.least:,} elements or more" if self.least else ""
        return f"<variant {self.name} on {self.on}{least}>"

    def serves(self, device: str) -> bool:
        """Whether it is for this device: one "on cuda" is for every GPU."""
        return self.on in (ANY, device, device.partition(":")[0])

    def is_unbounded(self) -> bool:
        """Whether this thread asks it for arrays of any size."""
        return self.launches and identity() in unbounded


class Variants:
    """The forward of an op that has variants. It never changes: another list is another object.

    reference  the op's own form, or None: there is none (mg.extension)
    listed     the variants in the order in which they are asked
    least      elements from which one of them may be asked
    """

    followed_array: type | None = None  # a tape's stand-in for an array; tape/trace.py sets it
    symbol: type | None = None  # records expressions; expressions/trace.py sets it

    def __init__(self, name: str, reference: Callable | None, listed: tuple[Variant, ...]):
        self.name, self.reference, self.listed = name, reference, listed
        self.least = 0 if reference is None else min([v.least for v in listed], default=0)
        self.__doc__ = getattr(reference, "__doc__", None)
        self._on: dict[str, tuple[Variant, ...]] = {}

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        size = 0
        for x in arrays:
            if type(x) is not _ndarray:
                if hasattr(x, "ndim") and not isinstance(x, np.generic):
                    return self._elsewhere(arrays, params)
            elif x.size > size:
                size = x.size
        if size < self.least and not unbounded:
            return self.reference(*arrays, **params)  # type: ignore[misc]
        return self._by_first("cpu", size, arrays, params)

    def _elsewhere(self, arrays: tuple, params: dict) -> Any:
        """A call with arrays of a GPU, or of which a tape notes what is computed with them."""
        device, size = "", 0
        for x in arrays:
            kind = type(x)
            if kind is self.followed_array:
                return self._followed(x.trace, arrays, params)
            if kind is self.symbol and self.reference is not None:
                return self.reference(*arrays, **params)
            if hasattr(x, "ndim") and not isinstance(x, np.generic):
                own = device_of(x)
                if own != device and device:
                    raise _of_several(arrays)
                device = own
                if x.size > size:
                    size = x.size
        return self._by_first(device, size, arrays, params)

    def _by_first(self, device: str, size: int, arrays: tuple, params: dict) -> Any:
        for variant in self._on.get(device) or self.on(device):
            if size < variant.least and not (unbounded and variant.is_unbounded()):
                continue
            if variant.when is None or variant.when(*arrays, **params):
                y = variant.fn(*arrays, **params)
                if y is not None:
                    if not variant.calls:
                        called[variant] = self.name
                    variant.calls += 1
                    return y
        if self.reference is None:
            raise ImplementationError(
                f"{self.name} has no implementation for {device}; it has "
                f"{', '.join(self.devices()) or 'none at all'}. Give it one with "
                f'@{self.name}.implementation("{device}"), or use x.to(device)',
                op=self.name, device=device, devices=tuple(self.devices()),
            )  # fmt: skip
        return self.reference(*arrays, **params)

    def _followed(self, trace: Any, arrays: tuple, params: dict) -> Any:
        """The call while a tape follows it: as one step where a variant computes it.

        The step is the whole choice. A replay has other numbers, which a variant may refuse.
        """
        plain = [x.array if type(x) is self.followed_array else x for x in arrays]
        found = _arrays_among(plain)
        size = max([x.size for x in found], default=0)
        for variant in self.on(device_of(found[0]) if found else "cpu"):
            if size >= variant.least and (variant.when is None or variant.when(*plain, **params)):
                given = arrays if variant.followed else plain
                y = variant.fn(*given, **params)
                if y is not None and variant.followed:
                    return y
                if y is not None:
                    return trace.call("call", self, arrays, params, self.name)
        if self.reference is None:
            return trace.call("call", self, arrays, params, self.name)
        return self.reference(*arrays, **params)

    def on(self, device: str) -> tuple[Variant, ...]:
        """The variants for one device, in their order."""
        found = self._on.get(device)
        if found is None:
            found = self._on[device] = tuple([v for v in self.listed if v.serves(device)])
        return found

    def devices(self) -> list[str]:
        """The devices for which there are variants."""
        return sorted({v.on for v in self.listed})


def _is_array(x: Any) -> bool:
    """An array's ndim tells it: CuPy makes a tuple to answer for shape or strides."""
    return hasattr(x, "ndim") and not isinstance(x, np.generic)


def _arrays_among(values: Any) -> list:
    return [x for x in values if _is_array(x)]


def _of_several(arrays: tuple) -> DeviceError:
    names = tuple(sorted({device_of(x) for x in _arrays_among(arrays)}))
    return DeviceError(
        f"its arrays are on {' and '.join(names)}; bring them to one device first: x.to(device)",
        devices=names,
    )


def listed(op: Any) -> tuple[Variant, ...]:
    """An op's variants in their order."""
    return getattr(op, "_variants", ())


def change(op: Any, variants: tuple[Variant, ...]) -> None:
    """Give an op this list of variants; with an empty one its forward is its reference again."""
    asked = tuple([v for v in variants if v.on != ANY])
    last = next((v.fn for v in variants if v.on == ANY), op.reference)
    op._variants = variants
    op._set_forward(Variants(op.name, last, asked) if asked or last is None else last)


def add(op: Any, variant: Variant) -> None:
    """Put a variant before the others, but after users' own if it is none of these."""
    before = listed(op)
    users = 0 if variant.origin else sum([v.origin is not None for v in before])
    at = len(before) if variant.on == ANY else users
    change(op, (*before[:at], variant, *before[at:]))


def remove(op: Any, variant: Variant) -> None:
    """Take a variant away, if it is still there."""
    if variant in listed(op):
        change(op, tuple([v for v in listed(op) if v is not variant]))
