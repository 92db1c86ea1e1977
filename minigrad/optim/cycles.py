"""Schedules that go up and down: warm restarts, triangles, one cycle."""

from collections.abc import Callable
from typing import Any

from .optimizer import Optimizer
from .schedule import LRScheduler, PerGroup, above_zero, annealing, cosine, with_momentum


class CosineAnnealingWarmRestarts(LRScheduler):
    """The cosine from base to eta_min again and again; each period is T_mult times the last

    The first one takes T_0 steps. step(t) goes to any t, such as epoch + batch / batches; step()
    one further. Loshchilov and Hutter, SGDR, 2017.
    """

    chains = False

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ):
        if T_0 < 1 or T_mult < 1:
            raise ValueError(
                "CosineAnnealingWarmRestarts: T_0 and T_mult must be 1 or more, got "
                f"{T_0} and {T_mult}"
            )
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: float) -> float:
        period = self.T_0
        while t >= period:
            if self.T_mult == 1:
                t %= period
            else:
                t -= period
                period *= self.T_mult
        return cosine(base, self.eta_min, t / period)


class CyclicLR(LRScheduler):
    """From base_lr up to max_lr in step_size_up steps, down in step_size_down, and again

    The height max_lr − base_lr is multiplied by a factor: 1 ("triangular"), 1/2^(c−1) in cycle c
    ("triangular2"), gamma^t ("exp_range"), or scale_fn of c (scale_mode "cycle") or of t
    ("iterations"). With cycle_momentum, momentum (or Adam's β₁) goes the other way, from
    max_momentum to base_momentum and back. Call step() after each batch.
    Smith, Cyclical Learning Rates for Training Neural Networks, 2017.
    """

    chains = False

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ):
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                "CyclicLR: mode is 'triangular', 'triangular2' or 'exp_range', or there is a "
                f"scale_fn; got {mode!r}"
            )
        groups, name = optimizer.param_groups, "CyclicLR"
        above_zero(name, step_size_up=step_size_up)
        self.mode, self.gamma = mode, gamma
        self.scale_fn, self.scale_mode = scale_fn, scale_mode
        self.up = step_size_up
        self.total = step_size_up + (step_size_up if step_size_down is None else step_size_down)
        self.max_lrs = PerGroup(name, "max_lr", max_lr, groups)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            with_momentum(name, groups)
            self.base_momenta = PerGroup(name, "base_momentum", base_momentum, groups)
            self.max_momenta = PerGroup(name, "max_momentum", max_momentum, groups)
        self.low_lrs = PerGroup(name, "base_lr", base_lr, groups)
        for group, low in zip(groups, self.low_lrs, strict=True):
            group.setdefault("initial_lr", low)
        super().__init__(optimizer, last_epoch)
        # the first lr is that of a schedule made before, as in PyTorch, whose bases stay its own
        self.base_lrs = list(self.low_lrs)

    def first(self, i: int) -> float:
        return self.low_lrs[i]

    def height(self, t: int) -> float:
        """How far up the lr is after t steps, as a fraction of max_lr − base_lr."""
        cycle, place = divmod(t, self.total)
        rising = place <= self.up
        share = place / self.up if rising else (self.total - place) / (self.total - self.up)
        return share * self.factor(cycle + 1, t)

    def factor(self, cycle: int, t: int) -> float:
        """By how much the height of a cycle is multiplied."""
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else t)
        if self.mode == "triangular2":
            return 0.5 ** (cycle - 1)
        return self.gamma**t if self.mode == "exp_range" else 1.0

    def lrs(self, t: int) -> list[float]:
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * self.height(t) for low, high in pairs]

    def momenta(self, t: int) -> list[float]:
        if not self.cycle_momentum:
            return []
        pairs = zip(self.base_momenta, self.max_momenta, strict=True)
        return [high - (high - low) * self.height(t) for low, high in pairs]


class OneCycleLR(LRScheduler):
    """From max_lr/div_factor up to max_lr in a fraction pct_start of the steps, then far down.

    The end is max_lr/(div_factor · final_div_factor); call step() after each batch. With
    cycle_momentum, momentum (or Adam's β₁) goes the other way, from max_momentum to base_momentum
    and back. three_phase: down to the first value, and only then to the end.
    Smith and Topin, Super-Convergence, 2018.
    """

    chains = False

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0 <= pct_start <= 1:
            raise ValueError(
                "OneCycleLR: at least one step, and pct_start from 0 to 1; got "
                f"{total_steps} steps, pct_start={pct_start}"
            )
        groups, name = optimizer.param_groups, "OneCycleLR"
        above_zero(name, div_factor=div_factor, final_div_factor=final_div_factor)
        self.total_steps = total_steps
        self.anneal = annealing(name, anneal_strategy)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            with_momentum(name, groups)
            self.base_momenta = PerGroup(name, "base_momentum", base_momentum, groups)
            self.max_momenta = PerGroup(name, "max_momentum", max_momentum, groups)
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        top = pct_start * total_steps - 1
        # (step at which a phase ends, value there: 0 start, 1 top, 2 end)
        self.phases = [(top, 1), (total_steps - 1.0, 2)]
        if three_phase:
            self.phases.insert(1, (2 * pct_start * total_steps - 2, 0))
        self.max_lrs = PerGroup(name, "max_lr", max_lr, groups)
        for i, group in enumerate(groups):
            group["initial_lr"] = self.first(i)
        super().__init__(optimizer, last_epoch)

    def first(self, i: int) -> float:
        return self.max_lrs[i] / self.div_factor

    def lr(self, base: float, t: int) -> float:
        return self._at(t, (base, base * self.div_factor, base / self.final_div_factor))

    def momenta(self, t: int) -> list[float]:
        if not self.cycle_momentum:
            return []
        pairs = zip(self.base_momenta, self.max_momenta, strict=True)
        return [self._at(t, (high, low, high)) for low, high in pairs]

    def _at(self, t: int, values: tuple[Any, Any, Any]) -> float:
        if t > self.total_steps:
            raise ValueError(
                f"OneCycleLR: step {t} of {self.total_steps}; give it as many total_steps as "
                "step() is called"
            )
        begin, start = 0.0, 0
        for end, goal in self.phases:
            if t <= end or (end, goal) == self.phases[-1]:
                break
            begin, start = end, goal
        # a phase of no length is over when it begins
        share = (t - begin) / (end - begin) if end > begin else 1.0
        return self.anneal(values[start], values[goal], share)
