"""How the progress of a training is shown: a bar by rich, plain lines, or nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def line(epoch: int, epochs: int, numbers: dict[str, float]) -> str:
    """epoch 3/10  loss 0.2145  lr 0.001  val_loss 0.2431"""
    parts = [f"epoch {epoch}/{epochs}", *(f"{name} {v:.4g}" for name, v in numbers.items())]
    return "  ".join(parts)


class Silent:
    """Shows nothing; the base of the others."""

    def __init__(self, epochs: int):
        self.epochs = epochs
        self.epoch = 0

    def start(self, epoch: int, batches: int | None) -> None:
        """An epoch begins; `batches` is how many it has (None: not known)."""
        self.epoch = epoch

    def advance(self, loss: float) -> None:
        """A batch is done."""

    def finish(self, numbers: dict[str, float]) -> None:
        """The epoch is over."""


class Plain(Silent):
    """One line an epoch, for logs and where rich is not installed."""

    def finish(self, numbers: dict[str, float]) -> None:
        """Print the epoch's line."""
        print(line(self.epoch, self.epochs, numbers), flush=True)


class Bar(Silent):
    """A bar for the epoch that runs, and a line above it for each that is over."""

    def __init__(self, epochs: int, progress: Any):
        super().__init__(epochs)
        self.progress = progress
        self.task: Any = None

    def start(self, epoch: int, batches: int | None) -> None:
        """Put a new bar in place of the last epoch's."""
        super().start(epoch, batches)
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(f"epoch {epoch}/{self.epochs}", total=batches, loss="")

    def advance(self, loss: float) -> None:
        """Move the bar by one batch and show its loss."""
        self.progress.update(self.task, advance=1, loss=f"loss {loss:.4g}")

    def finish(self, numbers: dict[str, float]) -> None:
        """Print the epoch's line above the bar."""
        self.progress.console.print(line(self.epoch, self.epochs, numbers), highlight=False)


@contextmanager
def display(progress: str | bool, epochs: int) -> Iterator[Silent]:
    """What fit's `progress` asks for."""
    if progress not in (True, False, "plain", "rich"):
        raise ValueError(f"fit: progress is True, False, 'plain' or 'rich', got {progress!r}")
    if progress is False:
        yield Silent(epochs)
        return
    try:
        from rich import progress as rich
    except ImportError:
        rich = None
    if rich is None or progress == "plain" or (progress is True and not sys.stdout.isatty()):
        yield Plain(epochs)
        return
    columns = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn()
    with rich.Progress(
        *columns, rich.TimeRemainingColumn(), rich.TextColumn("{task.fields[loss]}"),
        transient=True,
    ) as bar:  # fmt: skip
        yield Bar(epochs, bar)
