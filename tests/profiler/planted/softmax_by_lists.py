"""A layer that computes its softmax on lists of Python, and makes a tensor of them again."""

import math

import numpy as np

import minigrad as mg

mg.manual_seed(0)


def softmax(rows):
    found = []
    for row in rows:
        e = [math.exp(v - max(row)) for v in row]
        found.append([v / sum(e) for v in e])
    return found


class Gate(mg.nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = mg.nn.Linear(32, 8)
        self.experts = mg.nn.Linear(32, 8)

    def forward(self, x):
        scores = self.scores(x)
        weights = mg.tensor(softmax(scores.tolist()), dtype=mg.float32)  # cause
        return (weights * self.experts(x)).sum(axis=1)


model = Gate()
optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
x = mg.tensor(np.random.default_rng(0).random((64, 32), dtype=np.float32))
for _ in range(60):
    optimizer.zero_grad()
    loss = (model(x) - 1).square().mean()
    loss.backward()
    optimizer.step()
