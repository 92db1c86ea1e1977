"""Losses are kept with their graphs, for a mean at the end."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)


def main():
    model = mg.nn.Sequential(mg.nn.Linear(64, 128), mg.nn.Tanh(), mg.nn.Linear(128, 8))
    optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
    x = mg.tensor(np.random.default_rng(0).random((128, 64), dtype=np.float32))
    losses = []
    for _ in range(40):
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)  # cause
    print("mean loss", sum(float(loss.item()) for loss in losses) / len(losses))


main()
