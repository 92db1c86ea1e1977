"""Schedules made of schedules: one after the other, or all at once."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from .arguments import loads_whole, require_state
from .optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .schedule import LRScheduler, warn_if_early


class _OfSchedules(LRScheduler):
    """Base of schedules made of others, whose states are saved with its own."""

    def state_dict(self) -> dict[str, Any]:
        """The base's form, and the states of the schedules."""
        states = [scheduler.state_dict() for scheduler in self.schedulers]
        return {**super().state_dict(), "_schedulers": states}

    def take_state(self, state: Mapping[str, Any]) -> None:
        super().take_state(state)
        for scheduler, saved in _pairs(self, state):
            scheduler.take_state(saved)


class SequentialLR(_OfSchedules):
    """Schedules one after the other: the next begins, at its t = 0, at each milestone

    SWALR and MultiplicativeLR go on from the lr that there is, the others begin with their own. The
    first one begins with the groups' "initial_lr", which OneCycleLR sets wherever it stands.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ):
        self.schedulers = _of_one("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} "
                f"milestones, got {len(milestones)}"
            )
        self._milestones = list(milestones)
        if last_epoch < 0:
            for group in optimizer.param_groups:  # the parts have each set their own
                group["lr"] = group["initial_lr"]
        super().__init__(optimizer, last_epoch)

    def starts(self) -> list[float]:
        return self.schedulers[0].starts()

    def active(self, t: int) -> tuple[LRScheduler, int]:
        """The schedule of step t, and its own t."""
        which = bisect_right(self._milestones, t)
        return self.schedulers[which], t - self._milestones[which - 1] if which else t

    def lrs(self, t: int) -> list[float]:
        scheduler, own = self.active(t)
        if scheduler.continues and own < t:
            return scheduler.onward(self.lrs(t - own - 1), own)
        return scheduler.lrs(own)

    def momenta(self, t: int) -> list[float]:
        scheduler, own = self.active(t)
        return scheduler.momenta(own)

    def carried(self, lrs: list[float], t: int) -> list[float]:
        scheduler, own = self.active(t)
        if own or not t:
            return scheduler.carried(lrs, own)
        return scheduler.onward(lrs, 0) if scheduler.continues else scheduler.lrs(0)


class ChainedScheduler(_OfSchedules):
    """Schedules at once: each scales what the ones before it have set (LambdaLR and cycles do not)

    They are stepped in turn: any mixture gives the same as PyTorch's.
    """

    chains = False

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if not schedulers:
            raise ValueError("ChainedScheduler got no schedules")
        common = schedulers[0].optimizer if optimizer is None else optimizer
        self.schedulers = _of_one("ChainedScheduler", schedulers, common)
        super().__init__(common)

    def step(self) -> None:
        """Step each schedule."""
        warn_if_early(self)
        for scheduler in self.schedulers:
            scheduler.step()
        self.last_epoch += 1

    def _apply(self) -> None:
        """Nothing: the schedules set the learning rates."""

    def lrs(self, t: int) -> list[float]:
        """As a part of a SequentialLR: base times the factors by which each would change it."""
        together = list(self.base_lrs)
        for scheduler in self.schedulers:
            of_groups = zip(together, scheduler.lrs(t), self.base_lrs, strict=True)
            together = [
                lr * own / base if base and scheduler.chains else own for lr, own, base in of_groups
            ]
        return together

    def momenta(self, t: int) -> list[float]:
        cycled = [scheduler.momenta(t) for scheduler in self.schedulers]
        return next((values for values in reversed(cycled) if values), [])

    @loads_whole
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state, PyTorch's too; the groups' learning rates are set at once."""
        require_state(type(self).__name__, state_dict, "_schedulers")
        for scheduler, saved in _pairs(self, state_dict):
            scheduler.load_state_dict(saved)
        last_epoch = self.schedulers[0].last_epoch  # PyTorch's chain has no count
        super().load_state_dict({"last_epoch": last_epoch, **state_dict})


def _pairs(owner: LRScheduler, state: Mapping[str, Any]) -> list[tuple[LRScheduler, Mapping]]:
    """Each part with its saved state; none where the state has none of parts."""
    saved = state.get("_schedulers")
    if saved is None:
        return []
    if len(saved) != len(owner.schedulers):
        raise ValueError(
            f"{type(owner).__name__}.load_state_dict: {len(saved)} schedules given, "
            f"{len(owner.schedulers)} needed"
        )
    return [*zip(owner.schedulers, saved, strict=True)]


def _of_one(owner: str, schedulers: Sequence[Any], optimizer: Any) -> list[LRScheduler]:
    """The schedules as a list; ValueError unless all can be stepped together on the optimizer."""
    if not schedulers:
        raise ValueError(f"{owner} got no schedules")
    for i, scheduler in enumerate(schedulers):
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{owner}: schedulers[{i}] is ReduceLROnPlateau, whose step takes a metric; step "
                "it by itself"
            )
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(f"{owner}: schedulers[{i}] is no schedule, got {scheduler!r}")
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{owner}: schedulers[{i}] belongs to another optimizer")
    return list(schedulers)
