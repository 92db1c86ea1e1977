"""Every backward keeps its graph, and nobody uses it again."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
model = mg.nn.Sequential(mg.nn.Linear(64, 128), mg.nn.Tanh(), mg.nn.Linear(128, 8))
optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
x = mg.tensor(np.random.default_rng(0).random((256, 64), dtype=np.float32))
for _ in range(30):
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # cause
    optimizer.step()
