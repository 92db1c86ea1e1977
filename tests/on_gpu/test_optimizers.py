"""An optimizer's step on a GPU is a kernel over many parameters, with the host's numbers."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim

OPTIMIZERS = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.Adam, {}), (optim.AdamW, {}), (optim.Adam, {"amsgrad": True, "maximize": True}),
    (optim.Adamax, {}), (optim.NAdam, {}), (optim.RAdam, {}), (optim.Lion, {}),
    (optim.RMSprop, {}), (optim.Adagrad, {}), (optim.Adadelta, {}),
    (optim.ASGD, {"lr": 0.1, "lambd": 0.1, "t0": 2}), (optim.Rprop, {}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(OPTIMIZERS)))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_steps_are_those_of_the_host_by_kernels(gpu, monkeypatch, case, dtype):
    from minigrad.optim import optimizer

    left = []
    monkeypatch.setattr(optimizer, "step_by_kernels", _noting(left, optimizer.step_by_kernels))
    cls, options = OPTIMIZERS[case]

    def stepped(device):
        rng = np.random.default_rng(0)
        shapes = [(3, 5), (1000,), (300, 301), ()]
        params = [
            mg.tensor(rng.standard_normal(s).astype(dtype), device=device, requires_grad=True)
            for s in shapes
        ]
        optimizer = cls(params, **options)
        for _ in range(7):
            for p in params:
                p.grad = mg.tensor(rng.standard_normal(p.shape).astype(dtype), device=device)
            optimizer.step()
        return [p.detach().to("cpu").numpy() for p in params]

    tolerance = 2e-3 if dtype == np.float16 else 2e-6
    expected, found = stepped("cpu"), stepped("cuda")
    for a, b in zip(found, expected, strict=True):
        assert np.abs(a.astype(complex) - b).max() <= tolerance * np.abs(b).max()
    assert not left, "an update ran without a kernel"


@pytest.mark.parametrize("cls", [optim.Adafactor, optim.Muon])
def test_steps_of_whole_matrices_are_those_of_the_host(gpu, cls):
    def stepped(device):
        rng = np.random.default_rng(0)
        params = [
            mg.tensor(rng.standard_normal(s, np.float32), device=device, requires_grad=True)
            for s in [(3, 5), (300, 301), (40, 7)]
        ]
        optimizer = cls(params, lr=0.1)
        for _ in range(7):
            for p in params:
                g = rng.standard_normal(p.shape, np.float32)
                p.grad = mg.tensor(g, device=device)
            optimizer.step()
        return [p.detach().to("cpu").numpy() for p in params]

    for a, b in zip(stepped("cuda"), stepped("cpu"), strict=True):
        # five products of float32 in a row, each summed in another order
        assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max()


def _noting(left, plain):
    def step_by_kernels(update, jobs):
        rest = plain(update, jobs)
        if jobs and hasattr(jobs[0][0], "get"):
            left.extend(rest)
        return rest

    return step_by_kernels


def test_more_parameters_than_a_table_holds_are_all_stepped(gpu):
    """Each with a size of its own, so that a block that takes the wrong one is seen."""
    sizes = [1, 3, 4, 1023, 1024, 1025, *range(1, 140)]

    def stepped(device):
        params = [
            mg.tensor(np.full(n, i + 1.0, np.float32), device=device, requires_grad=True)
            for i, n in enumerate(sizes)
        ]
        for i, p in enumerate(params):
            p.grad = mg.tensor(np.linspace(0, i, p.size, dtype=np.float32), device=device)
        optim.SGD(params, lr=0.5).step()
        return [p.detach().to("cpu").numpy() for p in params]

    for a, b in zip(stepped("cuda"), stepped("cpu"), strict=True):
        np.testing.assert_array_equal(a, b)
