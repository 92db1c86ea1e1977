"""Positions are added to embeddings as NumPy makes them: in float64."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)


class Encoder(mg.nn.Module):
    def __init__(self, length=64, width=64):
        super().__init__()
        self.embed = mg.nn.Embedding(100, width)
        angle = np.arange(length)[:, None] / 10000 ** (np.arange(width)[None] / width)
        self.positions = np.sin(angle)
        self.mix = mg.nn.Linear(width, 4 * width)
        self.out = mg.nn.Linear(4 * width, 100)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.positions  # cause
        return self.out(mg.nn.functional.gelu(self.mix(x)))


model = Encoder()
optimizer = mg.optim.AdamW(model.parameters(), lr=1e-3)
criterion = mg.nn.CrossEntropyLoss()
tokens = np.random.default_rng(0).integers(0, 100, (8, 64))
for _ in range(8):
    logits = model(tokens)
    loss = criterion(logits.reshape(-1, 100), tokens.reshape(-1))
    model.zero_grad()
    loss.backward()
    optimizer.step()
