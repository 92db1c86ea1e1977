"""mg.gradients: the gradients of all tensors a loss depends on, as a value; no .grad changes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from numbers import Real
from typing import Any

from ..backends.device import array_module
from ..engine.errors import describe
from ..engine.graph import Leaf, wrap
from .derivatives import differentiate
from .tensor import Tensor


class GradStore(MutableMapping):
    """Gradients as a value: a mapping from tensors to their gradients, in the order in which the
    tensors were made. mg.gradients(loss) makes one of a backward, mg.GradStore() an empty one.

    Of a backward the leaves that it reached are listed. It also finds gradients of inner tensors,
    but does not list them. It keeps each by the number of its vertex in the graph, and does not
    keep the graph. Two stores are equal only if they are one: tensors have no single truth value.

        store = mg.GradStore()
        for batch in batches:
            store += mg.gradients(loss(batch))     # adds per tensor; a missing one counts as zero
        store = store / len(batches)
        for x, g in store.items():
            x.grad = g

    store[x] = g    sets a gradient, of x's shape, dtype and device; `del`, `pop`, `clear` drop some
    store.add(x, g)  adds g to that of x, which is zero where there is none
    a + b, a * 2.0, a / n, a.copy()  new stores, which share no memory with a and b
    a.detach()      constant gradients, of those that create_graph has recorded; the same memory

    A store may be pickled and deep-copied with its leaves.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]
    __array_ufunc__ = None  # np.float64(2) * store is store * 2

    def __init__(self, gradients: Mapping[Tensor, Any] | Iterable[tuple[Tensor, Any]] = ()):
        self._found: dict[int, Tensor] = {}  # by the number of a vertex
        self._listed: dict[int, Tensor] = {}  # the tensors at those that are known
        self.update(gradients)

    def __getitem__(self, x: Tensor) -> Tensor:
        g = self._found.get(_number(x))
        if g is None:
            raise KeyError(f"no gradient for {_why_none(x)}")
        return g

    def __setitem__(self, x: Tensor, g: Any) -> None:
        fitting = _fitting(x, g)
        self._found[_number(x)], self._listed[_number(x)] = fitting, x

    def __delitem__(self, x: Tensor) -> None:
        self[x]  # a KeyError says why there is none
        del self._found[_number(x)]
        self._listed.pop(_number(x), None)

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self._listed[number] for number in sorted(self._listed)])

    def __len__(self) -> int:
        return len(self._listed)

    def __repr__(self) -> str:
        return f"<GradStore of {len(self)} leaves' gradients>"

    def clear(self) -> None:
        """Make it empty: the gradients of inner tensors go too."""
        self._found.clear()
        self._listed.clear()

    def add(self, x: Tensor, g: Any) -> None:
        """Add g to the gradient of x; where there is none, the store gets a copy of g."""
        g, known = _fitting(x, g), self._found.get(_number(x))
        self[x] = g.copy() if known is None else known + g

    def copy(self) -> "GradStore":
        """A store of copies."""
        return self._of_each(Tensor.copy)

    __copy__ = copy

    def detach(self) -> "GradStore":
        """A store of the same gradients as constants; it shares their memory."""
        return self._of_each(Tensor.detach)

    def __add__(self, other: Any) -> "GradStore":
        if not isinstance(other, Mapping):
            return NotImplemented
        sums = GradStore()
        sums += self
        sums += other
        return sums

    __radd__ = __add__

    def __iadd__(self, other: Any) -> "GradStore":
        if not isinstance(other, Mapping):
            return NotImplemented
        other = other if isinstance(other, GradStore) else GradStore(other)
        for number, g in [*other._found.items()]:
            known = self._found.get(number)
            self._found[number] = g.copy() if known is None else known + g
        self._listed |= other._listed
        return self

    def __mul__(self, factor: Any) -> "GradStore":
        if not isinstance(factor, Real):
            return NotImplemented
        factor = float(factor)  # one of NumPy's would widen float32
        return self._of_each(lambda g: g * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "GradStore":
        if not isinstance(divisor, Real):
            return NotImplemented
        divisor = float(divisor)
        return self._of_each(lambda g: g / divisor)

    def _of_each(self, fn: Callable[[Tensor], Tensor]) -> "GradStore":
        made = GradStore()
        made._found = {number: fn(g) for number, g in self._found.items()}
        made._listed = dict(self._listed)
        return made

    def __reduce__(self) -> tuple:
        return GradStore, ([(x, g) for x, g in self.items() if x.is_leaf],)


def _number(x: Any) -> int:
    """The number of the tensor's vertex in the graph; -1 where it has none."""
    node = getattr(x, "node", None)
    return -1 if node is None else node.number


def _fitting(x: Any, g: Any) -> Tensor:
    """g as a tensor, an array copied; an error unless it can be the gradient of x."""
    if _number(x) < 0:
        raise TypeError(f"a GradStore holds no gradient of {_why_none(x)}")
    if not isinstance(g, Tensor):
        g = wrap(array_module(g).array(g))
    if (g.shape, g.dtype, g.device) != (x.shape, x.dtype, x.device):
        raise ValueError(
            f"a gradient is like its tensor, {describe(x)} on {x.device}; got {describe(g)} on "
            f"{g.device}"
        )
    return g


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
    *,
    leaf_ready: Callable[[Tensor, Tensor], Any] | None = None,
) -> GradStore:
    """∂(Σ gradients · tensors)/∂x for every tensor x that they depend on, themselves included.

    `.grad` is not touched. The options are those of mg.backward.
    """
    store = GradStore()

    def keep(vertex: Any, g: Any) -> None:
        store._found[vertex.number] = g if isinstance(g, Tensor) else Tensor(g)
        if isinstance(vertex, Leaf) and (x := vertex.tensor()) is not None:
            store._listed[vertex.number] = x

    def of_tensors(order: Sequence) -> set:
        """All vertices but nodes with several outputs: each output has its own Port."""
        return {vertex for vertex in order if getattr(vertex, "ports", None) is None}

    differentiate(
        tensors, gradients, keep, of_tensors, retain_graph, create_graph,
        engine=engine, workers=workers, min_work=min_work, leaf_ready=leaf_ready,
    )  # fmt: skip
    return store
