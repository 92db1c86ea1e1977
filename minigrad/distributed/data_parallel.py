"""DataParallel: every rank has the model and a part of the batch; gradients are averaged.

    mg.distributed.init()
    model = mg.distributed.DataParallel(model)
    loss = criterion(model(x), target)      # this rank's part of the batch
    loss.backward()                         # .grad: the mean over ranks, the same bits on each
    optimizer.step()

A backward hands over each parameter's gradient as soon as it is complete (the leaf-ready hook).
It is copied into its bucket. When a bucket is full, and all before it have been started, its sum
over the ranks starts and runs during the rest of the backward. The end of the backward waits.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..backends.device import array_module, device_of
from ..backends.leaving import contextmanager
from ..engine import events
from ..engine.errors import describe
from ..instrument.variables import switch
from ..modes import hooks
from ..modes.recording import is_grad_enabled
from ..nn import Module
from . import buckets, progress
from .collectives import broadcast_together
from .errors import DistributedError
from .ranks import named, world


@dataclass
class Timeline:
    """One backward's communication, in nanoseconds from its first complete gradient.

    ready, begun, ended   for each bucket: when it was full, when its sum began and ended
    done                  when the backward itself had ended
    """

    nbytes: list[int]
    ready: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    done: int = 0

    @property
    def hidden(self) -> float:
        """The fraction of the communication's time that overlapped with the backward, 0 to 1."""
        total = sum(b - a for a, b in zip(self.begun, self.ended))
        if not total:
            return 0.0
        spans = zip(self.begun, self.ended)
        return sum(max(0, min(b, self.done) - a) for a, b in spans) / total


class DataParallel(Module):
    """Wraps a model: a backward leaves the mean of all ranks' gradients in `.grad`.

    bucket_mb          about how many MB one transfer carries (0: one parameter each)
    broadcast_buffers  every training forward begins with rank 0's buffers (running statistics)
    overlap            False: communicate after the backward, to compare (default: True, unless
                       MINIGRAD_DISTRIBUTED_OVERLAP=0)

    At the start parameters and buffers become those of rank 0. If models differ in names, shapes,
    dtypes or count, every rank raises a DistributedError. A parameter that no rank used keeps its
    `.grad`; one that some used gets the mean, with zeros for the others. `timeline` shows the last
    backward's communication. It refuses create_graph=True, since the mean is not recorded: use
    mg.distributed.all_reduce, which is differentiable. The gradients of mg.grad are not averaged,
    since it does not update `.grad`.
    """

    def __init__(
        self,
        module: Module,
        bucket_mb: float = 25.0,
        broadcast_buffers: bool = True,
        overlap: bool | None = None,
    ):
        if not isinstance(module, Module):
            raise TypeError(f"DataParallel wraps a module, got {describe(module)}")
        if not bucket_mb >= 0:
            raise ValueError(f"DataParallel: bucket_mb must be 0 or more, got {bucket_mb}")
        if overlap is None:
            name = "MINIGRAD_DISTRIBUTED_OVERLAP"
            overlap = not os.environ.get(name) or switch(name) is not False
        self.module = module
        self.world = world()
        self.broadcast_buffers = broadcast_buffers
        self.overlap = overlap
        self.synchronizes = True
        self._timeline: Timeline | None = None
        self._on_gpu: tuple | None = None  # CUDA events of the last backward, and its transfers
        self._bucket_bytes = max(1, int(bucket_mb * 2**20))
        _refuse_other_models(module, self.world)
        broadcast_together([*module.parameters(), *module.buffers()], 0, "parameters and buffers")
        self._learned = [p for p in module.parameters() if p.requires_grad]
        if not self._learned:
            raise ValueError("DataParallel: the model has no parameter that requires a gradient")
        kinds = {device_of(p.data).partition(":")[0] for p in self._learned}
        # separate messages: the user's collectives cannot be taken for buckets
        self._transports = {kind: self.world.transport(kind).duplicate() for kind in kinds}
        self._progress = progress.Progress() if self.world.size > 1 and "cpu" in kinds else None
        self._order_is_measured = False
        self._dirty: set[int] = set()  # used since the last exchange
        self._arrange(range(len(self._learned) - 1, -1, -1))
        self._handles = [
            p.register_leaf_ready_hook(lambda p, i=i: self._ready(i))
            for i, p in enumerate(self._learned)
        ]

    @property
    def timeline(self) -> Timeline | None:
        """The communication of the last backward. On a GPU asking for it waits for the GPU."""
        if self._on_gpu is not None and self._timeline is not None:
            began, ended, transfers = self._on_gpu
            requests = [t.request for t in transfers if hasattr(t.request, "begun")]
            read_events(self._timeline, began, ended, requests)
            self._on_gpu = None
        return self._timeline

    # -- forward -----------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        watch = self.world.watchdog
        watch.phase("forward")
        if self.training and self.synchronizes and is_grad_enabled():
            if self.broadcast_buffers:
                broadcast_together(self.module.buffers(), 0, "buffers")
        y = self.module(*args, **kwargs)
        watch.phase("loss or backward" if self.training else "what follows the forward")
        return y

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backwards add to this rank's `.grad` alone; the next one outside averages all."""
        before, self.synchronizes = self.synchronizes, False
        try:
            yield
        finally:
            self.synchronizes = before

    def close(self) -> None:
        """Take the hooks off the parameters and end the communication thread."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    # -- buckets -----------------------------------------------------------------------------

    def _arrange(self, order: Any) -> None:
        """Make the buckets from the order in which gradients become ready."""
        first = min(self._bucket_bytes, 2**20)
        groups = buckets.plan(list(order), self._learned, self._bucket_bytes, first)
        self.buckets = [buckets.Bucket(g, self._learned, self._sum_dtype(g[0])) for g in groups]
        self._bucket_of = {i: bucket for bucket in self.buckets for i in bucket.members}
        self._running = False
        self._reset()

    def _sum_dtype(self, i: int) -> Any:
        p = self._learned[i]
        return self._transports[device_of(p.data).partition(":")[0]].sum_dtype(p.dtype)

    def _reset(self) -> None:
        for bucket in self.buckets:
            bucket.begin()
        self._seen: list[int] = []  # parameters in the order in which they became ready
        self._transfers: list[progress.Transfer] = []

    # -- backward ----------------------------------------------------------------------------

    def _ready(self, i: int) -> None:
        """The gradient of parameter i is complete; the leaf-ready hook calls this."""
        self._dirty.add(i)
        if not self.synchronizes:
            return
        p = self._learned[i]
        if p.grad is not None and p.grad.requires_grad:
            raise DistributedError(
                "DataParallel: the backward runs with create_graph=True, but the mean over ranks "
                "would not be recorded. Take mg.grad of the module inside (model.module) and "
                "average with mg.distributed.all_reduce, which is differentiable"
            )
        if not self._running:
            self._begin_backward()
        hooks.call_after_backward(self._finish)
        self._seen.append(i)
        self._bucket_of[i].fill(i, True)
        self._start_full()

    def _begin_backward(self) -> None:
        for number in range(len(self._transfers)):
            self._wait(number)  # of a backward that ended with an error: they use the buffers
        self._reset()
        self._running = True
        self._t0 = perf_counter_ns()
        self._timeline = Timeline([bucket.nbytes for bucket in self.buckets])
        self._began = _event(self.buckets[0].buffer)
        self.world.watchdog.phase("backward")

    def _start_full(self) -> None:
        """Start the buckets that are full, in their fixed order: the same on every rank."""
        while len(self._transfers) < len(self.buckets):
            bucket = self.buckets[len(self._transfers)]
            if bucket.missing or (self._running and not self.overlap):
                return
            self._transfers.append(self._start(bucket))

    def _start(self, bucket: buckets.Bucket) -> progress.Transfer:
        assert self._timeline is not None
        self._timeline.ready.append(perf_counter_ns() - self._t0)
        bucket.seal()
        number = len(self._transfers) + 1
        name = f"all_reduce bucket {number}/{len(self.buckets)} ({bucket.nbytes / 1e6:.1f} MB)"
        transport = self._transports["cuda" if hasattr(bucket.buffer, "get") else "cpu"]
        if transport.device == "cpu" and self._progress is not None:
            return self._progress.submit(lambda: transport.all_reduce(bucket.buffer, "sum"), name)
        return progress.of_gpu(transport.all_reduce(bucket.buffer, "sum"), name)

    def _finish(self) -> None:
        """The backward has ended: start what is left, wait for all, give out the means."""
        assert self._timeline is not None
        self._running = False
        self._timeline.done = perf_counter_ns() - self._t0
        ended = _event(self.buckets[0].buffer)
        for bucket in self.buckets:
            for i in bucket.members if bucket.missing else ():
                if i not in self._seen:
                    bucket.fill(i, i in self._dirty)
        self._start_full()
        self.world.collectives += 1
        for number, bucket in enumerate(self.buckets):
            self._wait(number)
            bucket.unpack(self.world.size)
        self._dirty.clear()
        if ended is not None:
            self._on_gpu = self._began, ended, self._transfers
        else:
            self._note_times()
        self._transfers = []
        if not self._order_is_measured:
            self._rebuild()
        self.world.watchdog.phase("what follows the backward")

    def _wait(self, number: int) -> None:
        transfer = self._transfers[number]
        if hasattr(transfer.request, "wait_on_stream"):
            transfer.request.wait_on_stream()  # type: ignore[union-attr]
            return
        what = f"all_reduce of gradients, bucket {number + 1} of {len(self.buckets)}"
        t0 = perf_counter_ns()
        with self.world.watchdog.waiting(what):
            while not transfer.wait_until(0.05):
                self.world.refuse_if_ended()
        if events.listeners:
            events.tell("marked", "waiting", what, t0, perf_counter_ns(), None)

    def _note_times(self) -> None:
        assert self._timeline is not None
        for transfer in self._transfers:
            self._timeline.begun.append(max(0, transfer.begun - self._t0))
            self._timeline.ended.append(max(0, transfer.ended - self._t0))

    def _rebuild(self) -> None:
        """Cut the buckets anew in the order that rank 0 has seen; after the first backward."""
        self._order_is_measured = True
        unseen = [i for i in range(len(self._learned)) if i not in set(self._seen)]
        order = np.array([*self._seen, *unseen[::-1]], np.int64)
        cpu = self.world.transport("cpu")
        self.world.wait(cpu.broadcast(order, 0), "the order of the buckets")
        if [i for bucket in self.buckets for i in bucket.members] != order.tolist():
            self._arrange(order.tolist())


def _event(x: Any) -> Any:
    """A CUDA event in the current stream, if x lies on a GPU."""
    if not hasattr(x, "get"):
        return None
    return array_module(x).cuda.get_current_stream().record()


def read_events(timeline: Timeline, began: Any, ended: Any, requests: list) -> None:
    """Fill in a timeline from CUDA events: times on the GPU, not those of queueing."""
    cupy = sys.modules["cupy"]
    ended.synchronize()

    def since(event: Any) -> int:
        event.synchronize()
        return round(cupy.cuda.get_elapsed_time(began, event) * 1e6)

    timeline.done = since(ended)
    timeline.begun = [max(0, since(request.begun)) for request in requests]
    timeline.ended = [max(0, since(request.ended)) for request in requests]


# -- the same model everywhere ---------------------------------------------------------------------


def _refuse_other_models(module: Module, here: Any) -> None:
    """DistributedError, on every rank, that names the first difference between the models."""
    lines = [
        f"{kind} {name} {x.dtype} {x.shape}" + (" frozen" if not x.requires_grad else "")
        for kind, found in (
            ("parameter", module.named_parameters()),
            ("buffer", module.named_buffers()),
        )
        for name, x in found
    ]
    if here.size == 1:
        return
    texts = here.texts("\n".join(lines))
    own = texts[0].split("\n")
    for text in texts:
        if text == texts[0]:
            continue
        other = text.split("\n")
        same = [r for r, t in enumerate(texts) if t == text]
        at = next((k for k, (a, b) in enumerate(zip(own, other)) if a != b), None)
        if at is None:
            at = min(len(own), len(other))
        mine = own[at] if at < len(own) else "nothing further"
        theirs = other[at] if at < len(other) else "nothing further"
        raise DistributedError(
            f"DataParallel: the models of the ranks differ at entry {at}: rank 0 has {mine} "
            f"({len(own)} entries), {named(same)} has {theirs} ({len(other)} entries). Build the "
            "same model on every rank",
            ranks=(0, *same),
        )
