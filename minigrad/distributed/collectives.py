"""The collectives: each rank calls the same one, in the same order.

Those that are linear are ops with a derivative. The function that is differentiated is then the
sum of what all ranks compute, and the rule of each is its transpose:

    all_reduce      y = Σᵣ xᵣ on every rank       ↔  all_reduce
    all_gather      y = (x₀, x₁, …) on every rank ↔  reduce_scatter
    broadcast       y = x of the root             ↔  the sum of all g at the root, 0 elsewhere

A backward runs the transposes in the reverse order of the forward, the same on every rank. That
holds for the serial engine. The parallel one may take two collectives in another order on another
rank, so a graph with several of them needs engine="serial". Arrays on GPUs stay there (NCCL).
"""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..backends.device import array_module, device_of
from ..engine.errors import describe
from ..engine.primitive import Primitive
from ..engine.versions import note_write
from ..tensor_api.tensor import Tensor
from .errors import DistributedError
from .ranks import device_kind, world

_REDUCTIONS = ("sum", "mean", "max", "min")
_LABEL = 1024  # bytes, longer than the description of any array


def all_reduce(x: Any, op: str = "sum") -> Any:
    """y = Σᵣ xᵣ over all ranks, the same bits on each; op: "sum", "mean", "max" or "min".

    Sum and mean have derivatives. 16-bit floats are added in float32 by MPI, in 16 bits by NCCL.
    """
    if op not in _REDUCTIONS:
        raise ValueError(f"all_reduce: op is one of {', '.join(_REDUCTIONS)}, got {op!r}")
    if op in ("max", "min"):
        _refuse_gradient(x, f"all_reduce(op={op!r})")
        return _wrapped(x, _reduced(_array(x), op=op))
    return _all_reduce(_tensor(x), op=op)


def all_gather(x: Any) -> Any:
    """y[r] = x of rank r, shape (size, *x.shape), on every rank; shapes and dtypes must agree."""
    return _all_gather(_tensor(x))


def reduce_scatter(x: Any) -> Any:
    """y = Σᵣ xᵣ[own rank]: from x of shape (size, *shape), y of `shape`. all_gather's transpose."""
    return _reduce_scatter(_tensor(x))


def broadcast(x: Any, root: int = 0) -> Any:
    """y = x of the rank `root`, on every rank; the others' x says only shape and dtype."""
    return _broadcast(_tensor(x), root=_checked_root("broadcast", root))


def send(x: Any, to: int, tag: int = 0) -> None:
    """Send x to one rank, which calls receive(like, source); no derivative.

    tag: a number that both calls share, by which MPI matches messages. NCCL, which carries
    arrays on GPUs, pairs them by their order alone: a ValueError there.
    """
    _refuse_gradient(x, "send")
    here, x = world(), _contiguous(_array(x))
    _refuse_own(here, to, "send")
    transport, what = here.transport(device_kind(x)), f"send({describe(x)}, to={to})"
    for part in (_label(x), x):
        here.wait(transport.send(part, to, tag), what)


def receive(like: Any, source: int, tag: int = 0) -> Any:
    """The tensor that the rank `source` sends, in the shape and dtype of `like`, which stays
    unchanged.

    tag: that of the other rank's send. DistributedError, which names both arrays, where the one
    sent has another dtype or another number of elements; the message is used up all the same.
    """
    here = world()
    _refuse_own(here, source, "receive")
    y = array_module(_array(like)).empty_like(_contiguous(_array(like)))
    transport, what = here.transport(device_kind(y)), f"receive({describe(y)}, source={source})"
    label = _label(y)
    here.wait(transport.receive(label, source, tag), what)
    nbytes, dtype, count, sent = _read_label(label)
    fits = (dtype, count) == (str(y.dtype)[:200], y.size)
    into = y if fits else array_module(y).empty(nbytes, np.uint8)
    here.wait(transport.receive(into, source, tag), what)
    if not fits:
        raise DistributedError(
            f"{what}: rank {source} sent {sent}; give receive an array of that dtype and size",
            ranks=(source,),
        )
    return _wrapped(like, y)


def broadcast_(x: Tensor, root: int = 0) -> Tensor:
    """Overwrite x, in place, with that of the rank `root`."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"broadcast_ overwrites a tensor, got {describe(x)}; of an array broadcast(x, root) "
            "makes a new one"
        )
    x.data[...] = _broadcasted(x.data, root=_checked_root("broadcast_", root))
    note_write(x.data, "distributed.broadcast_")
    return x


def broadcast_together(tensors: Iterable[Tensor], root: int, what: str) -> None:
    """Overwrite the tensors, in place, with those of the rank `root`; each rank names the same.

    They travel side by side, one transfer for each dtype and device; `what` names it in messages.
    """
    here = world()
    if here.size == 1:
        return
    kinds: dict[tuple, list[Tensor]] = {}
    for x in tensors:
        kinds.setdefault((str(x.dtype), device_of(x.data)), []).append(x)
    for (dtype, device), group in kinds.items():
        xp = array_module(group[0].data)
        flat = xp.concatenate([x.data.reshape(-1) for x in group])
        request = here.transport(device).broadcast(flat, root)
        here.wait(request, f"{what} of rank {root} ({dtype}, {flat.size:,} numbers)")
        at = 0
        for x in group if here.rank != root else ():
            x.data[...] = flat[at : at + x.size].reshape(x.shape)
            note_write(x.data, f"distributed: {what} of rank {root}")
            at += x.size


# -- what runs on arrays ---------------------------------------------------------------------------


def _reduced(x: Any, *, op: str = "sum") -> Any:
    here = world()
    what = f"all_reduce({describe(x)}, op={op!r})"
    here.agree(what)
    if op == "mean" and x.dtype.kind in "iub":
        raise TypeError(f"{what}: the mean of integers; cast to a float first")
    transport = here.transport(device_kind(x))
    buffer = _contiguous(x).astype(transport.sum_dtype(x.dtype))  # astype copies
    here.wait(transport.all_reduce(buffer, "sum" if op == "mean" else op), what)
    if op == "mean":
        buffer = buffer / buffer.dtype.type(here.size)
    return buffer.astype(x.dtype, copy=False)


def _gathered(x: Any) -> Any:
    here, x = world(), _contiguous(x)
    what = f"all_gather({describe(x)})"
    here.agree(what)
    y = array_module(x).empty((here.size, *x.shape), x.dtype)
    here.wait(here.transport(device_kind(x)).all_gather(x, y), what)
    return y


def _scattered(x: Any) -> Any:
    here = world()
    what = f"reduce_scatter({describe(x)})"
    if x.ndim == 0 or x.shape[0] != here.size:
        raise ValueError(
            f"{what}: the first axis must have one entry for each of {here.size} ranks"
        )
    here.agree(what)
    transport = here.transport(device_kind(x))
    whole = _contiguous(x).astype(transport.sum_dtype(x.dtype), copy=False)
    part = array_module(x).empty(x.shape[1:], whole.dtype)
    here.wait(transport.reduce_scatter(whole, part), what)
    return part.astype(x.dtype, copy=False)


def _broadcasted(x: Any, *, root: int = 0) -> Any:
    here = world()
    what = f"broadcast({describe(x)}, root={root})"
    here.agree(what)
    y = _contiguous(x).copy()
    here.wait(here.transport(device_kind(x)).broadcast(y, root), what)
    return y


def _summed_at_root(x: Any, *, root: int = 0) -> Any:
    """Σᵣ xᵣ at the root, zeros elsewhere: the transpose of broadcast."""
    total = _reduced(x)
    return total if world().rank == root else array_module(x).zeros_like(x)


_all_reduce = Primitive(_reduced, "all_reduce", ["x"], defaults={"op": "sum"}, kind="linear")
_all_gather = Primitive(_gathered, "all_gather", ["x"], kind="linear")
_reduce_scatter = Primitive(_scattered, "reduce_scatter", ["x"], kind="linear")
_broadcast = Primitive(_broadcasted, "broadcast", ["x"], defaults={"root": 0}, kind="linear")
_sum_at_root = Primitive(_summed_at_root, "sum_at_root", ["x"], defaults={"root": 0}, kind="linear")


@_all_reduce.vjp("x")
def _all_reduce_dx(g: Any, op: str) -> Any:
    return _all_reduce(g, op=op)


@_all_gather.vjp("x")
def _all_gather_dx(g: Any) -> Any:
    return _reduce_scatter(g)


@_reduce_scatter.vjp("x")
def _reduce_scatter_dx(g: Any) -> Any:
    return _all_gather(g)


@_broadcast.vjp("x")
def _broadcast_dx(g: Any, root: int) -> Any:
    return _sum_at_root(g, root=root)


@_sum_at_root.vjp("x")
def _sum_at_root_dx(g: Any, root: int) -> Any:
    return _broadcast(g, root=root)


# -- helpers ---------------------------------------------------------------------------------------


def _array(x: Any) -> Any:
    x = x.data if isinstance(x, Tensor) else x
    return x if hasattr(x, "dtype") else np.asarray(x)


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Tensor) or hasattr(x, "dtype") else np.asarray(x)


def _wrapped(x: Any, y: Any) -> Any:
    return Tensor(y) if isinstance(x, Tensor) else y


def _contiguous(x: Any) -> Any:
    y = array_module(x).ascontiguousarray(x)
    return y.reshape(x.shape)  # ascontiguousarray makes 0-d arrays 1-d


def _label(x: Any) -> Any:
    """The header that travels before x and describes it, in bytes of one number, on x's device."""
    text = json.dumps([x.nbytes, str(x.dtype)[:200], x.size, describe(x)[:400]])
    return array_module(x).asarray(np.frombuffer(text.encode().ljust(_LABEL), np.uint8).copy())


def _read_label(label: Any) -> list:
    """(bytes, dtype, number of elements, description) of the array that follows a label."""
    host = label if isinstance(label, np.ndarray) else label.get()
    return json.loads(host.tobytes())


def _checked_root(owner: str, root: int) -> int:
    if not 0 <= root < world().size:
        raise ValueError(f"{owner}: root is a rank below {world().size}, got {root}")
    return root


def _refuse_gradient(x: Any, what: str) -> None:
    if isinstance(x, Tensor) and x.requires_grad:
        raise ValueError(f"{what} has no derivative; pass x.detach()")


def _refuse_own(here: Any, other: int, what: str) -> None:
    if not 0 <= other < here.size or other == here.rank:
        raise ValueError(
            f"{what}: {other} is no other rank of {here.size}; this one is {here.rank}"
        )
