"""A rollout whose states are joined to the sequence so far, one by one."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)


class Rollout(mg.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = mg.nn.Linear(8, 8)

    def forward(self, x, steps):
        states = x
        for _ in range(steps):
            x = mg.tanh(self.cell(x))
            states = mg.concatenate([states, x], axis=0)  # cause
        return states


model = Rollout()
optimizer = mg.optim.Adam(model.parameters())
start = mg.tensor(np.random.default_rng(0).random((64, 8), dtype=np.float32))
for _ in range(4):
    loss = model(start, 100).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
