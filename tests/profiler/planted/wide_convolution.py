"""A network one of whose layers has a kernel far too large."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)


class Net(mg.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = mg.nn.Conv2d(1, 8, 3, padding=1)
        self.wide = mg.nn.Conv2d(8, 16, 15, padding=7)
        self.head = mg.nn.Linear(16, 10)

    def forward(self, x):
        x = mg.relu(self.first(x))
        x = mg.relu(self.wide(x))  # cause
        return self.head(x.mean(axis=(2, 3)))


model = Net()
optimizer = mg.optim.Adam(model.parameters())
criterion = mg.nn.CrossEntropyLoss()
rng = np.random.default_rng(0)
x = mg.tensor(rng.random((16, 1, 24, 24), dtype=np.float32))
y = rng.integers(0, 10, 16)
for _ in range(5):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
