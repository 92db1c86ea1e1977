"""An evaluation that records graphs nobody needs."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)


class Net(mg.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = mg.nn.Linear(64, 128)
        self.second = mg.nn.Linear(128, 8)

    def forward(self, x):
        return self.second(self.first(x).tanh())


model = Net()
optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
x = mg.tensor(np.random.default_rng(0).random((128, 64), dtype=np.float32))


def evaluate():
    total = 0.0
    for _ in range(20):
        total += float((model(x) ** 2).mean().item())  # cause
    return total


for _ in range(10):
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    evaluate()
