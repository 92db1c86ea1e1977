"""Train a convnet on real handwritten digits, profile it, draw its graph, check its gradients.

    python tutorials/demo.py [--epochs N] [--out FOLDER] [--target PERCENT]

Exit code 0: done. 1: the accuracy is below the target or a gradient check failed. 130: interrupted.
"""

import os

# The matrices here are small: threads inside one product would wait for each other, not work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import minigrad_viz.cli
from minigrad_profiler.report import write_report

import minigrad as mg
from minigrad import data, nn, optim
from minigrad.instrument.formats import write_whole
from minigrad.testing.case import Context
from minigrad.testing.checks import CHECKS
from minigrad.testing.run import check_ops, load_samples

SEED = 0
BATCH = 32
RATE = 3e-3
CHECKED = ("K1", "K2", "K3", "K10", "K11")  # value, first order, second order, kinks


class DigitNet(nn.Module):
    """Two convolutions, a pooling, two linear layers: images (n, 1, 8, 8) to logits (n, 10)."""

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.dropout = nn.Dropout(0.25)
        self.hidden = nn.Linear(32 * 4 * 4, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        x = mg.relu(self.conv1(x))
        x = mg.relu(self.conv2(x))
        x = mg.max_pool2d(x, 2)
        x = self.dropout(x.reshape(len(x), -1))
        x = mg.relu(self.hidden(x))
        return self.out(x)


# -- training ------------------------------------------------------------------------------------


def accuracy(model: nn.Module, held_out: data.ArrayDataset) -> float:
    """The share of held-out images whose largest logit is at their label, in percent."""
    images, labels = held_out.arrays
    model.eval()
    with mg.no_grad():
        guesses = model(mg.Tensor(images)).numpy().argmax(axis=1)
    model.train()
    return 100 * float((guesses == labels).mean())


def train_epoch(model: nn.Module, optimizer: optim.Optimizer, batches: data.DataLoader) -> float:
    """One pass over the training images; returns the mean loss."""
    total = 0.0
    for x, y in batches:
        optimizer.zero_grad()
        loss = mg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(batches)


def train(
    model: nn.Module,
    training: data.ArrayDataset,
    held_out: data.ArrayDataset,
    epochs: int,
    log: Path,
) -> float:
    """Adam with a rate that falls to zero; the last epoch is logged op by op. The accuracy."""
    optimizer = optim.Adam(model.parameters(), lr=RATE)
    batches = data.DataLoader(training, BATCH, shuffle=True)
    percent = 0.0
    with progress(epochs) as tell:
        for epoch in range(epochs):
            optimizer.param_groups[0]["lr"] = RATE * (1 - epoch / epochs)
            last = epoch == epochs - 1
            with mg.event_log(log, memory=True) if last else contextlib.nullcontext():
                loss = train_epoch(model, optimizer, batches)
            percent = accuracy(model, held_out)
            tell(f"loss {loss:.3f}, held out {percent:.1f} %")
    return percent


@contextlib.contextmanager
def progress(epochs: int) -> Iterator[Callable[[str], None]]:
    """A function to call after each epoch: moves a bar on a terminal, else prints a line."""
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console
            from rich.progress import Progress

            with Progress(console=Console(stderr=True)) as bar:
                task = bar.add_task("training", total=epochs)
                yield lambda text: bar.update(task, advance=1, description=text)
            return
    done = 0

    def tell(text: str) -> None:
        nonlocal done
        done += 1
        print(f"epoch {done:2}/{epochs}: {text}", file=sys.stderr, flush=True)

    yield tell


# -- looking at it -------------------------------------------------------------------------------


def draw(model: nn.Module, held_out: data.ArrayDataset, out: Path) -> list[str]:
    """Record one backward, write its graph as JSON, SVG and HTML; the names of the ops in it."""
    with mg.record_backward() as recorded:
        x, y = next(iter(data.DataLoader(held_out, BATCH)))
        mg.cross_entropy(model(x), y).backward()
    model.zero_grad()
    graph = out / "graph.json"
    recorded.save(graph)
    for ending in ("svg", "html"):
        title = "one training step on handwritten digits"
        arguments = [str(graph), "-o", str(graph.with_suffix(f".{ending}")), "--title", title]
        if minigrad_viz.cli.main(arguments) == 130:
            raise KeyboardInterrupt
    nodes = recorded.graph["nodes"] if recorded.graph else []
    return sorted({node["op"] for node in nodes if node["op"]})


def gradcheck(names: Sequence[str]) -> bool:
    """Check the rules of these ops; one line each. Whether all passed."""
    load_samples()
    checks = [check for check in CHECKS if check.id in CHECKED]
    print(f"gradcheck of the {len(names)} ops that the model used ({', '.join(CHECKED)}):")
    passed = True
    for name in names:
        start = perf_counter()
        outcomes = list(check_ops([name], Context(seed=SEED), checks))
        failed = [outcome.check for outcome in outcomes if outcome.status == "fail"]
        count = sum(outcome.comparisons for outcome in outcomes)
        verdict = f"failed {', '.join(failed)}" if failed else "passed"
        seconds = perf_counter() - start
        print(f"  {name:20} {verdict:8} {count:7,} comparisons {seconds:5.1f} s", flush=True)
        passed = passed and not failed
    return passed


def closing(out: Path) -> str:
    """What was written, and how to look at it."""
    commands = Path(sys.executable).parent
    with contextlib.suppress(ValueError):
        commands = commands.relative_to(Path.cwd())
    graph, log = shlex.quote(f"{out}/graph.json"), shlex.quote(f"{out}/events.jsonl")
    return (
        f"wrote {out}/\n"
        "  report.html   the profile of the last epoch: open it in a browser (works offline)\n"
        "  graph.html    one training step, interactive: open it in a browser (works offline)\n"
        "  graph.svg     the same as a picture: open it in a browser\n"
        f"  graph.json    its data; draw it otherwise: {commands}/minigrad-viz {graph} -o g.dot\n"
        "  events.jsonl  every op of the last epoch, with times, shapes and source lines:\n"
        f"                {commands}/minigrad-profile view {log} --by scope\n"
        "  profile.json  the table above as data\n"
        f"The profile as a page: {(out / 'report.html').resolve().as_uri()}"
    )


def run(options: argparse.Namespace) -> int:
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    training, held_out = data.train_test_split(data.load_digits(), test=0.2, seed=SEED)
    mg.manual_seed(SEED)
    model = DigitNet()
    count = sum(p.size for p in model.parameters())
    print(f"{model}\n{count:,} parameters; {len(training)} images to train on, "
          f"{len(held_out)} held out", flush=True)  # fmt: skip

    start = perf_counter()
    with mg.profile() as prof:
        percent = train(model, training, held_out, options.epochs, out / "events.jsonl")
    good = percent >= options.target
    print(f"\naccuracy on the held-out fifth: {percent:.2f} % "
          f"({'at least' if good else 'BELOW'} {options.target:g} %), "
          f"{perf_counter() - start:.1f} s\n\n{prof.table()}\n", flush=True)  # fmt: skip
    write_whole(str(out / "profile.json"), prof.json())

    write_report(
        str(out / "events.jsonl"), str(out / "report.html"), title="a convnet on handwritten digits"
    )
    names = draw(model, held_out, out)
    passed = gradcheck(names)
    print(f"\n{closing(out)}")
    return 0 if good and passed else 1


def main(argv: Sequence[str] | None = None) -> int:
    usage = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    usage.add_argument("--epochs", type=int, default=15, help="passes over the data (default 15)")
    usage.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write into")
    usage.add_argument("--target", type=float, default=97, help="accuracy to reach, in percent")
    options = usage.parse_args(argv)
    if options.epochs < 1:
        usage.error("--epochs must be 1 or more")
    try:
        return run(options)
    except KeyboardInterrupt:
        print(f"\ninterrupted; what lies in {options.out}/ is whole", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
