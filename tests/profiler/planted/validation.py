"""A validation after each epoch that records what it computes."""

import numpy as np

import minigrad as mg

mg.manual_seed(0)
rng = np.random.default_rng(0)
images = rng.random((1024, 1, 12, 12), dtype=np.float32)
labels = rng.integers(0, 10, 1024)


class CNN(mg.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = mg.nn.Conv2d(1, 8, 3, padding=1)
        self.pool = mg.nn.MaxPool2d(2)
        self.fc = mg.nn.Linear(8 * 6 * 6, 10)

    def forward(self, x):
        x = self.pool(mg.relu(self.conv(x)))
        return self.fc(x.reshape(len(x), -1))


def validate(model, loader):
    model.eval()
    correct = 0
    for x, y in loader:
        logits = model(x)  # cause
        correct += int((logits.argmax(axis=1).numpy() == np.asarray(y)).sum())
    model.train()
    return correct


model = CNN()
optimizer = mg.optim.Adam(model.parameters(), lr=1e-3)
criterion = mg.nn.CrossEntropyLoss()
train = mg.data.DataLoader(mg.data.ArrayDataset(images[:64], labels[:64]), batch_size=32)
valid = mg.data.DataLoader(mg.data.ArrayDataset(images[64:], labels[64:]), batch_size=32)
for epoch in range(3):
    for x, y in train:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, validate(model, valid))
