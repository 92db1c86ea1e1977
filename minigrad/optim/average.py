"""An exponential moving average of parameters, to evaluate and save instead of the last ones."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ..backends.device import at
from ..backends.leaving import contextmanager, ended_by
from ..engine.errors import describe
from ..engine.versions import note_write
from ..tensor_api.tensor import Tensor
from .arguments import loads_whole, require_state
from .packs import working_dtype


def _copied(p: Tensor, dtype: Any) -> Any:
    """The parameter's values in new memory, on its GPU."""
    with at(p.data):
        return p.data.astype(dtype)


class EMA:
    """a ← decay·a + (1 − decay)·x after each step, for every parameter x

    With warmup the decay of update t is at most (1 + t)/(10 + t): the first values fade soon.
    Polyak and Juditsky, 1992, average evenly.
    """

    def __init__(self, params: Iterable[Tensor], decay: float = 0.999, warmup: bool = False):
        if isinstance(decay, str) or not 0 <= decay < 1:
            raise ValueError(f"EMA: decay must be in [0, 1), got {decay!r}")
        own: list[Any] = list(params) if hasattr(params, "__iter__") else [params]
        if not all(isinstance(p, Tensor) for p in own):
            raise TypeError(f"EMA: params is {describe(params)}; pass model.parameters()")
        if not own:
            raise ValueError(
                "EMA got no parameters to average; what model.parameters() gives can be read once: "
                "call it anew, or keep list(model.parameters())"
            )
        self.params = own
        self.decay = decay
        self.warmup = warmup
        self.updates = 0
        # in float32 for 16-bit floats, in which the small changes would be lost
        self.averages = [_copied(p, working_dtype(p.data)) for p in self.params]

    def update(self) -> None:
        """Take the parameters' present values into the averages; call it after each step."""
        self.updates += 1
        decay = self.decay
        if self.warmup:
            decay = min(decay, (1 + self.updates) / (10 + self.updates))
        for average, p in zip(self.averages, self.params, strict=True):
            with at(average):
                average += ((p.data - average) * (1 - decay)).astype(average.dtype)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """`with ema.applied():` the parameters hold their averages, afterwards their own values."""
        own = [_copied(p, p.dtype) for p in self.params]
        with ended_by(partial(self._write, own)):
            self._write(self.averages)
            yield

    def _write(self, values: list) -> None:
        for p, value in zip(self.params, values, strict=True):
            with at(p.data):
                p.data[...] = value
            note_write(p.data, "EMA.applied()")

    def state_dict(self) -> dict[str, Any]:
        """{"averages": [...], "updates": n}; copies."""
        return {"averages": [a.copy() for a in self.averages], "updates": self.updates}

    @loads_whole
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state of as many parameters of the same shapes."""
        require_state("EMA", state_dict, "averages", "updates")
        given = [a.data if isinstance(a, Tensor) else a for a in state_dict["averages"]]
        if [a.shape for a in given] != [a.shape for a in self.averages]:
            raise ValueError(
                f"EMA.load_state_dict: shapes {[a.shape for a in given]} given, "
                f"{[a.shape for a in self.averages]} needed"
            )
        loaded = [average.copy() for average in self.averages]
        for average, value in zip(loaded, given, strict=True):
            average[...] = value  # which a value of another kind ends
        self.averages = loaded
        self.updates = state_dict["updates"]
