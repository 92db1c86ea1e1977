"""Base of schedules: a formula of the steps taken, and learning rates set from it."""

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from ..tensor_api.help import Checked
from .arguments import at_least_zero, loads_whole, require_state
from .optimizer import Group, Optimizer


class Saved(Checked):
    """Base of schedules: the saved state is its options and its counts.

    That is every attribute made of numbers, texts, arrays, dicts, lists and tuples, under its name,
    which is PyTorch's.

    unsaved     names of attributes that are not saved
    functions   names of attributes that hold functions: these are not saved, but of other callable
                objects their attributes are
    """

    unsaved = frozenset({"optimizer", "schedulers", "_own"})
    functions: tuple[str, ...] = ()

    def saved_attributes(self) -> dict[str, Any]:
        """The attributes that are saved; copies."""
        kept = {
            name: _of_functions(value) if name in self.functions else _encoded(value)
            for name, value in vars(self).items()
            if name not in self.unsaved
        }
        return {name: value for name, value in kept.items() if value is not _NOT_SAVED}

    def take_state(self, state: Mapping[str, Any]) -> None:
        """Set attributes from a saved state; those that it lacks stay what they are."""
        owner, own = f"{type(self).__name__}.load_state_dict", vars(self)
        known = {k: v for k, v in state.items() if self._takes(k)}
        for name, value in known.items():
            if isinstance(own.get(name), PerGroup) and len(value) != len(own[name]):
                raise ValueError(
                    f"{owner}: {len(value)} values of {name} given, {len(own[name])} needed, one "
                    "for each group of the optimizer"
                )
        for name, value in known.items():
            if name in self.functions:
                _set_functions(own[name], value)
            else:
                setattr(self, name, _decoded(own.get(name), value))

    def _takes(self, name: str) -> bool:
        """Whether an entry of a saved state is an attribute, and no business of the class."""
        if name in self.unsaved:
            return False
        if name in vars(self):
            return name in self.functions or _encoded(vars(self)[name]) is not _NOT_SAVED
        of_class = getattr(type(self), name, None)
        return not (name in _PYTORCHS or callable(of_class) or hasattr(of_class, "__get__"))


class LRScheduler(Saved):
    """Base: a subclass gives `lr(base, t)`. Call `step()` after the optimizer's, once an epoch.

    It may give `get_lr()` instead, as PyTorch's do: the learning rates of all groups, from
    last_epoch, base_lrs and the optimizer's groups.

    last_epoch   t, the number of calls of step(). Given when a schedule is made anew for a run that
                 goes on: the one that was reached less 1
    base_lrs     each group's lr at the start, kept in the group as "initial_lr"
    chains       whether the schedule scales an lr that something else has changed (by hand, or
                 another schedule stepped with it); else it sets its own value again
    continues    whether, as a later part of a SequentialLR, it goes on from the lr that the part
                 before has left (see `onward`); else it begins with its own
    floor        the part that is not scaled then: the lr that the schedule goes down to, for any
    base
    schedulers   those that it is made of, if any

    A group added to the optimizer later starts from its lr. The rest of the schedule scales that
    lr; where the schedule sets values itself, it is the base.
    """

    chains = True
    continues = False
    floor = 0.0
    schedulers: Sequence["LRScheduler"] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "get_lr" in vars(cls):
            cls.chains = False  # it reads the groups itself, if it is to go on from what there is

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = checked(type(self).__name__, optimizer)
        groups = optimizer.param_groups
        for i, group in enumerate(groups):
            if last_epoch >= 0 and "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: group {i} has no 'initial_lr' to go on from at "
                    f"last_epoch={last_epoch}; load the optimizer's saved state first"
                )
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in groups]
        self.last_epoch = last_epoch + 1
        # the lrs that this schedule has set: something else has changed a group's lr that differs
        self._own: list = self.starts() if last_epoch < 0 else self.get_last_lr()
        self._apply()

    def lr(self, base: float, t: int) -> float:
        """The learning rate after t steps of a group that began with `base`."""
        raise NotImplementedError

    def lrs(self, t: int) -> list[float]:
        """The learning rate of every group after t steps."""
        if type(self).get_lr is LRScheduler.get_lr:
            return [self.lr(base, t) for base in self.base_lrs]
        self.last_epoch, now = t, self.last_epoch
        try:
            return list(self.get_lr())
        finally:
            self.last_epoch = now

    def starts(self) -> list[float]:
        """The learning rates of the groups where nothing else has set them."""
        return list(self.base_lrs)

    def first(self, i: int) -> float:
        """The base of group i."""
        group = self.optimizer.param_groups[i]
        return group.get("initial_lr", group["lr"])

    def momenta(self, t: int) -> list[float]:
        """The momentum (or Adam's β₁) of every group after t steps; none if it stays as it is."""
        return []

    def carried(self, lrs: list[float], t: int) -> list[float]:
        """What step t makes of learning rates that something else has changed."""
        if not self.chains:
            return self.lrs(t)
        before, after = self.share(t - 1) if t else 1.0, self.share(t)
        pairs = zip(lrs, self.base_lrs, strict=True)
        if before == 0:  # nothing is left that could be scaled
            return [lr + (base - self.floor) * after for lr, base in pairs]
        return [self.floor + (lr - self.floor) * after / before for lr in lrs]

    def onward(self, lrs: list[float], t: int) -> list[float]:
        """What t steps make of learning rates that another schedule has left, if it continues."""
        raise NotImplementedError

    def share(self, t: int) -> float:
        """How much of base − floor the lr is above the floor after t steps."""
        return self.lr(1.0, t)

    def step(self, epoch: float | None = None) -> None:
        """Set the learning rates of the next t, or those that the formula has for t = epoch.

        Where the formula allows it, as CosineAnnealingWarmRestarts', epoch may be a fraction.
        """
        if epoch is None:
            warn_if_early(self)
            self.last_epoch += 1
            self._apply()
            return
        if not epoch >= 0:
            raise ValueError(f"{type(self).__name__}.step: epoch must be 0 or more, got {epoch}")
        t: Any = epoch
        self.last_epoch = t
        self.take_in()
        self._own = self.lrs(t)
        self._set(self._own, t)

    def take_in(self) -> None:
        """Schedule the groups that the optimizer has been given since the schedule was made."""
        groups = self.optimizer.param_groups
        widened(self, groups)
        for i in range(len(self.base_lrs), len(groups)):
            self.base_lrs.append(self.first(i))
            groups[i].setdefault("initial_lr", self.base_lrs[i])
            self._own.append(None)  # it has not set that one
        for scheduler in self.schedulers:
            scheduler.take_in()

    def get_lr(self) -> list[float]:
        """The learning rate of every group for this step; get_last_lr tells what they are."""
        t, current, own = self.last_epoch, self.get_last_lr(), self._own
        lrs = self._own = self.lrs(t)
        if current != own:
            of_groups = zip(current, own, lrs, self.carried(current, t), strict=True)
            lrs = [lr if now == was else moved for now, was, lr, moved in of_groups]
        return lrs

    def _apply(self) -> None:
        self.take_in()
        self._set(self.get_lr(), self.last_epoch)

    def _set(self, lrs: Sequence[float], t: int) -> None:
        groups = self.optimizer.param_groups
        for group, lr in zip(groups, lrs, strict=True):
            group["lr"] = lr
        for group, value in zip(groups, self.momenta(t), strict=False):
            if "betas" in group:
                group["betas"] = (value, *group["betas"][1:])
            else:
                group["momentum"] = value

    def get_last_lr(self) -> list[float]:
        """The learning rate of every group, as it is now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state for a saved run: the schedule's options, its count, the present learning rates.

        Functions (lr_lambda, scale_fn) are not saved: the schedule that loads it has its own.
        """
        return {**self.saved_attributes(), "_last_lr": self.get_last_lr()}

    @loads_whole
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state, PyTorch's too; the groups' learning rates are set at once.

        The options that the state holds replace those that the schedule was made with. PyTorch's
        OneCycleLR and SWALR keep some in the optimizer: load the optimizer's state first.
        """
        require_state(type(self).__name__, state_dict, "last_epoch")
        self.take_state(state_dict)
        self._own = self.lrs(self.last_epoch)
        self._set(state_dict.get("_last_lr", self._own), self.last_epoch)

    def take_state(self, state: Mapping[str, Any]) -> None:
        """Set attributes from a saved state, but no learning rate."""
        base_lrs = state.get("base_lrs", self.base_lrs)
        if len(base_lrs) != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: {len(base_lrs)} groups given, "
                f"{len(self.base_lrs)} needed"
            )
        super().take_state(state)
        # -1: of a part of PyTorch's SequentialLR that has not begun
        self.last_epoch = max(self.last_epoch, 0)


def warn_if_early(schedule: Any) -> None:
    """A warning where a schedule takes its first step before its optimizer has taken any.

    It is given once for an optimizer. Where a saved state was loaded, a step came before it was
    saved; and of an optimizer that does not tell (`begun`) nothing is said.
    """
    optimizer = schedule.optimizer
    told = getattr(optimizer, "begun", True) or not hasattr(optimizer.step, "__wrapped__")
    if told or schedule.last_epoch > 0:
        return
    optimizer.begun = True
    name = type(schedule).__name__
    warnings.warn(
        f"{name}.step() before the first {type(optimizer).__name__}.step(): the schedule is a turn "
        "ahead, and its first learning rate is skipped. In each turn call optimizer.step() first, "
        "then the schedule's step()",
        stacklevel=3,
    )


def checked(owner: str, optimizer: Any) -> Any:
    """The optimizer, or what has groups like one; TypeError if it is something else."""
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(f"{owner} takes an optimizer, got {optimizer!r}")
    return optimizer


def above_zero(owner: str, **options: Any) -> None:
    """Refuse options that are not numbers above 0, by name."""
    for name, value in options.items():
        at_least_zero(owner, **{name: value})
        if value == 0:
            raise ValueError(f"{owner}: {name} must be above 0, got {value}")


class PerGroup(list):
    """One value for each group, from one for all or a sequence of as many."""

    def __init__(self, owner: str, name: str, value: Any, groups: Sequence):
        self.owner, self.name = owner, name
        self.for_all = not isinstance(value, list | tuple)
        super().__init__([value] * len(groups) if self.for_all else value)
        if len(self) != len(groups):
            raise ValueError(f"{owner}: {len(self)} values of {name} for {len(groups)} groups")

    def replaced(self, values: Sequence) -> "PerGroup":
        """The same with other values, of which there are as many."""
        new = PerGroup(self.owner, self.name, [*values], values)
        new.for_all = self.for_all and all(value == new[0] for value in new)
        return new

    def widen(self, groups: list[Group]) -> None:
        """Have a value for each of more groups; ValueError if each was given its own."""
        more = len(groups) - len(self)
        if more > 0 and not self.for_all:
            raise ValueError(
                f"{self.owner}: the optimizer has {len(groups)} groups by now, and {self.name} was "
                f"given for {len(self)}; make the schedule anew after add_param_group, with a "
                "value for each group and last_epoch"
            )
        self.extend(self[:1] * more)


_NOT_SAVED: Any = object()
_PYTORCHS = frozenset(  # further entries in PyTorch's saved schedules, without a counterpart here
    "_step_count _is_initial _get_lr_called_within_step _last_lr _schedulers verbose T_cur T_i "
    "use_beta1 _scale_fn_custom default_min_lr mode_worse".split()
)


def _encoded(value: Any) -> Any:
    """A copy of the value as it is saved, or _NOT_SAVED."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "shape") and hasattr(value, "copy"):
        return value.copy()
    if isinstance(value, Mapping):
        copied = {k: _encoded(v) for k, v in value.items()}
        whole = all(isinstance(k, str | int) for k in copied)
        return copied if whole and all(v is not _NOT_SAVED for v in copied.values()) else _NOT_SAVED
    if isinstance(value, list | tuple):
        parts = [_encoded(part) for part in value]
        if any(part is _NOT_SAVED for part in parts):
            return _NOT_SAVED
        return tuple(parts) if isinstance(value, tuple) else parts
    return _NOT_SAVED


def _decoded(own: Any, saved: Any) -> Any:
    """The saved value in the form of the attribute that the schedule has."""
    if isinstance(own, PerGroup):
        return own.replaced(saved)
    if isinstance(own, tuple) and isinstance(saved, list):  # JSON has no tuples
        return tuple(saved)
    return copy.deepcopy(saved)


def _of_functions(value: Any) -> Any:
    """The attributes of a callable object, of each in a list; None for a function."""
    if isinstance(value, list):
        return [_of_functions(fn) for fn in value]
    state = _encoded(_state_of(value))
    return None if state is _NOT_SAVED else state


def _set_functions(own: Any, saved: Any) -> None:
    """Set the attributes of callable objects to the saved ones."""
    if isinstance(own, list):
        for fn, state in zip(own, saved, strict=True):
            _set_functions(fn, state)
    elif saved and _state_of(own) is not None:
        vars(own).update(copy.deepcopy(dict(saved)))


def _state_of(fn: Any) -> dict[str, Any] | None:
    """The attributes of a callable object; None for a function."""
    return (
        None if isinstance(fn, FunctionType | MethodType | type) else getattr(fn, "__dict__", None)
    )


def widened(schedule: Any, groups: list[Group]) -> None:
    """Widen all that a schedule has by group."""
    for value in list(vars(schedule).values()):
        if isinstance(value, PerGroup):
            value.widen(groups)


def with_momentum(owner: str, groups: list[Group]) -> None:
    """Refuse groups without a momentum to cycle."""
    if not all("betas" in group or "momentum" in group for group in groups):
        raise ValueError(f"{owner}: no momentum to cycle; pass cycle_momentum=False")


def cosine(start: float, end: float, share: float) -> float:
    """Half a period of the cosine, from start (share 0) to end (share 1)."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def line(start: float, end: float, share: float) -> float:
    """The straight line from start (share 0) to end (share 1)."""
    return start + (end - start) * share


def annealing(owner: str, strategy: str) -> Any:
    """The function of this name; ValueError for another."""
    if strategy not in ("cos", "linear"):
        raise ValueError(f"{owner}: anneal_strategy is 'cos' or 'linear', got {strategy!r}")
    return cosine if strategy == "cos" else line
