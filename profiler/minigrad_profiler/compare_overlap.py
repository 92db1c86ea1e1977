"""The two forms of a data-parallel step compared: communication during the backward, or after it.

    from minigrad_profiler.compare_overlap import compare_overlap
    print(compare_overlap(model, step))     # on every rank

The forms take turns: other programs on the machine disturb both alike.
"""

import copy
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from minigrad import cuda, distributed


@dataclass(slots=True)
class Overlap:
    """Milliseconds a step, over the repeats, each time of the slowest rank.

    hidden       share of the communication that the backward hides in the overlapped form (median)
    same_bits    whether both forms left the same gradients
    """

    ranks: int
    overlapped: list[float]
    plain: list[float]
    hidden: float
    same_bits: bool

    @property
    def gain(self) -> float:
        """How many times as long the plain form takes; the median over pairs of steps."""
        return statistics.median(b / a for a, b in zip(self.overlapped, self.plain, strict=True))

    def __str__(self) -> str:
        lines = [f"data-parallel step on {self.ranks} ranks, {len(self.plain)} pairs"]
        for name, seen in (("overlapped", self.overlapped), ("plain", self.plain)):
            lines.append(f"  {name:<12}{statistics.median(seen):9.2f} ms  (least {min(seen):.2f})")
        bits = "the same bits" if self.same_bits else "DIFFERENT gradients"
        lines.append(
            f"  plain / overlapped {self.gain:.2f}; {self.hidden:.0%} of the communication behind "
            f"the backward; {bits}"
        )
        return "\n".join(lines)


def compare_overlap(
    model: distributed.DataParallel, step: Callable[[], Any], repeats: int = 10
) -> Overlap:
    """Run step() (forward and backward of `model`) in both forms by turns, on every rank.

    Parameters and buffers get their values back before each step and at the end. A step that also
    trains then computes the same gradients in both forms.
    """
    if not isinstance(model, distributed.DataParallel):
        raise TypeError(
            f"compare_overlap: model is a {type(model).__name__}, which communicates nothing; "
            "wrap it: model = mg.distributed.DataParallel(model)"
        )
    before = model.overlap
    values = copy.deepcopy(model.state_dict())
    times: dict[bool, list[float]] = {True: [], False: []}
    hidden: list[float] = []
    gradients: dict[bool, list] = {}
    try:
        for _ in range(repeats + 1):  # the first pair warms up
            for form in (True, False):
                model.overlap = form
                model.load_state_dict(values)
                model.zero_grad()
                distributed.barrier()
                t0 = perf_counter()
                step()
                _wait_for_gpu(model)
                took = (perf_counter() - t0) * 1e3
                times[form].append(float(distributed.all_reduce(np.float64(took), "max")))
                if form and model.timeline is not None:
                    hidden.append(model.timeline.hidden)
                gradients[form] = [
                    p.grad.numpy().copy() for p in model.parameters() if p.grad is not None
                ]
    finally:
        model.overlap = before
        model.load_state_dict(values)
    if not hidden:
        raise ValueError("compare_overlap: step() ran no backward of model(...); run one in it")
    pairs = zip(gradients[True], gradients[False], strict=True)
    same = all(a.tobytes() == b.tobytes() for a, b in pairs)
    share = statistics.median(hidden[1:])
    return Overlap(distributed.size(), times[True][1:], times[False][1:], share, same)


def _wait_for_gpu(model: distributed.DataParallel) -> None:
    """Wait for the GPU: a call returns when its step is only queued there."""
    if any(p.device != "cpu" for p in model.parameters()):
        cuda.synchronize()
