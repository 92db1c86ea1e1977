"""Schedules: the learning rate as a function of how many times `step()` was called.

Each class is one formula, `lr(base, t)`, of a group's first lr and the count t: nothing is carried
from step to step, so a schedule that is resumed, or entered at t, is where it would have been. A
change of group["lr"] by hand lasts until the next `step()`. Names and defaults are PyTorch's.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .optimizer import Optimizer
from .plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class LRScheduler:
    """Base: a subclass gives `lr(base, t)`. Call `step()` after the optimizer's, once an epoch.

    last_epoch   t, the number of calls of step()
    base_lrs     each group's lr at the start, kept in the group as "initial_lr"
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__} takes an optimizer, got {optimizer!r}")
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self._apply()

    def lr(self, base: float, t: int) -> float:
        """The learning rate after t steps of a group that began with `base`."""
        raise NotImplementedError

    def lrs(self, t: int) -> list[float]:
        """The learning rate of every group after t steps."""
        return [self.lr(base, t) for base in self.base_lrs]

    def step(self) -> None:
        """Set the learning rates of the next t."""
        self.last_epoch += 1
        self._apply()

    def _apply(self) -> None:
        for group, lr in zip(self.optimizer.param_groups, self.lrs(self.last_epoch), strict=True):
            group["lr"] = lr

    def get_last_lr(self) -> list[float]:
        """The learning rate of every group, as it is now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What a saved run needs: the count and the first learning rates."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state; the groups' learning rates are set at once."""
        if len(state_dict["base_lrs"]) != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: {len(state_dict['base_lrs'])} groups "
                f"given, {len(self.base_lrs)} needed"
            )
        self.last_epoch = state_dict["last_epoch"]
        self.base_lrs = list(state_dict["base_lrs"])
        self._apply()


class LambdaLR(LRScheduler):
    """base · lr_lambda(t); one function, or a list with one for each group"""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable | list[Callable], last_epoch: int = -1
    ):
        groups = len(optimizer.param_groups)
        self.lr_lambdas = lr_lambda if isinstance(lr_lambda, list) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"LambdaLR: {len(self.lr_lambdas)} functions for {groups} groups")
        super().__init__(optimizer, last_epoch)

    def lrs(self, t: int) -> list[float]:
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(t) for base, function in pairs]


class StepLR(LRScheduler):
    """base · gamma^⌊t / step_size⌋"""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return base * self.gamma ** (t // self.step_size)


class MultiStepLR(LRScheduler):
    """base · gamma^(number of milestones that t has reached)"""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ):
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return base * self.gamma ** bisect_right(self.milestones, t)


class ConstantLR(LRScheduler):
    """base · factor for t < total_iters, then base"""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return base * (self.factor if t < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """base times a factor that goes evenly from start_factor to end_factor in total_iters steps"""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError("LinearLR: start_factor must be in (0, 1], end_factor in [0, 1]")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        share = min(t, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class ExponentialLR(LRScheduler):
    """base · gamma^t"""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return base * self.gamma**t


class PolynomialLR(LRScheduler):
    """base · (1 − t / total_iters)^power, then 0"""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return base * (1 - min(t, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """eta_min + (base − eta_min)(1 + cos(πt / T_max))/2: Loshchilov and Hutter, SGDR, 2017"""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return _cosine(base, self.eta_min, t / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """The cosine from base to eta_min again and again; each period is T_mult times the last

    The first one takes T_0 steps. Loshchilov and Hutter, SGDR, 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ):
        if T_0 < 1 or T_mult < 1:
            raise ValueError(f"T_0 and T_mult must be 1 or more, got {T_0} and {T_mult}")
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        period = self.T_0
        while t >= period:
            if self.T_mult == 1:
                t %= period
            else:
                t -= period
                period *= self.T_mult
        return _cosine(base, self.eta_min, t / period)


class OneCycleLR(LRScheduler):
    """From max_lr/div_factor up to max_lr in a share pct_start of the steps, then far down

    The end is max_lr/(div_factor · final_div_factor); call step() after each batch. With
    cycle_momentum, momentum (or Adam's β₁) goes the other way, from max_momentum to base_momentum
    and back. three_phase: down to the first value, and only then to the end.
    Smith and Topin, Super-Convergence, 2018.
    """

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
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy is 'cos' or 'linear', got {anneal_strategy!r}"
            )
        self.total_steps = total_steps
        self.anneal = _cosine if anneal_strategy == "cos" else _line
        self.cycle_momentum = cycle_momentum
        self.momenta = (max_momentum, base_momentum)
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        top = pct_start * total_steps - 1
        # (step at which a phase ends, value there: 0 start, 1 top, 2 end)
        self.phases = [(top, 1), (total_steps - 1.0, 2)]
        if three_phase:
            self.phases.insert(1, (2 * pct_start * total_steps - 2, 0))
        groups = optimizer.param_groups
        tops = max_lr if isinstance(max_lr, list) else [max_lr] * len(groups)
        for group, value in zip(groups, tops, strict=True):
            group["initial_lr"] = value / div_factor
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return self._at(t, (base, base * self.div_factor, base / self.final_div_factor))

    def _at(self, t: int, values: tuple[float, float, float]) -> float:
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
        return self.anneal(values[start], values[goal], (t - begin) / (end - begin))

    def _apply(self) -> None:
        super()._apply()
        if self.cycle_momentum:
            high, low = self.momenta
            value = self._at(self.last_epoch, (high, low, high))
            for group in self.optimizer.param_groups:
                if "betas" in group:
                    group["betas"] = (value, *group["betas"][1:])
                elif "momentum" in group:
                    group["momentum"] = value
                else:
                    raise ValueError("OneCycleLR: no momentum to cycle; cycle_momentum=False")


class SequentialLR(LRScheduler):
    """Schedules one after the other: the next begins, at its t = 0, at each milestone"""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ):
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} "
                f"milestones, got {len(milestones)}"
            )
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        super().__init__(optimizer, last_epoch)

    def lrs(self, t: int) -> list[float]:
        which = bisect_right(self.milestones, t)
        return self.schedulers[which].lrs(t - self.milestones[which - 1] if which else t)


class ChainedScheduler(LRScheduler):
    """Schedules at once: base times the factors by which each would change it"""

    def __init__(self, schedulers: list[LRScheduler], optimizer: Optimizer | None = None):
        self.schedulers = list(schedulers)
        super().__init__(optimizer or self.schedulers[0].optimizer)

    def lrs(self, t: int) -> list[float]:
        together = list(self.base_lrs)
        for scheduler in self.schedulers:
            pairs = zip(together, scheduler.lrs(t), self.base_lrs, strict=True)
            together = [lr * own / base if base else lr for lr, own, base in pairs]
        return together


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share
