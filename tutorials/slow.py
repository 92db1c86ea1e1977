"""A training script with five faults, for the profiler to find. docs/profiling.md walks through it.

    minigrad-profile run --html slow.html tutorials/slow.py
    minigrad-profile advice minigrad-profile.jsonl

It fits the distances of random points from the origin by mixing smooth bumps. What is wrong is said
at each place; the profiler is not told.
"""

import argparse

import numpy as np

import minigrad as mg
from minigrad import nn, optim

POINTS, SIDES, BUMPS, WIDTH = 300, 24, 384, 48


class Bumps(nn.Module):
    """Points (n, SIDES) to features (n, BUMPS): how near each point is to each of the centres."""

    def __init__(self) -> None:
        self.centres = nn.Parameter(mg.randn(BUMPS, SIDES, dtype="float32"))
        self.mixing = nn.Parameter(mg.randn(BUMPS, BUMPS, dtype="float32") / BUMPS**0.5)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        # Fault 1, memory: each difference is kept for the backward, (n, BUMPS, SIDES) numbers;
        # ‖x‖² − 2 x·c + ‖c‖² keeps (n, BUMPS).
        square = ((x.reshape(-1, 1, SIDES) - self.centres) ** 2).mean(axis=2)
        near = mg.exp(-square)
        # Fault 2, time: the matrix grows to its 16th power one factor at a time; four squarings do.
        power = self.mixing
        for _ in range(15):
            power = power @ self.mixing
        return near @ power


class Net(nn.Module):
    """Points (n, SIDES) to one number each, (n,)."""

    def __init__(self) -> None:
        self.bumps = Bumps()
        self.hidden = nn.Linear(BUMPS, WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return self.out(mg.tanh(self.hidden(self.bumps(x)))).reshape(-1)


def penalty(weight: mg.Tensor) -> mg.Tensor:
    """The sum of squares of a weight."""
    total = mg.zeros((), dtype="float32")
    # Fault 3, overhead: three ops for each row, each with hardly any work.
    for row in weight:
        total = total + (row * row).sum()
    return total


def main() -> None:
    usage = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    usage.add_argument("--steps", type=int, default=6)
    steps = usage.parse_args().steps
    mg.manual_seed(0)
    points = np.random.default_rng(0).normal(size=(POINTS, SIDES)).astype("float32")
    distances = np.linalg.norm(points, axis=1)
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    # Fault 4, needless work: the points are given, nobody reads their gradient.
    x = mg.tensor(points, requires_grad=True)
    # Fault 5, dtype: np.linspace makes float64, and all that it meets becomes float64 as well.
    importance = np.linspace(1, 2, POINTS)
    for step in range(steps):
        optimizer.zero_grad()
        errors = (model(x) - distances) ** 2
        loss = (errors * importance).mean() + 1e-4 * penalty(model.hidden.weight)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
