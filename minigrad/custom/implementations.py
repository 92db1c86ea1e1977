"""An extension's additions to an op: variants of its forward, and caches."""

from collections.abc import Callable
from typing import Any, Self

from ..backends.caches import Cache
from ..backends.locks import Lock
from ..engine.primitive import Primitive
from ..engine.registry import op as registry
from .reload import find_op, origin_of, registering_module
from .variants import Variant, add, listed, remove

_changing = Lock()  # one thread at a time gives an op a variant, or takes one away


class Extensible:
    """Methods of Primitive by which an extension adds to an op, which therefore is one object.

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

    def variant(
        self,
        fn: Callable | None = None,
        *,
        on: str = "cpu",
        when: Callable[..., bool] | None = None,
        least: int = 0,
    ) -> Callable:
        """Decorator: another form of the forward, which computes the calls that suit it.

        fn     takes and returns arrays, with the op's own signature and residuals; None as a result
               means: not this call, ask the next one
        on     "cpu", "cuda" (every GPU) or "cuda:1"
        when   when(*arrays, **params) says whether fn is asked
        least  elements that one of the arrays must have

        The variant given last is asked first. A module's variant replaces its earlier one when the
        module is reloaded, or its cell is run again. `op.variants` lists all of them.
        """
        if fn is None:
            return lambda fn: self.variant(fn, on=on, when=when, least=least)
        _give(self, Variant(fn, on, when, least, origin=origin_of(fn)))
        return fn

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The other forms of the forward, in the order in which a call asks them."""
        return listed(self)

    def remove_variant(self, fn: Callable) -> None:
        """Take away what @op.variant has added; KeyError where there is none."""
        with _changing:
            _take_away(self, lambda v: v.origin and v.fn is fn, "variant", fn)

    def implementation(self, device: str) -> Callable:
        """Decorator: the forward for arrays on `device` ("cpu", "cuda", "cuda:1").

        It is a variant for calls of any size. A device has one: ValueError for a second, until
        `remove_implementation` takes the first away.
        """
        _refuse_unknown(self.name, device)

        def add(fn: Callable) -> Callable:
            _give(self, Variant(fn, device, origin=origin_of(fn), alone=True))
            return fn

        return add

    def remove_implementation(self, device: str) -> None:
        """Take away what @implementation has added; KeyError where there is none."""
        with _changing:
            _take_away(self, lambda v: v.alone and v.on == device, "implementation for", device)

    def cache(
        self, what: str = "", max_entries: int | None = None, max_bytes: int | None = None
    ) -> Cache:
        """A bounded cache that belongs to this op; listed in mg.cache_stats() under its name."""
        made = Cache(f"{self.name}.{what}" if what else self.name, max_entries, max_bytes)
        self.__dict__.setdefault("caches", []).append(made)
        return made


for _name in (
    "__copy__", "__deepcopy__", "__reduce__", "implementation", "remove_implementation",
    "variant", "variants", "remove_variant", "cache",
):  # fmt: skip
    setattr(Primitive, _name, vars(Extensible)[_name])


def _refuse_unknown(name: str, device: str) -> None:
    if device != "cpu" and device.partition(":")[0] != "cuda":
        raise ValueError(f"{name}: there is no device {device!r}; 'cpu', 'cuda', 'cuda:1'")


# Each is called under the lock and holds the loop. Compiled by CPython 3.12, a loop inside the
# block itself would leave it for an instruction, in which Ctrl-C would leave the lock locked.
def _put_in(op: Any, variant: Variant) -> None:
    for v in [v for v in listed(op) if v.origin and v.on == variant.on]:
        if v.alone and variant.alone and not variant.origin.repeats(v.origin):
            raise ValueError(
                f"{op.name} has an implementation for {v.on} already; take it away first: "
                f'{op.name}.remove_implementation("{v.on}")'
            )
        if _comes_again(v, variant):
            remove(op, v)
    add(op, variant)


def _take_away(op: Any, is_meant: Callable[[Variant], Any], kind: str, what: Any) -> None:
    found = [v for v in listed(op) if is_meant(v)]
    if not found:
        raise KeyError(f"{op.name} has no {kind} {getattr(what, '__name__', what)!r}")
    remove(op, found[0])


def _give(op: Any, variant: Variant) -> None:
    _refuse_unknown(op.name, variant.on)
    with _changing:
        _put_in(op, variant)


def _comes_again(before: Variant, now: Variant) -> bool:
    """Whether a module that is reloaded, or a cell that is run again, gives the same variant."""
    same = before.alone == now.alone and (now.alone or before.name == now.name != "<lambda>")
    return same and now.origin.repeats(before.origin)
