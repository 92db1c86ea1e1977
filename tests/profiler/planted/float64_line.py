"""float64 comes in at one line of a float32 program; all that follows inherits it."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
first, second = mg.nn.Linear(256, 256), mg.nn.Linear(256, 256)
optimizer = mg.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
x = mg.tensor(np.random.default_rng(0).random((128, 256), dtype=np.float32))
weights = np.linspace(0.0, 1.0, 256)
for _ in range(15):
    h = first(x).relu()
    h = h * weights  # cause
    h = second(h).relu()
    h = second(h).tanh()
    loss = (h**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
