"""One op that takes most of the time, on one line."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
model = mg.nn.Linear(32, 8)
optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
rng = np.random.default_rng(0)
x = mg.tensor(rng.random((64, 32), dtype=np.float32))
large = mg.tensor(rng.random((700, 700), dtype=np.float32), requires_grad=True)
for _ in range(12):
    y = model(x)
    penalty = (large @ large).sum()  # cause
    loss = (y**2).mean() + 1e-6 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
