"""Schedules that go up and down: warm restarts, triangles, one cycle."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .optimizer import Group, Optimizer
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

    def take_state(self, state: Mapping[str, Any]) -> None:
        super().take_state(state)
        self.last_epoch += state.get("T_cur", 0) % 1  # of PyTorch's, whose count is whole


class CyclicLR(LRScheduler):
    """From base_lr up to max_lr in step_size_up steps, down in step_size_down, and again

    A factor multiplies the height max_lr − base_lr: 1 ("triangular"), 1/2^(c−1) in cycle c
    ("triangular2") or gamma^t ("exp_range"). A scale_fn takes c (scale_mode "cycle") or t
    ("iterations"). With cycle_momentum, momentum (or Adam's β₁) goes the other way, from
    max_momentum to base_momentum and back. Call step() after each batch. Smith, Cyclical Learning
    Rates for Training Neural Networks, 2017.
    """

    chains = False
    functions = ("scale_fn",)

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
        self.total_size = (
            step_size_up * 2 if step_size_down is None else (step_size_up + step_size_down)
        )
        self.step_ratio = step_size_up / self.total_size
        self.max_lrs = PerGroup(name, "max_lr", max_lr, groups)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            with_momentum(name, groups)
        self.base_momentums = PerGroup(name, "base_momentum", base_momentum, groups)
        self.max_momentums = PerGroup(name, "max_momentum", max_momentum, groups)
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
        cycle, place = divmod(t, self.total_size)
        up = round(self.step_ratio * self.total_size, 9)  # the step_size_up that it was made with
        share = place / up if place <= up else (self.total_size - place) / (self.total_size - up)
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
        pairs = zip(self.base_momentums, self.max_momentums, strict=True)
        return [high - (high - low) * self.height(t) for low, high in pairs]

    def take_state(self, state: Mapping[str, Any]) -> None:
        if "_scale_fn_custom" in state:  # PyTorch's name
            state = {**state, "scale_fn": state["_scale_fn_custom"]}
        super().take_state(state)
        self.low_lrs = self.low_lrs.replaced(self.base_lrs)


class OneCycleLR(LRScheduler):
    """From max_lr/div_factor up to max_lr in a fraction pct_start of the steps, then far down.

    The end is max_lr/(div_factor · final_div_factor); call step() after each batch. With
    cycle_momentum, momentum (or Adam's β₁) goes the other way, from max_momentum to base_momentum
    and back. With three_phase the lr first goes down to the first value, then to the end. Smith and
    Topin, Super-Convergence, 2018.
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
        annealing(name, anneal_strategy)  # another name is an error here
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            with_momentum(name, groups)
        self.base_momentums = PerGroup(name, "base_momentum", base_momentum, groups)
        self.max_momentums = PerGroup(name, "max_momentum", max_momentum, groups)
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        top = pct_start * total_steps - 1
        ends = [(top, "max_lr"), (total_steps - 1.0, "min_lr")]
        if three_phase:
            ends.insert(1, (2 * pct_start * total_steps - 2, "initial_lr"))
        # PyTorch's form; each phase starts with the lr at which the one before ends
        self._schedule_phases = [
            _phase(start, *end) for (_, start), end in pairwise([_START, *ends])
        ]
        self.max_lrs = PerGroup(name, "max_lr", max_lr, groups)
        for i, group in enumerate(groups):
            group["initial_lr"] = self.first(i)
        super().__init__(optimizer, last_epoch)

    def first(self, i: int) -> float:
        return self.max_lrs[i] / self.div_factor

    def lr(self, base: float, t: int) -> float:
        high, low = base * self.div_factor, base / self.final_div_factor
        return self._at(t, "lr", {"initial_lr": base, "max_lr": high, "min_lr": low})

    def momenta(self, t: int) -> list[float]:
        if not self.cycle_momentum:
            return []
        pairs = zip(self.base_momentums, self.max_momentums, strict=True)
        return [
            self._at(t, "momentum", {"base_momentum": low, "max_momentum": high})
            for low, high in pairs
        ]

    def _at(self, t: int, what: str, values: dict[str, float]) -> float:
        """The lr or momentum after t steps, from the values that phases start and end with."""
        if t > self.total_steps:
            raise ValueError(
                f"OneCycleLR: step {t} of {self.total_steps}; give it as many total_steps as "
                "step() is called"
            )
        begin = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if t <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        # a phase of no length is over when it begins
        share = (t - begin) / (end - begin) if end > begin else 1.0
        anneal = annealing("OneCycleLR", self._anneal_func_type)
        return anneal(values[phase[f"start_{what}"]], values[phase[f"end_{what}"]], share)

    def take_state(self, state: Mapping[str, Any]) -> None:
        super().take_state({**_kept_in_groups(self.optimizer.param_groups), **state})
        self.max_lrs = self.max_lrs.replaced([base * self.div_factor for base in self.base_lrs])


_START = (0.0, "initial_lr")


def _phase(start: str, end_step: float, end: str) -> dict[str, Any]:
    """A phase of OneCycleLR: momentum is low at the top, and high elsewhere."""
    at = {"max_lr": "base_momentum"}
    return {
        "end_step": end_step,
        "start_lr": start,
        "end_lr": end,
        "start_momentum": at.get(start, "max_momentum"),
        "end_momentum": at.get(end, "max_momentum"),
    }


def _kept_in_groups(groups: Sequence[Group]) -> dict[str, Any]:
    """What PyTorch's OneCycleLR keeps in the optimizer's groups, under our names."""
    found: dict[str, Any] = {}
    first = groups[0]
    if all(first.get(name) for name in ("initial_lr", "max_lr", "min_lr")):
        found["div_factor"] = first["max_lr"] / first["initial_lr"]
        found["final_div_factor"] = first["initial_lr"] / first["min_lr"]
    for name in ("base_momentum", "max_momentum"):
        if all(name in group for group in groups):
            found[f"{name}s"] = [group[name] for group in groups]
    return found
