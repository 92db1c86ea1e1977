"""Random training steps give the same bits with mg.compile as without."""

import random
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

SEEDS = 150
ELEMENTWISE = (
    mg.tanh,
    mg.exp,
    mg.sigmoid,
    mg.relu,
    mg.gelu,
    lambda h: h * h,
    lambda h: 2 / (h * h + 1),
)
SIZES = (3, 8, 17)


class Step:
    """A model of random layers with a step that does random things around it.

    What a step does follows from its seed and from the number of the call, never from the clock. A
    call returns all that a user could look at.
    """

    def __init__(self, seed: int):
        self.draw = draw = random.Random(seed)
        mg.manual_seed(seed)
        self.width = draw.choice((2, 4, 6))
        self.layers = [self.layer() for _ in range(draw.randint(1, 4))]
        self.head = nn.Linear(self.width, 3)
        parameters = [p for x in (*self.layers, self.head) if isinstance(x, nn.Module)
                      for p in x.parameters()]  # fmt: skip
        self.parameters = list(dict.fromkeys(parameters))
        kind = draw.choice((mg.optim.SGD, mg.optim.Adam, mg.optim.RMSprop))
        self.optimizer = kind(self.parameters, lr=0.01)
        self.events = draw.sample(
            ("branch", "clip", "accumulate", "twice", "item", "item before", "no_grad", "detach",
             "write", "draw", "numbers", "keep", "by hand", "view", "write input", "freeze",
             "mode", "eps", "new parameter", "swap", "hook", "new array"),
            draw.randint(0, 5),
        )  # fmt: skip
        self.kept: list = []
        self.calls = 0

    def layer(self):
        """One layer: a module, or a function."""
        w = self.width
        made = (
            lambda: nn.Linear(w, w), lambda: nn.LayerNorm(w), lambda: nn.Dropout(0.4),
            lambda: nn.BatchNorm1d(w), lambda: self.draw.choice(ELEMENTWISE),
            lambda: mg.softmax, lambda: lambda h: h[:, ::2].repeat(2, 1)[:, :w],
            lambda: lambda h: (h.T @ h / len(h))[:1] + h,
            lambda: nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.LayerNorm(w), nn.Linear(w, w)),
            lambda: nn.Sequential(nn.LayerNorm(w), nn.GELU(), nn.Dropout(0.3), nn.BatchNorm1d(w)),
            lambda: nn.TransformerEncoderLayer(w, 2, 2 * w, self.draw.choice((0.0, 0.2))),
        )  # fmt: skip
        return self.draw.choice(made)()

    def change(self, number):
        """Change attributes of layers, as a user may between two calls."""
        layers = [x for x in self.layers if isinstance(x, nn.Module)]
        for layer in [inner for x in layers for inner in x.modules()]:
            if "mode" in self.events:
                layer.train(number % 3 != 2)
            if "eps" in self.events and isinstance(layer, nn.LayerNorm):
                layer.eps = 0.1 if number % 4 == 3 else 1e-5
            if "new parameter" in self.events and isinstance(layer, nn.Linear) and number == 4:
                layer.bias = nn.Parameter(layer.bias.data + 1)
            if "new array" in self.events and isinstance(layer, nn.Linear) and number == 3:
                layer.weight.data = layer.weight.data * 2
            if "swap" in self.events and isinstance(layer, nn.Sequential):
                layer[1] = nn.Tanh() if number % 2 else nn.Sigmoid()
            if "hook" in self.events and isinstance(layer, nn.LayerNorm) and number == 5:
                layer.register_forward_hook(lambda layer, args, y: y * 2)

    def __call__(self, x, target):
        events, number = self.events, self.calls
        self.calls += 1
        self.change(number)
        if "accumulate" not in events or number % 2 == 0:
            self.optimizer.zero_grad()
        if "freeze" in events:
            self.head.weight.requires_grad_(number % 3 != 2)
        h = x
        for layer in self.layers:
            h = layer(h)
        if "branch" in events and number % 3 == 1:
            h = mg.tanh(h)
        if "numbers" in events:
            h = h * (number % 2 + 0.5)
        if "view" in events:
            row = x[1:].reshape(-1)
            h = h + row[0]
        if "draw" in events:
            h = h + mg.rand(self.width, dtype="float32")
        if "detach" in events:
            h = h + h.detach() * 0.5
        loss = mg.cross_entropy(self.head(h), target)
        seen = [loss.item()] if "item before" in events else []
        if "write input" in events:
            x[0] = 0.25
        loss.backward()
        if "twice" in events:
            (
                mg.sum(self.head.bias * self.head.bias) + mg.mean(self.head(x.detach()) ** 2)
            ).backward()
        if "item" in events:
            seen.append(loss.item())
        if "clip" in events:
            seen.append(nn.utils.clip_grad_norm_(self.parameters, 0.5))
        if "by hand" in events:
            with mg.no_grad():
                for p in self.parameters:
                    if p.grad is not None:
                        p -= 0.1 * p.grad
        if "write" in events:
            with mg.no_grad():
                self.head.bias += 0.125
        if "view" in events:
            row[...] = 0.5  # into x, as x is handed back
        self.optimizer.step()
        if "no_grad" in events:
            with mg.no_grad():
                seen.append(mg.argmax(self.head(h), axis=1))
        if "keep" in events:
            self.kept.append(h.detach())
        return loss, seen


def seen_of(step: Step, fn, seed: int, calls: int = 7) -> list:
    """The bytes of everything that calls of a step make, with batches that change in size."""
    draw = np.random.default_rng(seed)
    sizes = draw.choice(SIZES, 2)
    found: list = []
    for i in range(calls):
        n = int(sizes[int(i > 3 and i % 2 == 1)])
        x = mg.tensor(draw.standard_normal((n, step.width)).astype("float32"))
        try:
            loss, seen = fn(x, mg.tensor(draw.integers(0, 3, n)))
        except Exception as error:  # the same one in both
            found.append(f"{type(error).__name__}: {error}")
            continue
        found += [np.asarray(y.data if isinstance(y, mg.Tensor) else y) for y in (loss, *seen, x)]
        found += [loss.requires_grad]
        for p in step.parameters:
            found += [p.data.copy(), None if p.grad is None else p.grad.data.copy()]
    found += [y.data for y in step.kept]
    for layer in step.layers:
        if isinstance(layer, nn.Module):
            found += [b.data.copy() for b in layer.buffers()]
    found.append(mg.rand(2).data)
    return [x.tobytes() if isinstance(x, np.ndarray) else x for x in found]


@pytest.mark.parametrize("tenth", range(10))
def test_random_steps_give_the_same_numbers(tenth):
    replays = 0
    for seed in range(tenth, SEEDS, 10):
        plain, other = Step(seed), Step(seed)
        compiled = mg.compile(other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an accuracy of one class, a mean of few rows
            mg.manual_seed(seed)
            expected = seen_of(plain, plain, seed)
            mg.manual_seed(seed)
            assert seen_of(other, compiled, seed) == expected, f"seed {seed}: {other.events}"
        replays += sum(store.replays for store in compiled.stores.values())
    assert replays > 20
