"""Three recorded steps on each rank: recorded.py <log>."""

import sys

import numpy as np
from minigrad_profiler.compare_overlap import compare_overlap

import minigrad as mg
from minigrad import distributed, nn

distributed.init(timeout=30)
model = distributed.DataParallel(
    nn.Sequential(*[nn.Linear(200, 200) for _ in range(6)]), bucket_mb=0.2
)
optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
x = mg.tensor(np.random.default_rng(distributed.rank()).standard_normal((64, 200)), dtype="float32")
with distributed.event_log(sys.argv[1]) as log:
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
        log.step()

found = compare_overlap(model, lambda: (model(x) ** 2).mean().backward(), repeats=2)
assert found.same_bits and len(found.plain) == 2 and 0 <= found.hidden <= 1
assert "plain / overlapped" in str(found) and model.overlap


def train():
    (model(x) ** 2).mean().backward()
    optimizer.step()


before = [p.numpy().copy() for p in model.parameters()]
assert compare_overlap(model, train, repeats=2).same_bits
assert all(np.array_equal(p, q.numpy()) for p, q in zip(before, model.parameters(), strict=True))
