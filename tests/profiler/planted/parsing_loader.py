"""A DataLoader without workers, whose data set parses a line of text for each row."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
rng = np.random.default_rng(0)
LINES = [",".join(f"{v:.4f}" for v in rng.random(900)) for _ in range(16)]


class Table(mg.data.Dataset):
    def __init__(self, lines):
        self.lines = lines

    def __len__(self):
        return 256

    def __getitem__(self, i):
        values = [float(part) for part in self.lines[i % 16].split(",")]  # cause
        return np.array(values[:-1], np.float32), np.float32(values[-1])


def fit(model, loader, epochs):
    optimizer = mg.optim.Adam(model.parameters())
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = mg.nn.functional.mse_loss(model(x)[:, 0], y)
            loss.backward()
            optimizer.step()


loader = mg.data.DataLoader(Table(LINES), batch_size=16, shuffle=True)
fit(mg.nn.Linear(899, 1), loader, epochs=3)
