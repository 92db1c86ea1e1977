"""Buckets: gradients side by side in one flat buffer; one transfer carries many.

Behind the gradients of a bucket stands one number for each of its parameters, 1 where this rank has
a gradient for it. After the sum it is the number of ranks that used the parameter, without a
further transfer. A parameter that no rank used keeps its `.grad` as it was.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

from ..backends.device import array_module, device_of
from ..engine.versions import note_write
from ..tensor_api.tensor import Tensor


class Bucket:
    """Parameters of one dtype on one device, in the order in which they lie in the buffer.

    members   their numbers among the model's parameters
    dtype     in which the transport adds them
    """

    def __init__(self, members: list[int], parameters: Sequence[Tensor], dtype: Any):
        self.members = members
        self.parameters = [parameters[i] for i in members]
        sizes = [p.size for p in self.parameters]
        self.starts = [sum(sizes[:k]) for k in range(len(sizes))]
        self.total = sum(sizes)
        xp = array_module(self.parameters[0].data)
        with _on_device(self.parameters[0].data):
            self.buffer = xp.zeros(self.total + len(members), dtype)
        self.place = {i: k for k, i in enumerate(members)}
        self.begin()

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    def begin(self) -> None:
        """Wait for all members again."""
        self.used = [0.0] * len(self.members)
        self.missing = len(self.members)

    def _part(self, k: int) -> slice:
        return slice(self.starts[k], self.starts[k] + self.parameters[k].size)

    def fill(self, i: int, used: bool) -> None:
        """Copy the gradient of parameter i into its place; zeros where there is none."""
        k = self.place[i]
        grad = self.parameters[k].grad
        self.buffer[self._part(k)] = 0 if grad is None else grad.data.reshape(-1)
        self.used[k] = float(used and grad is not None)
        self.missing -= 1

    def seal(self) -> None:
        """Write after the gradients which parameters were used: the buffer is ready for its sum."""
        if all(self.used):
            self.buffer[self.total :] = 1
        else:
            xp = array_module(self.buffer)
            self.buffer[self.total :] = xp.asarray(self.used, dtype=self.buffer.dtype)

    def unpack(self, size: int) -> None:
        """Give each used parameter the mean over `size` ranks: sum / size, the same on each."""
        used = self.used
        if not all(used):  # only then the host must look
            flags = self.buffer[self.total :]
            used = (flags.get() if hasattr(flags, "get") else flags).astype("float32").tolist()
        for k, p in enumerate(self.parameters):
            if not used[k]:
                continue
            mean = (self.buffer[self._part(k)] / self.buffer.dtype.type(size)).reshape(p.shape)
            if p.grad is None or not self.used[k]:
                p.grad = Tensor(mean.astype(p.dtype))  # another one may be held by the user
            else:
                p.grad.data[...] = mean
                note_write(p.grad.data, "DataParallel's mean over ranks")


def plan(
    order: Sequence[int], parameters: Sequence[Tensor], bucket_bytes: int, first_bytes: int
) -> list[list[int]]:
    """Numbers of parameters by bucket, in the order in which buckets fill: `order` cut into pieces.

    A bucket takes parameters of one dtype and device up to bucket_bytes; the first one ends at
    first_bytes, to begin communication early.
    """
    open_buckets: dict[Any, list[int]] = {}
    weights: dict[Any, int] = {}
    full: list[list[int]] = []
    for i in order:
        p = parameters[i]
        kind = (str(p.dtype), device_of(p.data))
        open_buckets.setdefault(kind, []).append(i)
        weights[kind] = weights.get(kind, 0) + p.data.nbytes
        if weights[kind] >= (bucket_bytes if full else first_bytes):
            full.append(open_buckets.pop(kind))
            del weights[kind]
    return full + list(open_buckets.values())


def _on_device(x: Any) -> Any:
    """The GPU on which x lies, as the current one; nothing for host arrays."""
    return x.device if hasattr(x, "get") else contextlib.nullcontext()
