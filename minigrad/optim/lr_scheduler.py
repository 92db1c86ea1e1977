"""Schedules: the learning rate as a function of how many times `step()` was called.

Each class is one formula, `lr(base, t)`, of a group's first lr and the count t. A schedule that is
resumed, or entered at t, therefore continues correctly. If something else changes a learning rate,
the formula's change scales it from then on, as in PyTorch's chainable schedules. The others
(LambdaLR and the cycles) set their value again. Names and defaults are PyTorch's.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..tensor_api.help import missing_names_of as _missing_names_of
from .cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .joined import ChainedScheduler, SequentialLR
from .optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .schedule import LRScheduler, PerGroup, above_zero, annealing, cosine

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SWALR",
    "SequentialLR", "StepLR",
]  # fmt: skip

__getattr__ = _missing_names_of(__name__)

_LRScheduler = LRScheduler  # PyTorch's older name, from which scripts derive their own


class LambdaLR(LRScheduler):
    """base · lr_lambda(t); one function, or a list with one for each group"""

    chains = False
    functions = ("lr_lambdas",)

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable | list[Callable], last_epoch: int = -1
    ):
        groups = optimizer.param_groups
        owner = type(self).__name__
        self.lr_lambdas = PerGroup(owner, "lr_lambda", lr_lambda, groups)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"{owner}: lr_lambda is a function of the count of steps, such as "
                    f"lambda t: 0.95**t; got {function!r}"
                )
        super().__init__(optimizer, last_epoch)

    def lrs(self, t: int) -> list[float]:
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(t) for base, function in pairs]


class MultiplicativeLR(LambdaLR):
    """base · lr_lambda(1) · … · lr_lambda(t); one function, or a list with one for each group"""

    chains = continues = True
    unsaved = LambdaLR.unsaved | {"_reached", "_products"}

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable | list[Callable], last_epoch: int = -1
    ):
        self._reached, self._products = 0, [1.0] * len(optimizer.param_groups)
        super().__init__(optimizer, lr_lambda, last_epoch)

    def lrs(self, t: int) -> list[float]:
        if t < self._reached or len(self._products) < len(self.lr_lambdas):
            self._products, self._reached = [1.0] * len(self.lr_lambdas), 0
        while self._reached < t:  # kept from step to step: one more factor each time
            self._reached += 1
            pairs = zip(self._products, self.lr_lambdas, strict=True)
            self._products = [product * function(self._reached) for product, function in pairs]
        return [base * x for base, x in zip(self.base_lrs, self._products, strict=True)]

    def take_state(self, state: Mapping[str, Any]) -> None:
        super().take_state(state)
        self._reached, self._products = 0, [1.0] * len(self.lr_lambdas)

    def carried(self, lrs: list[float], t: int) -> list[float]:
        if t == 0:
            return lrs
        return [lr * function(t) for lr, function in zip(lrs, self.lr_lambdas, strict=True)]

    def onward(self, lrs: list[float], t: int) -> list[float]:
        self.lrs(t)  # works out the products
        of_groups = zip(lrs, self.lr_lambdas, self._products, strict=True)
        return [lr * function(0) * product for lr, function, product in of_groups]


class StepLR(LRScheduler):
    """base · gamma^⌊t / step_size⌋"""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ):
        above_zero("StepLR", step_size=step_size)
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
        if not isinstance(milestones, Iterable):
            raise TypeError(
                f"MultiStepLR: milestones are counts of steps, such as [30, 80]; got {milestones!r}"
            )
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, base: float, t: int) -> float:
        return base * self.gamma ** sum(n for at, n in self.milestones.items() if at <= t)

    def take_state(self, state: Mapping[str, Any]) -> None:
        super().take_state(state)
        # a file of JSON has made texts of numbers that are keys
        self.milestones = Counter({int(at): n for at, n in self.milestones.items()})


class ConstantLR(LRScheduler):
    """base · factor for t < total_iters, then base

    With total_iters=0 that is base from the start; PyTorch 2.13 keeps to the factor there.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be from 0 to 1, got {factor}")
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
            raise ValueError(
                "LinearLR: start_factor must be in (0, 1], end_factor in [0, 1]; got "
                f"{start_factor} and {end_factor}"
            )
        if total_iters < 1:
            raise ValueError(f"LinearLR: total_iters must be 1 or more, got {total_iters}")
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
        if total_iters < 1:
            raise ValueError(f"PolynomialLR: total_iters must be 1 or more, got {total_iters}")
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
        above_zero("CosineAnnealingLR", T_max=T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    @property
    def floor(self) -> float:  # type: ignore[override]
        return self.eta_min

    def lr(self, base: float, t: int) -> float:
        return cosine(base, self.eta_min, t / self.T_max)

    def share(self, t: int) -> float:
        return cosine(1.0, 0.0, t / self.T_max)


class SWALR(LRScheduler):
    """From the lr there is to swa_lr in anneal_epochs steps, then swa_lr: for averaged weights

    Made at the start and stepped late, it goes from what another schedule has left. Beside EMA;
    Izmailov et al., Averaging Weights Leads to Wider Optima, 2018.
    """

    continues = True

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ):
        if anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be 0 or more, got {anneal_epochs}")
        self.swa_lrs = PerGroup("SWALR", "swa_lr", swa_lr, optimizer.param_groups)
        self.anneal_epochs = anneal_epochs
        annealing("SWALR", anneal_strategy)  # another name is an error here
        self._anneal_strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def share(self, t: int) -> float:
        anneal = annealing("SWALR", self._anneal_strategy)
        return anneal(1.0, 0.0, min(t / self.anneal_epochs, 1.0)) if self.anneal_epochs else 0

    def take_state(self, state: Mapping[str, Any]) -> None:
        in_groups = [group.get("swa_lr") for group in self.optimizer.param_groups]
        if None not in in_groups:  # of PyTorch's
            state = {"swa_lrs": in_groups, **state}
        super().take_state(state)

    def lrs(self, t: int) -> list[float]:
        return self.onward(self.base_lrs, t)

    def onward(self, lrs: list[float], t: int) -> list[float]:
        return [end + (lr - end) * self.share(t) for lr, end in zip(lrs, self.swa_lrs, strict=True)]

    def carried(self, lrs: list[float], t: int) -> list[float]:
        before = self.share(t - 1) if t else 1.0
        left = self.share(t) / before if before else 0.0
        return [end + (lr - end) * left for lr, end in zip(lrs, self.swa_lrs, strict=True)]
