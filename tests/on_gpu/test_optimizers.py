"""An optimizer's step on a GPU is one kernel a parameter, with the numbers of the host."""

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
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(OPTIMIZERS)))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_steps_are_those_of_the_host_by_one_kernel(gpu, case, dtype):
    from minigrad.fusion.writes import Recorded
    from minigrad.on_gpu import optimizers

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
    assert {type(r) for r in optimizers._local.recorded.values()} == {Recorded}
