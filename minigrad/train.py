"""A training loop for the usual case: epochs, validation, checkpoints, progress.

    trainer = mg.train.Trainer(model, mg.cross_entropy, optimizer, metrics={"accuracy": accuracy})
    history = trainer.fit(train_loader, validation_loader, epochs=10)

The work on a batch is in `train_step`, which a subclass may override; callbacks see the rest.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from . import nn
from .backends import random
from .backends.leaving import ended_by
from .engine.errors import describe
from .io import load, save
from .io.files import check_name
from .modes.recording import no_grad
from .optim import Optimizer
from .optim.lr_scheduler import ReduceLROnPlateau
from .tensor_api.tensor import Tensor
from .train_display import display

Numbers = dict[str, float]


def accuracy(y: Tensor, target: Any) -> float:
    """The share of rows of y (n, c) whose largest entry is at target (n,)."""
    guesses = y.detach().argmax(axis=-1)
    if guesses.shape != np.shape(target):  # (n,) == (n, 1) would compare each with each
        raise ValueError(
            f"accuracy: y {y.shape} needs one class index a row, a target of shape "
            f"{guesses.shape}; got {np.shape(target)}"
        )
    return float((guesses == target).mean())


class Callback:
    """Functions that Trainer.fit calls as it goes; a subclass defines those it needs.

    One that has a state_dict and a load_state_dict is saved in checkpoints too.
    """

    def on_fit_start(self, trainer: "Trainer") -> None:
        """Before the first epoch, after a checkpoint was loaded (resume=True)."""

    def on_epoch_start(self, trainer: "Trainer") -> None:
        """Before the first batch of an epoch; trainer.epoch epochs are done."""

    def on_batch_end(self, trainer: "Trainer", loss: float) -> None:
        """After the step on a batch, which had this loss."""

    def on_epoch_end(self, trainer: "Trainer", numbers: Numbers) -> None:
        """After validation and the schedule's step. `numbers` is the epoch's entry of history.

        Setting trainer.should_stop ends the training here.
        """

    def on_fit_end(self, trainer: "Trainer") -> None:
        """After the last epoch; not called where fit ends with an exception."""


class EarlyStopping(Callback):
    """Ends the training when `monitor` has not improved for more than `patience` epochs.

    Improved: below the best so far by more than min_delta, above it with mode="max".
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str = "min",
    ):
        if mode not in ("min", "max"):
            raise ValueError(f"EarlyStopping: mode is 'min' or 'max', got {mode!r}")
        self.monitor = monitor
        self.patience = patience
        self.min_delta = min_delta
        self.sign = 1 if mode == "min" else -1
        self.best = math.inf
        self.waited = 0
        self._had_ended = False  # the training of the state that was loaded

    def on_fit_start(self, trainer: "Trainer") -> None:
        """Resumed from a checkpoint in which it had ended, the training has ended."""
        trainer.should_stop |= self._had_ended
        self._had_ended = False

    def on_epoch_end(self, trainer: "Trainer", numbers: Numbers) -> None:
        """Compare the epoch's number with the best; stop when patience is used up."""
        value = self.sign * _chosen(numbers, self.monitor, "EarlyStopping")
        if value < self.best - self.min_delta:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
            trainer.should_stop |= self._is_over()

    def _is_over(self) -> bool:
        return self.waited > self.patience

    def state_dict(self) -> dict[str, Any]:
        """The best value so far and how many epochs have passed since."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.best, self.waited = state["best"], state["waited"]
        self._had_ended = self._is_over()


class Trainer:
    """Trains a model; `history` has the numbers of each epoch, `epoch` how many are done.

    loss        function of (model(*inputs), target), where a batch is (*inputs, target)
    scheduler   a schedule, stepped once an epoch (ReduceLROnPlateau with val_loss, or loss)
    metrics     {name: function of (y, target) -> number}, averaged over the rows of validation
    clip_norm   the most that the norm of all gradients together may be
    checkpoint  a .safetensors or .npz file, written after each epoch and at Ctrl-C: model,
                optimizer, schedule, generators and history; fit(resume=True) then goes on
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        optimizer: Optimizer,
        *,
        scheduler: Any = None,
        metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        callbacks: Iterable[Callback] = (),
        clip_norm: float | None = None,
        checkpoint: str | os.PathLike | None = None,
    ):
        made = hasattr(optimizer, "step") and not isinstance(optimizer, type)
        for name, given, fits, instead in (
            ("model", model, isinstance(model, nn.Module), "an nn.Module, made: Net(), not Net"),
            ("loss", loss, callable(loss), "a function of (model(*inputs), target), mg.mse say"),
            ("optimizer", optimizer, made, "one of mg.optim, Adam(model.parameters()) say"),
        ):
            if not fits:
                raise TypeError(f"Trainer: {name} is {instead}; got {describe(given)}")
        if "loss" in (metrics or {}):
            raise ValueError("Trainer: a metric has another name than 'loss', which is the loss's")
        if scheduler is not None and not hasattr(scheduler, "step"):
            raise TypeError(
                f"Trainer: scheduler is a schedule of mg.optim.lr_scheduler, got {scheduler!r}"
            )
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.metrics = dict(metrics or {})
        self.callbacks = list(callbacks)
        self.clip_norm = clip_norm
        self.checkpoint = checkpoint
        self.epoch = 0
        self.history: list[Numbers] = []
        self.should_stop = False

    # -- the loop ----------------------------------------------------------------------------

    def fit(
        self,
        batches: Iterable,
        validation: Iterable | None = None,
        epochs: int = 1,
        *,
        resume: bool = False,
        progress: str | bool = True,
    ) -> list[Numbers]:
        """Train until `epochs` epochs are done in all; returns the history.

        resume=True goes on from the checkpoint where there is one. progress: True shows a bar
        where rich is installed and the output is a terminal, else a line an epoch; "plain" the
        lines; False nothing. After Ctrl-C the checkpoint holds the last whole epoch, and
        KeyboardInterrupt is raised again. In the first epoch an existing checkpoint stays
        unchanged. A checkpoint that could not be written is an error before the first epoch.
        """
        for name, given in (("batches", batches), ("validation", validation)):
            if hasattr(given, "dtype"):  # its rows would be taken for batches
                raise TypeError(
                    f"Trainer.fit: {name} are pairs (inputs, target), as of "
                    f"data.DataLoader(data.ArrayDataset(x, y), 32); got {describe(given)}"
                )
        if self.checkpoint is not None:
            check_name(self.checkpoint)
        if resume and self.checkpoint is not None and os.path.exists(self.checkpoint):
            self.load_state_dict(load(self.checkpoint))
        self.should_stop = False
        # a checkpoint that is there already may be the work of hours: epoch 0 does not replace it
        begun = self.checkpoint is not None and os.path.exists(self.checkpoint)
        unsaved = None if begun else self._state_if_saved()
        self._tell("on_fit_start")
        try:
            with display(progress, epochs) as show:
                while self.epoch < epochs and not self.should_stop:
                    self._epoch(batches, validation, show)
                    unsaved = self._state_if_saved()
                    self._save(unsaved)
                    unsaved = None
        except KeyboardInterrupt:
            self._save(unsaved)
            raise
        self._tell("on_fit_end")
        return self.history

    def _epoch(self, batches: Iterable, validation: Iterable | None, show: Any) -> None:
        self._tell("on_epoch_start")
        show.start(self.epoch + 1, _length(batches))
        self.model.train()
        total = Average()
        for batch in batches:
            loss = self.train_step(batch)
            total.add(loss, _rows(batch))
            show.advance(loss)
            self._tell("on_batch_end", loss)
        _require_batches(total, f"batches in epoch {self.epoch + 1}")
        numbers: Numbers = {"loss": total.mean, "lr": self.optimizer.param_groups[0]["lr"]}
        if validation is not None:
            numbers |= {f"val_{name}": v for name, v in self.evaluate(validation).items()}
        self.epoch += 1
        self.history.append(numbers)
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(numbers.get("val_loss", numbers["loss"]))
        elif self.scheduler is not None:
            self.scheduler.step()
        self._tell("on_epoch_end", numbers)
        show.finish(numbers)

    def train_step(self, batch: Any) -> float:
        """One step on one batch; returns its loss."""
        *inputs, target = batch
        self.optimizer.zero_grad()
        loss = self.loss(self.model(*inputs), target)
        loss.backward()
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        return loss.item()

    def evaluate(self, batches: Iterable) -> Numbers:
        """{"loss": ..., and each metric}: means over the rows, in evaluation mode, unrecorded."""
        totals = {name: Average() for name in ("loss", *self.metrics)}
        with ended_by(partial(self.model.train, self.model.training)), no_grad():
            self.model.eval()
            for *inputs, target in batches:
                y, n = self.model(*inputs), _rows((target,))
                totals["loss"].add(self.loss(y, target).item(), n)
                for name, metric in self.metrics.items():
                    totals[name].add(float(metric(y, target)), n)
        _require_batches(totals["loss"], "batches to evaluate")
        return {name: total.mean for name, total in totals.items()}

    def _tell(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    # -- saving ------------------------------------------------------------------------------

    def _parts(self) -> dict[str, Any]:
        """What has a state of its own, by name."""
        parts = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}
        parts |= {f"callback {i}": callback for i, callback in enumerate(self.callbacks)}
        return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on, the loaders' own state excepted."""
        states = {name: part.state_dict() for name, part in self._parts().items()}
        own = {"epoch": self.epoch, "history": [dict(numbers) for numbers in self.history]}
        return {**states, **own, "generator": random.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; model, optimizer and callbacks must be made alike."""
        parts = self._parts()
        for name in (*parts, "epoch", "history", "generator"):
            if name not in state:
                raise ValueError(f"the checkpoint has no {name}; it has {[*state]}")
        for name, part in parts.items():
            part.load_state_dict(state[name])
        self.epoch, self.history = state["epoch"], list(state["history"])
        random.set_state(state["generator"])

    def _state_if_saved(self) -> dict[str, Any] | None:
        return self.state_dict() if self.checkpoint is not None else None

    def _save(self, state: dict[str, Any] | None) -> None:
        if state is not None and self.checkpoint is not None:
            save(state, self.checkpoint)


class Average:
    """A running weighted mean."""

    def __init__(self) -> None:
        self.total = 0.0
        self.weight = 0.0

    def add(self, value: float, weight: float) -> None:
        """Take in one number."""
        self.total += value * weight
        self.weight += weight

    @property
    def mean(self) -> float:
        """Σ weight · value / Σ weight; NaN before the first number."""
        return self.total / self.weight if self.weight else math.nan


def _require_batches(seen: Average, what: str) -> None:
    """ValueError where a pass has met no row."""
    if not seen.weight:
        raise ValueError(
            f"Trainer: there are no {what}; a generator is used up after one pass: give a "
            "DataLoader or a list"
        )


def _rows(batch: Any) -> int:
    shape = getattr(batch[-1], "shape", ())
    return shape[0] if shape else 1


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except TypeError:  # a stream does not know
        return None


def _chosen(numbers: Numbers, name: str, who: str) -> float:
    if name not in numbers:
        raise KeyError(f"{who}: there is no {name!r} among {[*numbers]}; is validation given?")
    return numbers[name]
