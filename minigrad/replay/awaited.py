"""A result that is not computed yet. A first look at its numbers computes it.

Inside a compiled function an op returns an Awaited. The recording gives its shape, dtype and
device. Its array and its node are properties; to read one ends the run's segment, which computes
all awaited results. Every Awaited of the segment then becomes a plain tensor, the same object.
"""

from collections.abc import Callable
from typing import Any

from ..engine import modes
from ..engine.graph import TensorBase
from ..tensor_api.tensor import Tensor

_DATA, _NODE = TensorBase.__dict__["_data"], TensorBase.__dict__["node"]  # descriptors of slots
_new = object.__new__


class Spec:
    """A value that is not computed yet: its number in the segment, and its form."""

    __slots__ = ("index", "shape", "dtype", "device", "requires_grad")

    def __init__(self, index: int, like: Tensor):
        self.index = index
        self.shape, self.dtype, self.device = like.shape, like.dtype, like.device
        self.requires_grad = like.requires_grad


class Awaited(Tensor):
    """A tensor of a Run without its array yet. Its slots hold the Spec and the Run instead."""

    __slots__ = ()

    def _property(slot: Any) -> Any:  # type: ignore[misc]  # used only in this class body
        def read(self: Any) -> Any:
            run_of(self).look()
            return slot.__get__(self)

        def write(self: Any, value: Any) -> None:
            run_of(self).look()
            slot.__set__(self, value)

        return property(read, write)

    _data = _property(_DATA)
    node = _property(_NODE)
    del _property

    @property
    def shape(self) -> tuple[int, ...]:
        """Known as soon as the op is called."""
        return spec_of(self).shape

    @property
    def dtype(self) -> Any:
        """Known as soon as the op is called."""
        return spec_of(self).dtype

    @property
    def device(self) -> str:
        """Known as soon as the op is called."""
        return spec_of(self).device

    @property
    def ndim(self) -> int:
        """Known as soon as the op is called."""
        return len(spec_of(self).shape)

    @property
    def size(self) -> int:
        """Known as soon as the op is called."""
        size = 1
        for n in spec_of(self).shape:
            size *= n
        return size

    @property
    def is_leaf(self) -> bool:
        """Known as soon as the op is called."""
        return not spec_of(self).requires_grad

    @property
    def requires_grad(self) -> bool:
        """Known as soon as the op is called; to set it ends the segment."""
        return spec_of(self).requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        run_of(self).look()
        self.requires_grad = wanted  # self is a plain tensor now

    def detach(self) -> Tensor:  # type: ignore[override]
        """The same data as a constant: recorded as a call, since there is no array to share yet."""
        run, here = run_of(self), modes.state.__dict__
        is_awaiting = here["pending"] is run
        made = run.call(detach, (self,), {}, here) if is_awaiting else run.look()
        return detach(self) if made is None else made  # None: x is computed by now


def detach(x: Tensor) -> Tensor:
    """x.detach(), as a function, so that a run can record the call."""
    return x.detach()


def awaited(spec: Spec, run: Any) -> Awaited:
    """A new Awaited of this Spec and this Run."""
    x: Any = _new(Tensor)  # first a Tensor: assignments then set the slots, not the properties
    x._data, x.node, x._grad = spec, run, None
    x.__class__ = Awaited
    return x


spec_of: Callable[[Awaited], Spec] = _DATA.__get__  # the Spec in its slot
run_of: Callable[[Awaited], Any] = _NODE.__get__  # the Run that will compute it


def fill(x: Awaited, data: Any, node: Any) -> None:
    """Make x a plain tensor with this array and node."""
    x.__class__ = Tensor  # type: ignore[assignment]  # both classes have the same slots
    x._data, x.node = data, node
