"""A tensor: an array, the node that made it, its gradient. tensor_api/ adds what else it offers."""

from typing import Any, Self

import numpy as np

from ..backends.device import device_of
from .graph import Leaf
from .registry import engine


class TensorBase:
    """What ops and the backward need to know of a tensor; mg.Tensor is a subclass.

    data   the array (NumPy's or CuPy's)
    node   the graph node that made it; the Leaf of a leaf that requires a gradient; else None
    grad   for a leaf, the sum of the gradients of all backwards so far, or None
    """

    __slots__ = ("__weakref__", "_data", "_grad", "node")
    level = 0  # transforms make subclasses of higher levels: see ARCHITECTURE.md, "Levels"

    node: Any
    _data: Any  # the engine sets this and the next directly, without the setters' checks
    _grad: Any

    def __init__(self, data: Any, requires_grad: bool = False):
        self._data = np.asarray(data)
        self._grad = None
        self.node = Leaf(self) if requires_grad else None

    @property
    def data(self) -> Any:
        """The array that holds the elements; inside a transform the tensor of the level below."""
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of the elements."""
        return self._data.dtype

    @property
    def device(self) -> str:
        """Where the data lies: "cpu", "cuda:0"."""
        return device_of(raw(self))

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient can be asked for it."""
        return self.node is not None

    @property
    def is_leaf(self) -> bool:
        """True unless a recorded op made it."""
        return self.node is None or self.node.__class__ is Leaf

    @property
    def grad(self) -> Any:
        """For a leaf, the sum of the gradients of all backwards so far; None before the first."""
        return self._grad

    def detach(self) -> Self:
        """The same data (shared memory) as a constant, at every level: no history, no gradient."""
        if not self.level:
            return wrap(self._data)
        return wrap(detached(self._data), None, type(self))

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        **options: Any,
    ) -> None:
        """Add ∂self/∂leaf (times `gradient`) to the `.grad` of every leaf: see mg.backward.

        Its further options (engine, workers, min_work) are taken by name.
        """
        engine.backward(self, gradient, retain_graph, create_graph, inputs, **options)


made: type[TensorBase] = TensorBase  # the class of results; tensor_api/ puts mg.Tensor here


def wrap(data: Any, node: Any = None, kind: Any = None) -> Any:
    """A tensor of this class around data that is an array or, inside a transform, a tensor."""
    tensor = object.__new__(kind or made)
    tensor._data = np.asarray(data) if isinstance(data, np.generic) else data
    tensor.node, tensor._grad = node, None
    return tensor


def detached(x: Any) -> Any:
    """x as a constant: a tensor of any level; an array is one."""
    return x.detach() if isinstance(x, TensorBase) else x


def raw(x: Any) -> Any:
    """The array inside a tensor of any level."""
    while isinstance(x, TensorBase):
        x = x._data
    return x
