"""Sharded optimizer state and checkpoints: shards.py <folder> <first step> <last step>.

Trains from the newest checkpoint and prints the sum of the parameters at the end.
"""

import sys

import numpy as np

import minigrad as mg
from minigrad import distributed, nn

folder, last = sys.argv[1], int(sys.argv[2])
distributed.init(timeout=30)
rank, size = distributed.rank(), distributed.size()


def made():
    mg.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)
    )


model = distributed.DataParallel(made().double(), bucket_mb=0.0005)
groups = [
    {"params": list(model.module[0].parameters()), "lr": 0.02},
    {"params": [*model.module[2].parameters(), *model.module[4].parameters()]},
]
optimizer = distributed.ZeroRedundancyOptimizer(groups, mg.optim.Adam, lr=0.01)
held = sum(len(part) for part in optimizer.parts)
assert held == 6 and (size == 1 or len(optimizer.parts[rank]) < 6)
found = distributed.load_checkpoint(folder)
step = 0
if found is not None:
    step, state, shards = found
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(shards)
reference = None
if found is None:  # beside one optimizer that holds everything
    reference = made().double()
    plain = mg.optim.Adam(
        [{"params": list(reference[0].parameters()), "lr": 0.02},
         {"params": [*reference[2].parameters(), *reference[4].parameters()]}], lr=0.01,
    )  # fmt: skip
while step < last:
    rows = np.random.default_rng(step).standard_normal((12, 6))  # the same whatever the size
    optimizer.zero_grad()
    (model(mg.tensor(rows[rank::size])) ** 2).mean().backward()
    optimizer.step()
    if reference is not None:
        plain.zero_grad()
        (reference(mg.tensor(rows)) ** 2).mean().backward()
        plain.step()
        for p, q in zip(model.parameters(), reference.parameters()):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-9, atol=1e-12)
    step += 1
distributed.save_checkpoint(folder, step, {"model": model.state_dict()}, optimizer.state_dict())
sums = distributed.all_gather(sum(p.numpy().sum() for p in model.parameters()))
assert (sums == sums[0]).all()
if rank == 0:
    print(f"sum {sums[0]:.12f}")
