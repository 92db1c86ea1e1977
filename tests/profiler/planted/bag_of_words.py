"""A classifier of texts whose words are counted in Python, at each step anew."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
WORDS = [f"word{i}" for i in range(600)]
rng = np.random.default_rng(0)
texts = [" ".join(rng.choice(WORDS, 240)) for _ in range(64)]
labels = rng.integers(0, 4, 64)


class Classifier(mg.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mg.nn.Sequential(mg.nn.Linear(600, 32), mg.nn.ReLU(), mg.nn.Linear(32, 4))

    def forward(self, x):
        return self.body(x)


def encode(text):
    counts = [0.0] * len(WORDS)
    for word in text.split():
        counts[WORDS.index(word)] += 1  # cause
    return counts


def train(model, epochs=6):
    optimizer = mg.optim.Adam(model.parameters(), lr=1e-2)
    criterion = mg.nn.CrossEntropyLoss()
    for _ in range(epochs):
        for start in range(0, len(texts), 16):
            x = mg.tensor([encode(t) for t in texts[start : start + 16]], dtype="float32")
            loss = criterion(model(x), labels[start : start + 16])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


train(Classifier())
