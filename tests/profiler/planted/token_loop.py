"""A sum over tokens, one at a time, where one call would do."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
table = mg.nn.Embedding(100, 16)
out = mg.nn.Linear(16, 4)
optimizer = mg.optim.SGD([*table.parameters(), *out.parameters()], lr=0.01)
tokens = np.random.default_rng(0).integers(0, 100, 200)
for _ in range(6):
    total = mg.zeros(16, dtype="float32")
    for token in tokens:
        total = total + table.weight[int(token)]  # cause
    loss = (out(total / 200) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
