"""One worker that reads slowly, so that the training waits for each batch."""

import time

import numpy as np

import minigrad as mg


class Slow(mg.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        time.sleep(0.008)  # cause: a disk
        return np.full(32, i / 96, np.float32)


model = mg.nn.Linear(32, 8)
optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
for batch in mg.data.DataLoader(Slow(), batch_size=8, num_workers=1):  # waits
    loss = (model(batch) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
