"""A convnet on the digits; prints its accuracy on every fifth. Any number of ranks."""

import numpy as np

import minigrad as mg
from minigrad import distributed, nn

distributed.init(timeout=60)
rank, size = distributed.rank(), distributed.size()
mg.manual_seed(0)
data = mg.data.load_digits()
images, labels = data.arrays
test = np.arange(len(labels)) % 5 == 0
train = mg.data.ArrayDataset(images[~test], labels[~test])
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
)
model = distributed.DataParallel(net)
optimizer = mg.optim.Adam(model.parameters(), lr=5e-3)
sampler = distributed.DistributedSampler(train, seed=1)
loader = mg.data.DataLoader(train, batch_size=32 // size, sampler=sampler)
for epoch in range(5):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        mg.cross_entropy(model(x), y).backward()
        optimizer.step()
model.eval()
with mg.no_grad():
    right = model(mg.tensor(images[test])).numpy().argmax(1) == labels[test]
if rank == 0:
    print(f"accuracy {np.mean(right):.4f}")
