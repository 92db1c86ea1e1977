"""mg.gradients: the gradients of all tensors a loss depends on, as a value; no .grad changes."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ..core.errors import describe
from ..core.graph import Leaf
from ..core.tensor import Tensor
from .api import run_backward


class GradStore(Mapping):
    """The gradients of one backward: a mapping from the leaves that it reached, oldest first, to
    their gradients. Inner tensors are found too, but not listed: a graph does not keep them.

    It keeps the gradients, by the number of each place in the graph, but not the graph. Two stores
    are equal only if they are one: tensors have no single truth value.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, found: dict[int, Tensor], leaves: Sequence[Tensor]):
        self._found = found
        self._leaves = leaves

    def __getitem__(self, x: Tensor) -> Tensor:
        node = getattr(x, "node", None)
        g = None if node is None else self._found.get(node.number)
        if g is None:
            raise KeyError(f"no gradient for {_why_none(x)}")
        return g

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def __repr__(self) -> str:
        return f"<GradStore of {len(self)} leaves' gradients>"


def _why_none(x: Any) -> str:
    if not isinstance(x, Tensor):
        return f"{x!r}: the keys are tensors"
    if x.node is None:
        return f"{describe(x)}: this tensor does not require a gradient"
    return (
        f"{describe(x)}: this tensor had no part in the result, or came after it; use .get(x) "
        "to have None"
    )


def gradients(
    tensors: Tensor | Sequence[Tensor],
    gradients: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    engine: Any = "serial",
    workers: int | None = None,
    min_work: float | None = None,
) -> GradStore:
    """∂(Σ gradients · tensors)/∂x for every tensor x that they depend on, themselves included.

    `.grad` is not touched. The options are those of mg.backward.
    """
    found: dict[int, Tensor] = {}
    leaves: list[Leaf] = []

    def keep(place: Any, g: Any) -> None:
        found[place.number] = g if isinstance(g, Tensor) else Tensor(g)
        if isinstance(place, Leaf):
            leaves.append(place)

    def of_tensors(order: Sequence) -> set:
        """All places but nodes with several outputs: each output has its own Port."""
        return {place for place in order if getattr(place, "ports", None) is None}

    run_backward(
        tensors, gradients, keep, of_tensors, retain_graph, create_graph,
        engine=engine, workers=workers, min_work=min_work,
    )  # fmt: skip
    leaves.sort(key=attrgetter("number"))
    alive = [leaf.tensor() for leaf in leaves]
    return GradStore(found, [x for x in alive if x is not None])
