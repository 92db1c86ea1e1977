"""The graph that a forward leaves behind: nodes, leaves, ports, and the walk over them.

A node stands for one call of an op. Its `parents` receive what its rules return, in order. There
are three kinds of parent, alike in what the walk and the engines read (`number`, `parents`,
`shape`, `dtype`):

- `Node`   the call that made a tensor;
- `Leaf`   a tensor the user made with requires_grad=True; its gradient ends in `.grad`;
- `Port`   one output of an op that has several.

Nodes are numbered as they are made. A call comes after the calls that made its inputs, so falling
numbers are an order in which every consumer comes before its producers: a backward order that
needs no further sorting by edges.
"""

import itertools
import weakref
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from .hooks import NodeHooks

next_number = itertools.count().__next__  # one C call, so two threads never share a number


class Node(NodeHooks):
    """One recorded call. `saved` is what its rules need; it is None once a backward has used it.

    `origin` is (code, instruction, scope) while a listener wants it, else None. `hooks` stays unset
    until there is one, here as in leaves and ports: hooks.py reads it, and a forward pays nothing.
    `ports` is set only where the op has several outputs: weakly, since a port holds its node.
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

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.number}>"


def link(op: Any, nodes: list, arrays: list, params: dict, residuals: Any) -> Node | None:
    """A node for a call of op on inputs with these nodes; None where all of them are None.

    `arrays` are its inputs and its result. It has its plan, its parents and what is saved; the
    caller gives it what every node has.
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


class Leaf:
    """The place where a leaf's gradient arrives. It knows its tensor weakly: no cycle."""

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


_frozen: dict[int, tuple[weakref.ref, Leaf]] = {}  # by id of the tensor, while it is frozen


def freeze(leaf: Leaf) -> None:
    """Keep the leaf of a tensor that stops requiring a gradient, for when it does so again.

    Its hooks (those of data-parallel training, say) then hold again, and graphs from before know
    the tensor.
    """
    tensor = leaf.tensor()
    key = id(tensor)
    _frozen[key] = weakref.ref(tensor, lambda _: _frozen.pop(key, None)), leaf


def leaf_of(tensor: Any) -> Leaf:
    """The leaf that the tensor had before it was frozen, where it still fits; else a new one."""
    _, leaf = _frozen.pop(id(tensor), (None, None))
    if leaf is not None and (leaf.shape, leaf.dtype) == (tensor.shape, tensor.dtype):
        return leaf
    return Leaf(tensor)


class Port(NodeHooks):
    """Output `index` of a node with several; it hands its cotangent to the node."""

    __slots__ = ("number", "parents", "index", "shape", "dtype", "hooks", "__weakref__")
    saved = ()

    def __init__(self, node: Node, index: int, y: Any):
        self.number = next_number()
        self.parents = (node,)
        self.index = index
        self.shape = y.shape
        self.dtype = y.dtype

    def __repr__(self) -> str:
        return f"<output {self.index} of {self.parents[0]!r}>"


def port_of(node: Node, index: int, y: Any) -> Port:
    """The port of an output: the one that its tensor has, so that hooks there hold; else a new one.

    A rule that read the result gives a gradient to it; that arrives where the users' own do.
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
    for place in found:  # which grows meanwhile
        for parent in place.parents:
            if parent not in seen:
                seen.add(parent)
                found.append(parent)
    found.sort(key=attrgetter("number"))  # nearly falling as it is, which sorts fast
    return found


def backward_order(roots: Iterable) -> list:
    """The reachable nodes, newest first, each leaf directly behind its last consumer.

    A leaf is then met as soon as its gradient is complete, in the middle of a backward, however
    old the leaf is.
    """
    return with_leaves(reachable(roots))


def with_leaves(places: list) -> list:
    """Places, oldest first with the leaves anywhere, in the order of a backward."""
    waiting = {place for place in places if type(place) is Leaf}
    nodes = [place for place in places if type(place) is not Leaf]
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
    order += [leaf for leaf in places if leaf in waiting]  # roots that nothing consumes
    order.reverse()
    return order
