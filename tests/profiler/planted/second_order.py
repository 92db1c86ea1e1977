"""create_graph although only first derivatives are used."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
model = mg.nn.Sequential(mg.nn.Linear(32, 64), mg.nn.Tanh(), mg.nn.Linear(64, 1))
parameters = list(model.parameters())
x = mg.tensor(np.random.default_rng(0).random((256, 32), dtype=np.float32))
for _ in range(30):
    loss = model(x).square().mean()
    grads = mg.grad(loss, parameters, create_graph=True)  # cause
    with mg.no_grad():
        for p, g in zip(parameters, grads, strict=True):
            p -= 0.01 * g
