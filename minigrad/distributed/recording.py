"""One event log for each rank, on a common clock.

    with mg.distributed.event_log("run.jsonl") as log:      # run.rank-0.jsonl, run.rank-1.jsonl, …
        train()

then `minigrad-profile merge run.rank-*.jsonl --chrome trace.json`. Each log begins with a mark that
names its rank and the moment at which a barrier let all ranks go. Merging aligns these moments,
independently of the machines' clocks.
"""

import os
from time import perf_counter_ns
from typing import Any

from ..engine import events
from ..instrument.event_log import event_log as _event_log
from .ranks import world


class event_log(_event_log):
    """mg.event_log with the rank in the file's name; every rank enters it at the same place."""

    def __init__(self, path: str | os.PathLike, *args: Any, **kwargs: Any):
        here = world()
        stem, suffix = os.path.splitext(os.fspath(path))
        self._rank, self._size = here.rank, here.size
        super().__init__(f"{stem}.rank-{here.rank}{suffix}", *args, **kwargs)

    def __enter__(self) -> "event_log":
        super().__enter__()
        here = world()
        here.agree("event_log")
        here.wait(here.transport("cpu").barrier(), "the common start of the event logs")
        now = perf_counter_ns()
        events.tell("marked", "rank", f"{self._rank} of {self._size}", now, now, None)
        return self
