"""A schedule that waits for a measured value to stop improving."""

import math
from collections.abc import Mapping
from typing import Any

from .arguments import loads_whole, require_state
from .optimizer import Optimizer
from .schedule import PerGroup, Saved, checked, warn_if_early, widened


class ReduceLROnPlateau(Saved):
    """lr ← max(lr · factor, min_lr) when a metric has not improved for more than patience steps

    step(metric) after each validation. Improved: better than the best so far by the share
    threshold of it (threshold_mode="rel") or by threshold ("abs"); mode "min" or "max". After a
    reduction nothing is counted for cooldown steps. The share is of the size of a negative best,
    for which PyTorch would take a slightly worse metric as better.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ):
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs") or factor >= 1:
            raise ValueError(
                "ReduceLROnPlateau: mode is 'min' or 'max', threshold_mode 'rel' or 'abs', factor "
                f"below 1; got {mode!r}, {threshold_mode!r}, {factor}"
            )
        self.optimizer = checked("ReduceLROnPlateau", optimizer)
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = PerGroup("ReduceLROnPlateau", "min_lr", min_lr, optimizer.param_groups)
        self.eps = eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether bad metrics are not counted yet, since a reduction is so recent."""
        return self.cooldown_counter > 0

    def is_better(self, value: float) -> bool:
        """Whether a metric counts as an improvement on the best so far."""
        sign = 1 if self.mode == "min" else -1
        margin = self.threshold * (abs(self.best) if self.threshold_mode == "rel" else 1)
        if math.isinf(self.best):
            margin = 0.0
        return sign * value < sign * self.best - margin

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Take in a metric, a number or a tensor of one; reduce the learning rates if it is time.

        epoch, if given, is the count that goes on from here.
        """
        value = float(metrics)
        if epoch is None:
            warn_if_early(self)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0

    def _reduce(self) -> None:
        widened(self, self.optimizer.param_groups)  # groups may have been added since
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            lr = max(group["lr"] * self.factor, least)
            if group["lr"] - lr > self.eps:
                group["lr"] = lr

    def get_last_lr(self) -> list[float]:
        """The learning rate of every group, as it is now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state for a saved run: options, the best metric, the counts and the present lrs."""
        return {**self.saved_attributes(), "_last_lr": self.get_last_lr()}

    @loads_whole
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state, PyTorch's too; the groups' learning rates are set at once.

        The options that the state holds replace those that the schedule was made with.
        """
        counts = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")
        require_state("ReduceLROnPlateau", state_dict, *counts)
        self.take_state(state_dict)
        for group, lr in zip(self.optimizer.param_groups, state_dict.get("_last_lr", ())):
            group["lr"] = lr
