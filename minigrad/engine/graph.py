"""A tensor, and the graph that a forward leaves behind it: nodes, leaves, ports, their order.

A tensor is an array, the vertex that made it, and its gradient; tensor_api/ adds what else it
offers.

A node represents one call of an op. Its `parents` receive what its rules return, in order. The
graph has three kinds of *vertex*, and a parent is one of them. All three have `number`, `parents`,
`shape` and `dtype`, which is all that walks and engines read:

- `Node`   the call that made a tensor;
- `Leaf`   a tensor the user made with requires_grad=True; its gradient ends in `.grad`;
- `Port`   one output of an op that has several.

Vertices are numbered as they are made. A call is made after the calls that made its inputs, so in
order of decreasing number every consumer comes before its producers. That is a valid backward
order, found without following edges.
"""

import itertools
import weakref
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Self

import numpy as np

from ..backends.device import device_of, kind_of
from .registry import engine


class TensorBase:
    """The part of a tensor that ops and the backward use; mg.Tensor is a subclass.

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


def gpu_array(values: Iterable[Any]) -> Any:
    """The first array of a GPU among values and in the lists there, as it is or in a tensor; None
    where there is none.
    """
    for x in values:
        x = gpu_array(x) if type(x) in (list, tuple) else raw(x)
        if kind_of(x) == "cuda":
            return x
    return None


# -- the graph -------------------------------------------------------------------------------------

next_number = itertools.count().__next__  # one C call, so two threads never share a number
hook_count = 0  # hooks at vertices (modes/hooks.py); those whose vertex has died still count


class Node:
    """One recorded call. `saved` is what its rules need; it is None once a backward has used it.

    `origin` is (code, instruction, scope) while a listener asks for it, else None. The slot `hooks`
    stays unset until the first hook is registered (hooks.py), in leaves and ports too, so that a
    forward spends no time on it. `ports` is set only where the op has several outputs: weak
    references, since a port refers to its node.
    """

    __slots__ = (
        "number", "op", "plan", "parents", "saved", "shape", "dtype", "origin", "hooks", "ports",
        "__weakref__",
    )  # fmt: skip

    number: int
    op: Any
    plan: Any
    parents: tuple
    saved: tuple | None
    shape: tuple
    dtype: Any
    origin: tuple | None
    ports: tuple
    register_hook: Callable[..., Any]  # this and the next, of ports too: modes/hooks.py
    register_prehook: Callable[..., Any]

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.number}>"


def link(op: Any, nodes: list, arrays: list, params: dict, residuals: Any) -> Node | None:
    """A node for one call of `op`; None if no input needs a gradient.

    `nodes` holds the vertex of each input, or None; `arrays` are the inputs and the result. Sets
    plan, parents and saved; the caller sets what is left (number, op, origin, shape, dtype).
    """
    pattern, bit = 0, 1
    for parent in nodes:
        if parent is not None:
            pattern |= bit
        bit += bit
    if not pattern:
        return None
    plan = op.plan_for(pattern)
    node = Node()
    node.plan = plan
    node.parents = tuple([parent for parent in nodes if parent is not None])
    node.saved = plan.save(arrays, params, residuals, pattern) if plan.save else ()
    return node


def record(op: Any, nodes: list, arrays: list, params: dict, residuals: Any) -> Node | None:
    """The node of one call, numbered; an op of several outputs sets the shapes of these itself."""
    node = link(op, nodes, arrays, params, residuals)
    if node is not None:
        node.number, node.op, node.origin = next_number(), op, None
        if not op.outputs:
            node.shape, node.dtype = arrays[-1].shape, arrays[-1].dtype
    return node


class Leaf:
    """Where a leaf tensor's gradient arrives. Refers to its tensor weakly, so there is no cycle."""

    __slots__ = ("number", "tensor", "shape", "dtype", "hooks", "__weakref__")
    parents = ()
    saved = ()

    def __init__(self, tensor: Any):
        self.number = next_number()
        self.tensor = weakref.ref(tensor)
        self.shape = tensor.shape
        self.dtype = tensor.dtype

    def __repr__(self) -> str:
        return f"<leaf #{self.number}>"


class Port:
    """Output `index` of a node with several outputs; it passes its cotangent on to the node."""

    __slots__ = ("number", "parents", "index", "shape", "dtype", "hooks", "__weakref__")
    saved = ()
    register_hook: Callable[..., Any]
    register_prehook: Callable[..., Any]

    def __init__(self, node: Node, index: int, y: Any):
        self.number = next_number()
        self.parents = (node,)
        self.index = index
        self.shape = y.shape
        self.dtype = y.dtype

    def __repr__(self) -> str:
        return f"<output {self.index} of {self.parents[0]!r}>"


def port_of(node: Node, index: int, y: Any) -> Port:
    """The port of an output: the one its tensor has, while that is alive; else a new one.

    A recorded rule that read the result sends a gradient to it. By the same port that gradient
    arrives where the user's own gradients do, and meets the same hooks.
    """
    port = node.ports[index]()
    if port is None:
        port = Port(node, index, y)
        node.ports = (*node.ports[:index], weakref.ref(port), *node.ports[index + 1 :])
    return port


def reachable(roots: Iterable) -> list:
    """Everything that gradients from `roots` can reach, oldest first. Iterative: any depth."""
    seen = set(roots)
    found = list(seen)
    for vertex in found:  # the list grows during the loop
        for parent in vertex.parents:
            if parent not in seen:
                seen.add(parent)
                found.append(parent)
    found.sort(key=attrgetter("number"))  # nearly in decreasing order already: a fast sort
    return found


def backward_order(roots: Iterable) -> list:
    """The reachable vertices, newest first, each leaf directly after its last consumer.

    So a leaf, however old it is, is visited as soon as its gradient is complete, in the middle of
    a backward.
    """
    return with_leaves(reachable(roots))


def with_leaves(vertices: list) -> list:
    """backward_order for vertices that are given oldest first, with the leaves at any position."""
    waiting = {vertex for vertex in vertices if type(vertex) is Leaf}
    nodes = [vertex for vertex in vertices if type(vertex) is not Leaf]
    order: list = []
    for i, node in enumerate(nodes):
        if not waiting:
            order += nodes[i:]
            break
        for parent in node.parents:  # oldest first: the first consumer met is the last to run
            if parent in waiting:
                waiting.remove(parent)
                order.append(parent)
        order.append(node)
    order += [leaf for leaf in vertices if leaf in waiting]  # leaves that are roots themselves
    order.reverse()
    return order
