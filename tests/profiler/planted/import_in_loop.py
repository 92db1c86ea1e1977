"""A step that imports a large package while it runs."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
model = mg.nn.Linear(32, 8)
optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
x = mg.tensor(np.random.default_rng(0).random((64, 32), dtype=np.float32))


def scored(y):
    import scipy.stats  # cause: with some hundred other modules

    return scipy.stats.norm is not y


for _ in range(10):
    y = model(x)
    scored(y)
    loss = (y**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
