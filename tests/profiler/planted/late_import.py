"""A metric that loads a module as it is computed for the first time."""

import importlib

import numpy as np

import minigrad as mg

mg.manual_seed(0)


class Metric:
    def update(self, prediction, target):
        module = importlib.import_module("scipy.stats")  # cause
        return module.norm is None or float(np.abs(prediction - target).mean())


model, metric = mg.nn.Linear(16, 1), Metric()
optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
x = mg.tensor(np.random.default_rng(0).random((32, 16), dtype=np.float32))
y = x.sum(axis=1, keepdims=True)
for _ in range(15):
    prediction = model(x)
    loss = mg.nn.functional.mse_loss(prediction, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    metric.update(prediction.detach().numpy(), y.numpy())
