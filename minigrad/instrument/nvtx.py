"""NVTX ranges: the ops' names on the time line of Nsight Systems, above the kernels they started.

    with mg.cuda.nvtx():
        train()

then `nsys profile python train.py`. A range opens before an op runs and closes after it, in the
thread that runs it. Names are "matmul", or "matmul.backward #12" with the number of the node, and
the scope after it. Ops inside function transforms (grad, vmap, jvp) have no range.
"""

from collections.abc import Callable
from typing import Any

from ..backends import device
from ..backends.leaving import left_always
from ..backends.threads import Local
from ..engine import events, modes


class Ranges:
    """Opens and closes NVTX ranges while entered; one at a time.

    DeviceError without CuPy, a GPU, or NVTX in this CuPy; RuntimeError where one is open already.
    """

    def __init__(self) -> None:
        self._local = Local()  # .open: what this thread's ranges are of, outermost first

    def __enter__(self) -> "Ranges":
        cupy = device.require_gpu("mg.cuda.nvtx")
        nvtx: Any = getattr(cupy.cuda, "nvtx", None)
        if not hasattr(nvtx, "RangePush") or not hasattr(nvtx, "RangePop"):
            raise device.DeviceError(
                "mg.cuda.nvtx needs NVTX, and this CuPy was built without it: install CuPy's wheel "
                "(pip install cupy-cuda13x), or record with mg.event_log(path, device=True)"
            )
        if events.opening is not None:
            raise RuntimeError("mg.cuda.nvtx: ranges are on already")
        self._push: Callable[[str], Any] = nvtx.RangePush
        self._pop: Callable[[], Any] = nvtx.RangePop
        events.opening, events.around = self._open_forward, self._around
        modes.add_check()  # every op then says when it begins
        events.listen(self)
        return self

    @left_always(lambda block: events.listeners.count(block))
    def __exit__(self, *exc: object) -> None:
        events.unlisten(self)
        modes.add_check(-1)
        events.opening = events.around = None
        while self._ranges():
            self._close()

    def _ranges(self) -> list[tuple[str, str]]:
        if not hasattr(self._local, "open"):
            self._local.open = []
        return self._local.open

    def _open(self, kind: str, op: str, name: str) -> None:
        scope = modes.state.scope
        self._push(f"{name} [{scope}]" if scope else name)
        self._ranges().append((kind, op))

    def _close(self) -> None:
        self._ranges().pop()
        self._pop()

    def _open_forward(self, op: str) -> None:
        ranges = self._ranges()
        if ranges and ranges[-1][0] == "forward":  # forwards do not nest: that one has raised
            self._close()
        self._open("forward", op, op)

    def hear(self, event: tuple) -> None:
        """An op's forward is over."""
        ranges = self._ranges()
        if ranges and ranges[-1] == event[:2] == ("forward", event[1]):
            self._close()

    def _around(self, vjp: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
        """The same vjp of nodes, each inside a range."""

        def ranged(node: Any, g: Any, plan: Any) -> Any:
            depth = len(self._ranges())
            self._open("backward", node.op.name, f"{node.op.name}.backward #{node.number}")
            try:
                return vjp(node, g, plan)
            finally:  # with what an error inside has left open
                while len(self._ranges()) > depth:
                    self._close()

        return ranged
