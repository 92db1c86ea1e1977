"""A cross entropy written as a loop over rows."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
rng = np.random.default_rng(0)


class Net(mg.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = mg.nn.Linear(64, 128)
        self.fc2 = mg.nn.Linear(128, 10)

    def forward(self, x):
        return self.fc2(mg.relu(self.fc1(x)))


def criterion(logits, targets):
    logp = mg.log_softmax(logits, axis=1)
    picked = []
    for row, target in zip(range(len(targets)), targets, strict=True):
        picked.append(-logp[row, int(target)])  # cause
    return sum(picked) / len(picked)


net = Net()
optimizer = mg.optim.SGD(net.parameters(), lr=0.1)
X, Y = mg.tensor(rng.random((128, 64), dtype=np.float32)), rng.integers(0, 10, 128)
for _ in range(6):
    optimizer.zero_grad()
    loss = criterion(net(X), Y)
    loss.backward()
    optimizer.step()
