"""mg.accelerate: whether large work on the host runs as compiled loops. For the whole process."""

from types import TracebackType

from ..backends.optional import optional
from ..instrument.variables import complain, switch

_on = False


class accelerate:
    """Run large elementwise ops, rows, norms and images as loops compiled by numba.

        mg.accelerate()           # from here on; mg.accelerate(False) switches it off
        with mg.accelerate():     # inside; afterwards as before

    For the whole process, all threads. Results agree with NumPy's to rounding; they do not depend
    on the number of threads. A kernel is compiled at the first call that needs it (some tenths of a
    second), and kept. float32 and float64, contiguous; everything else runs as without it.
    ImportError where numba is missing.
    """

    def __init__(self, mode: bool = True):
        self._before = _on
        _switch(bool(mode))

    def __enter__(self) -> "accelerate":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _switch(self._before)


def is_accelerated() -> bool:
    """Whether mg.accelerate is on."""
    return _on


def _switch(mode: bool) -> None:
    global _on
    if mode == _on:
        return
    if mode and optional("numba") is None:
        raise ImportError(
            "mg.accelerate compiles with numba, which is not installed: "
            "pip install '/path/to/the/checkout[fast]'"
        )
    from . import install

    (install.install if mode else install.uninstall)()
    _on = mode


def from_environment() -> None:
    """MINIGRAD_ACCELERATE=1 switches on; where it cannot be, one line on stderr says so."""
    if not switch("MINIGRAD_ACCELERATE"):
        return
    try:
        _switch(True)
    except ImportError as error:
        complain(f"MINIGRAD_ACCELERATE is ignored: {error}")
