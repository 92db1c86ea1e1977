"""A result that is not computed yet. Whoever looks at its numbers has it computed first.

Inside a compiled function an op returns an Awaited. Shape, dtype and device are known from the
recording. Its array and its node are properties, which end the run's segment: all awaited results
are computed. Every Awaited of the segment then becomes a plain tensor, the same object.
"""

from collections.abc import Callable
from typing import Any

from ..engine import modes
from ..engine.graph import TensorBase
from ..tensor_api.tensor import Tensor

_DATA, _NODE = TensorBase.__dict__["_data"], TensorBase.__dict__["node"]  # the slots themselves
_new = object.__new__


class Spec:
    """A value before it is computed: its number in the segment, and its form."""

    __slots__ = ("index", "shape", "dtype", "device", "requires_grad")

    def __init__(self, index: int, like: Tensor):
        self.index = index
        self.shape, self.dtype, self.device = like.shape, like.dtype, like.device
        self.requires_grad = like.requires_grad


class Awaited(Tensor):
    """A tensor of a Run whose array is still to come. Its slots hold the Spec and the Run."""

    __slots__ = ()

    def _property(slot: Any) -> Any:  # type: ignore[misc]  # used below, in this body alone
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
        """As soon as the op is called."""
        return spec_of(self).shape

    @property
    def dtype(self) -> Any:
        """As soon as the op is called."""
        return spec_of(self).dtype

    @property
    def device(self) -> str:
        """As soon as the op is called."""
        return spec_of(self).device

    @property
    def ndim(self) -> int:
        """As soon as the op is called."""
        return len(spec_of(self).shape)

    @property
    def size(self) -> int:
        """As soon as the op is called."""
        size = 1
        for n in spec_of(self).shape:
            size *= n
        return size

    @property
    def is_leaf(self) -> bool:
        """As soon as the op is called."""
        return not spec_of(self).requires_grad

    @property
    def requires_grad(self) -> bool:
        """As soon as the op is called; may be switched as that of any tensor."""
        return spec_of(self).requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        run_of(self).look()
        self.requires_grad = wanted  # a plain tensor's by now

    def detach(self) -> Tensor:  # type: ignore[override]
        """The same data as a constant: recorded as a call, since nothing is there to share yet."""
        run, here = run_of(self), modes.state.__dict__
        is_awaiting = here["pending"] is run
        made = run.call(detach, (self,), {}, here) if is_awaiting else run.look()
        return detach(self) if made is None else made  # None: it is computed by now


def detach(x: Tensor) -> Tensor:
    """x.detach(), as a call that a run can record."""
    return x.detach()


def awaited(spec: Spec, run: Any) -> Awaited:
    """A new Awaited."""
    x: Any = _new(Tensor)  # of the class whose slots are set directly
    x._data, x.node, x._grad = spec, run, None
    x.__class__ = Awaited
    return x


spec_of: Callable[[Awaited], Spec] = _DATA.__get__  # of an Awaited
run_of: Callable[[Awaited], Any] = _NODE.__get__  # the Run that will compute it


def fill(x: Awaited, data: Any, node: Any) -> None:
    """Make it a plain tensor."""
    x.__class__ = Tensor  # type: ignore[assignment]  # they have the same slots
    x._data, x.node = data, node
