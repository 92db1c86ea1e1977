"""GradScaler beside PyTorch's, call by call: two optimizers, Inf and NaN, any order of calls."""

import random

import numpy as np
import pytest

import minigrad as mg

FACTORS = [1.0, 2.0, 1e-3, float("inf"), float("nan")]


def calls(seed):
    """A random script: (name, arguments); the first call is a backward, which makes the scale."""
    draw = random.Random(seed)
    kinds = [
        lambda: ("backward", draw.choice(FACTORS), draw.choice([(0,), (1,), (0, 1)])),
        lambda: ("backward", 1.0, (0, 1)),
        lambda: ("unscale_", draw.randrange(2)),
        lambda: ("step", draw.randrange(2)),
        lambda: ("step", draw.randrange(2)),
        lambda: ("update",),
        lambda: ("update", draw.choice([4.0, 128.0])),
        lambda: ("zero_grad",),
        lambda: ("set", draw.choice([2.0, 3.0]), draw.choice([0.25, 0.5]), draw.randint(1, 3)),
        lambda: ("save",),
    ]
    return [("backward", 1.0, (0, 1)), *[draw.choice(kinds)() for _ in range(20)]]


class Run:
    """One library's parameters, optimizers and scaler."""

    def __init__(self, lib):
        self.lib = lib
        self.params = [lib.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)]
        self.optimizers = [
            lib.optim.SGD([self.params[0]], lr=0.1, momentum=0.9),
            lib.optim.Adam([self.params[1]], lr=0.1),
        ]
        self.scaler = self.fresh()

    def fresh(self):
        return self.lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def call(self, name, *args):
        if name == "backward":
            factor, which = args
            self.scaler.scale(sum((self.params[i] * factor).sum() for i in which)).backward()
        elif name in ("unscale_", "step"):
            getattr(self.scaler, name)(self.optimizers[args[0]])
        elif name == "update":
            self.scaler.update(*args)
        elif name == "zero_grad":
            for optimizer in self.optimizers:
                optimizer.zero_grad()
        elif name == "set":
            self.scaler.set_growth_factor(args[0])
            self.scaler.set_backoff_factor(args[1])
            self.scaler.set_growth_interval(args[2])
        else:
            saved = self.scaler.state_dict()
            self.scaler = self.fresh()
            self.scaler.load_state_dict(saved)

    def numbers(self):
        grads = [p.grad.tolist() if p.grad is not None else [0.0] * 2 for p in self.params]
        own = [p.detach().tolist() for p in self.params]
        return np.array([*own, *grads, [self.scaler.get_scale()] * 2])


@pytest.mark.parametrize("seed", range(30))
def test_every_call_leaves_the_numbers_that_pytorchs_leaves(seed):
    ours, theirs = Run(mg), Run(pytest.importorskip("torch"))
    for i, call in enumerate(calls(seed)):
        try:
            theirs.call(*call)
        except AssertionError:  # it wants a gradient, or a first scale(); ours passes these by
            return
        except RuntimeError:
            with pytest.raises(RuntimeError):
                ours.call(*call)
        else:
            ours.call(*call)
        np.testing.assert_allclose(ours.numbers(), theirs.numbers(), 1e-5, err_msg=f"{i} {call}")
