"""Transports of arrays between ranks: the few calls that MPI and NCCL have in common.

A transport works on contiguous arrays, in place where it can, and never waits. Each call returns a
request, and `request.done()` says whether it is complete. Waiting, checking and naming are the
world's (ranks.py), derivatives those of collectives.py.
"""

from typing import Any, Protocol


class Request(Protocol):
    """A transfer under way."""

    def done(self) -> bool:
        """Whether it is complete; asking also drives it on, where the library needs that."""
        ...


class Transport(Protocol):
    """One way to reach the other ranks.

    device   the kind of array it takes: "cpu" or "cuda"
    """

    rank: int
    size: int
    device: str

    def duplicate(self) -> "Transport":
        """The same ranks with separate messages, which no other call can take."""
        ...

    def sum_dtype(self, dtype: Any) -> Any:
        """The dtype in which this transport adds arrays of a dtype; TypeError where it cannot."""
        ...

    def all_reduce(self, buffer: Any, op: str) -> Request: ...
    def broadcast(self, buffer: Any, root: int) -> Request: ...
    def all_gather(self, part: Any, whole: Any) -> Request: ...
    def reduce_scatter(self, whole: Any, part: Any) -> Request: ...
    def send(self, buffer: Any, to: int, tag: int) -> Request: ...
    def receive(self, buffer: Any, source: int, tag: int) -> Request: ...
    def barrier(self) -> Request: ...


class Done:
    """A request that was complete at once."""

    def done(self) -> bool:
        return True


class Alone:
    """The transport of a world of one rank: everything is where it should be."""

    rank, size = 0, 1

    def __init__(self, device: str = "cpu"):
        self.device = device

    def duplicate(self) -> "Alone":
        return self

    def sum_dtype(self, dtype: Any) -> Any:
        return dtype

    def all_reduce(self, buffer: Any, op: str) -> Request:
        return Done()

    def broadcast(self, buffer: Any, root: int) -> Request:
        return Done()

    def all_gather(self, part: Any, whole: Any) -> Request:
        whole[...] = part
        return Done()

    def reduce_scatter(self, whole: Any, part: Any) -> Request:
        part[...] = whole
        return Done()

    def send(self, buffer: Any, to: int, tag: int) -> Request:
        raise ValueError("send: there is no other rank")

    def receive(self, buffer: Any, source: int, tag: int) -> Request:
        raise ValueError("receive: there is no other rank")

    def barrier(self) -> Request:
        return Done()
