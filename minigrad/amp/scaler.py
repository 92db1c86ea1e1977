"""GradScaler: multiply the loss, to keep small gradients from vanishing in float16.

The gradients are divided by the same factor before the optimizer steps. Where one of them is Inf or
NaN the step is left out and the factor falls; after a while without any it grows.

Micikevicius et al., Mixed Precision Training, 2018, section 3.2.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator
from ..engine.graph import wrap
from ..optim.optimizer import Optimizer
from ..tensor_api.composite import on_its_gpu
from ..tensor_api.tensor import Tensor

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Scales losses and unscales gradients: torch.amp.GradScaler's methods and defaults.

    init_scale       the first factor
    growth_factor    what it is multiplied by after growth_interval updates without Inf or NaN
    backoff_factor   what it is multiplied by where there was one
    enabled          False: every method passes through
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        if not init_scale > 0:
            raise ValueError(f"GradScaler: init_scale must be above 0, got {init_scale}")
        self.device = device
        self._scale = float(init_scale)
        self.set_growth_factor(growth_factor)
        self.set_backoff_factor(backoff_factor)
        self.set_growth_interval(growth_interval)
        self._enabled = enabled
        self._growth_tracker = 0
        self._seen: dict[int, tuple[Optimizer, str, bool]] = {}  # id -> (it, stage, found Inf)

    def is_enabled(self) -> bool:
        """Whether losses are scaled at all."""
        return self._enabled

    def get_scale(self) -> float:
        """The factor in use now; 1.0 where the scaler is not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, value: float) -> None:
        """Set the factor by which the scale grows; ValueError unless it is above 1."""
        if not value > 1:
            raise ValueError(f"GradScaler: growth_factor must be above 1, got {value}")
        self._growth_factor = float(value)

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks after an Inf or NaN."""
        return self._backoff_factor

    def set_backoff_factor(self, value: float) -> None:
        """Set the factor by which the scale shrinks; ValueError unless it is between 0 and 1."""
        if not 0 < value < 1:
            raise ValueError(f"GradScaler: backoff_factor must be between 0 and 1, got {value}")
        self._backoff_factor = float(value)

    def get_growth_interval(self) -> int:
        """How many updates in a row without Inf or NaN it takes for the scale to grow."""
        return self._growth_interval

    def set_growth_interval(self, value: int) -> None:
        """Set that number of updates; ValueError unless it is 1 or more."""
        if value < 1:
            raise ValueError(f"GradScaler: growth_interval must be 1 or more, got {value}")
        self._growth_interval = int(value)

    def scale(self, outputs: Any) -> Any:
        """outputs · scale, for a tensor or a nested list, tuple or dict of them.

        16-bit losses are multiplied in float32; their gradients come back in 16 bits.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            wide = accumulator(outputs.dtype)
            return (outputs if wide is None else outputs.astype(wide)) * self._scale
        if isinstance(outputs, Mapping):
            return type(outputs)({key: self.scale(y) for key, y in outputs.items()})  # type: ignore[call-arg]
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(y) for y in outputs])
        raise TypeError(f"GradScaler.scale takes tensors, got {type(outputs).__name__}")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, once before a step.

        For what looks at gradients in between, such as clipping; `step` does it by itself.
        """
        if not self._enabled:
            return
        stage = self._stage(optimizer)
        if stage != _READY:
            raise RuntimeError(
                "GradScaler.unscale_ was called already for this optimizer since the last update()"
                if stage == _UNSCALED
                else "GradScaler.unscale_ is called before step(), not after it"
            )
        found = [self._unscaled(p) for group in optimizer.param_groups for p in group["params"]]
        self._seen[id(optimizer)] = optimizer, _UNSCALED, any(found)

    @on_its_gpu
    def _unscaled(self, p: Tensor) -> bool:
        """Divide one gradient; whether it has an Inf or NaN."""
        if p.grad is None:
            return False
        g = p.grad.data
        if g.dtype == np.float16:
            raise ValueError(
                "GradScaler: a parameter is float16, whose gradient cannot be unscaled without "
                "losing what scaling has saved. Keep parameters in float32; autocast casts them "
                "where ops run"
            )
        found = not bool(array_module(g).isfinite(g).all())
        p.grad = wrap((g * (1.0 / self._scale)).astype(g.dtype, copy=False))
        return found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(...) on unscaled gradients; left out where one is Inf or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if args or kwargs.get("closure") is not None:
            raise RuntimeError("GradScaler.step takes no closure: it would run the scaled backward")
        if self._stage(optimizer) == _STEPPED:
            raise RuntimeError("GradScaler.step was called already since the last update()")
        if self._stage(optimizer) == _READY:
            self.unscale_(optimizer)
        found = self._seen[id(optimizer)][2]
        self._seen[id(optimizer)] = optimizer, _STEPPED, found
        optimizer.begun = True  # a schedule's turn comes, also after a step that is left out
        return None if found else optimizer.step(**kwargs)

    def update(self, new_scale: float | None = None) -> None:
        """Let the scale fall or grow by what the steps since the last update have found."""
        if not self._enabled:
            return
        if new_scale is not None:
            if not float(new_scale) > 0:
                raise ValueError(f"GradScaler.update: the scale must be above 0, got {new_scale}")
            self._scale = float(new_scale)
        elif not self._seen:
            raise RuntimeError("GradScaler.update is called after step() or unscale_()")
        elif any(found for _, _, found in self._seen.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if np.isfinite(np.float32(grown)) else self._scale
                self._growth_tracker = 0
        self._seen.clear()

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles; between unscale_ and update a copy would unscale once more."""
        if self._seen:
            raise RuntimeError(
                "a GradScaler is copied and pickled before scale() or after update(); in between "
                "it knows which optimizers have unscaled gradients, and their copies are others"
            )
        return {**vars(self), "_seen": {}}

    def _stage(self, optimizer: Optimizer) -> str:
        seen = self._seen.get(id(optimizer))
        return seen[1] if seen is not None else _READY

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it moves, to go on from later; {} where the scaler is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state_dict; nothing is changed where a value is missing or out of range."""
        if not self._enabled:
            return
        missing = self.state_dict().keys() - state_dict.keys()
        if missing:
            raise ValueError(
                f"GradScaler.load_state_dict: {sorted(missing)} missing; is it the state of a "
                "scaler that was not enabled?"
            )
        made = GradScaler(
            self.device,
            state_dict["scale"],
            state_dict["growth_factor"],
            state_dict["backoff_factor"],
            state_dict["growth_interval"],
        )
        made._growth_tracker = int(state_dict["_growth_tracker"])
        self.__dict__.update(made.__dict__)
