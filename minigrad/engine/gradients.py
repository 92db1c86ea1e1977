"""mg.gradients: the gradients of all tensors a loss depends on, as a value; no .grad changes."""

from collections.abc import Sequence
from typing import Any

from ..core.errors import describe
from ..core.tensor import Tensor
from .api import run_backward


class GradStore:
    """The gradients of one backward, looked up by tensor: leaves and inner tensors alike.

    It keeps the gradients, by the number of each place in the graph, but not the graph.
    """

    def __init__(self, found: dict[int, Tensor]):
        self._found = found

    def __getitem__(self, x: Tensor) -> Tensor:
        g = self.get(x)
        if g is None:
            why = (
                "does not require a gradient"
                if x.node is None
                else "had no part in the result, or came after it; use .get(x) to have None"
            )
            raise KeyError(f"no gradient for {describe(x)}: this tensor {why}")
        return g

    def get(self, x: Tensor, default: Any = None) -> Any:
        """The gradient of x; `default` where there is none."""
        return default if x.node is None else self._found.get(x.node.number, default)

    def __contains__(self, x: Tensor) -> bool:
        return self.get(x) is not None

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<GradStore of {len(self)} gradients>"


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

    def keep(place: Any, g: Any) -> None:
        found[place.number] = g if isinstance(g, Tensor) else Tensor(g)

    def of_tensors(order: Sequence) -> set:
        """All places but nodes with several outputs: each output has its own Port."""
        return {place for place in order if getattr(place, "ports", None) is None}

    run_backward(
        tensors, gradients, keep, of_tensors, retain_graph, create_graph,
        engine=engine, workers=workers, min_work=min_work,
    )  # fmt: skip
    return GradStore(found)
