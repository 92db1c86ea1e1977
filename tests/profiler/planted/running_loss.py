"""A mean of losses that is summed as a tensor, over a whole epoch."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
data = [np.random.default_rng(i).random((64, 32), dtype=np.float32) for i in range(50)]


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = mg.optim.Adam(model.parameters())

    def epoch(self):
        running_loss = 0.0
        for batch in data:
            x = mg.tensor(batch)
            self.optimizer.zero_grad()
            loss = (self.model(x) - x).square().mean()
            loss.backward()
            self.optimizer.step()
            running_loss += loss  # cause
        return running_loss / len(data)


model = mg.nn.Sequential(mg.nn.Linear(32, 128), mg.nn.GELU(), mg.nn.Linear(128, 32))
print(Trainer(model).epoch().item())
