"""A DataLoader with a worker, whose collation of texts is slow."""

import time

import numpy as np

import minigrad as mg

mg.manual_seed(0)


def collate(rows):
    time.sleep(0.03)  # cause
    return np.stack(rows)


rows = list(np.random.default_rng(0).random((320, 32), dtype=np.float32))
loader = mg.data.DataLoader(rows, batch_size=16, collate_fn=collate, num_workers=1)
model = mg.nn.Linear(32, 4)
optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
