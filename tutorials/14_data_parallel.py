# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14 · Data-parallel training: several processes, one model
#
# A step of training is a mean over the rows of a batch. A mean can be taken in parts: each process
# ("rank") takes some of the rows, and the ranks average their gradients. That is all of
# data-parallel training; what is left is to make the averaging cheap, exact, and safe when a rank
# dies. This notebook builds it up, runs it on two processes, and predicts it for a thousand.
#
# It is a script too, and this is how it is meant to be used: `mpiexec -n 2 python
# 14_data_parallel.py`. Read as a notebook it is one process, a "world of one"; a cell near the end
# starts the script again on two. You need `pip install mpi4py mpich` for that, and nothing else.

# %%
import inspect
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad import distributed, nn
from minigrad.distributed import buckets, simulate

distributed.init(timeout=60)
rank, size = distributed.rank(), distributed.size()


def say(*what):
    """Print on rank 0: once is enough."""
    if rank == 0:
        print(*what, flush=True)


if rank == 0:
    mg.show_versions()
say(f"rank {rank} of {size}")

# %% [markdown]
# ## A mean of means
#
# With $p$ ranks that have equally many rows each, the loss of the joined batch is the mean of the
# ranks' losses, so its gradient is the mean of theirs:
#
# $$ \nabla\,\frac1n \sum_{i=1}^n \ell_i \;=\; \frac1p \sum_{r=1}^p
#    \Big( \nabla\, \frac{p}{n} \sum_{i \in \text{part } r} \ell_i \Big). $$
#
# In one process, with two parts:

# %%
mg.manual_seed(0)
rng = np.random.default_rng(0)
x, target = rng.standard_normal((8, 5)), rng.integers(0, 3, 8)


def gradient(part):
    """The gradient of the same small model on some of the rows, as one vector."""
    mg.manual_seed(0)
    model = nn.Linear(5, 3).double()
    mg.cross_entropy(model(mg.tensor(x[part])), target[part]).backward()
    return np.concatenate([p.grad.numpy().reshape(-1) for p in model.parameters()])


joined = gradient(slice(0, 8))
mean = (gradient(slice(0, 4)) + gradient(slice(4, 8))) / 2
say("largest difference:", np.abs(joined - mean).max())
assert np.allclose(joined, mean, atol=1e-15)

# %% [markdown]
# ## Collectives, and their derivatives
#
# Ranks talk by *collectives*: calls that all of them make, in the same order. `all_reduce` adds up
# what each has and gives everybody the sum. It is an op like any other and has a derivative. Which?
# What all ranks compute together is $L = \sum_r L_r(y)$, with $y = \sum_s x_s$ on every rank. So
#
# $$ \frac{\partial L}{\partial x_s} = \sum_r \frac{\partial L_r}{\partial y} : $$
#
# the cotangents of all ranks, added up: all_reduce again. It is its own transpose. `all_gather` and
# `reduce_scatter` are each other's. The rules say just that:

# %%
say(inspect.getsource(distributed.collectives._all_gather_dx))
a = mg.tensor([1.0 + rank, 2.0], requires_grad=True)
y = distributed.all_reduce(a * a)
(y * (rank + 1)).sum().backward()  # each rank weighs the sum differently
say("y =", y.tolist(), " gradient on rank 0 =", a.grad.tolist())
weights = size * (size + 1) / 2  # 1 + 2 + ... + size
assert np.allclose(a.grad.numpy(), 2 * a.numpy() * weights)

# %% [markdown]
# ## When is a gradient complete?
#
# One could run the backward, then average everything. But the last layer's gradient is complete
# almost at once, while the backward still has most of its work before it. A *leaf-ready hook* is
# called at that moment. Let us look at when:

# %%
mg.manual_seed(1)
layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.Tanh())]
deep = nn.Sequential(*layers)
rows = mg.tensor(np.random.default_rng(rank).standard_normal((256, 256)), dtype="float32")
model = distributed.DataParallel(deep, bucket_mb=0.2)
for _ in range(4):  # the first steps warm up, and buckets are cut anew after the first
    model.zero_grad()
    (model(rows) ** 2).mean().backward()
line = model.timeline
milliseconds = [t / 1e6 for t in line.ready]
plt.figure(figsize=(7, 2.4))
for i, t in enumerate(milliseconds):
    plt.plot([t, line.done / 1e6], [i, i], lw=6, color="tab:blue", solid_capstyle="butt")
plt.axvline(line.done / 1e6, color="grey", linestyle=":")
plt.xlim(0, line.done / 1e6 * 1.05)
plt.yticks(range(len(line.ready)), [f"bucket {i + 1}" for i in range(len(line.ready))])
plt.xlabel("ms from the first complete gradient; dotted: the end of the backward")
plt.title("time in which each bucket can be sent at no cost", fontsize=9)
plt.tight_layout()
say("buckets (MB):", [round(n / 1e6, 2) for n in line.nbytes])

# %% [markdown]
# Gradients are gathered in **buckets**, since a transfer has a price of its own, however small it
# is. Three rules make it work; the first and the last stand in the code below:
#
# - Buckets are sent in one fixed order. Ranks may finish gradients in different orders, but the
#   n-th call of every rank must mean the same bucket.
# - The order is that in which rank 0 saw gradients become ready in the first backward.
# - Behind a bucket's gradients stand flags: which parameters were used here. After the sum they say
#   on how many ranks. A parameter that nobody used keeps its `.grad`.

# %%
say(inspect.getsource(distributed.DataParallel._start_full))
say(inspect.getsource(buckets.Bucket.unpack))

# %% [markdown]
# ## Training
#
# Three lines differ from training in one process: `init`, `DataParallel`, and a sampler that gives
# each rank rows of its own. The batch below has 32 rows whatever the number of ranks, so the number
# of steps and the learning rate need no change.

# %%
mg.manual_seed(0)
images, labels = mg.data.load_digits().arrays
test = np.arange(len(labels)) % 5 == 0
train = mg.data.ArrayDataset(images[~test], labels[~test])
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
)
convnet = distributed.DataParallel(net)
optimizer = mg.optim.Adam(convnet.parameters(), lr=3e-3)
sampler = distributed.DistributedSampler(train, seed=0)
loader = mg.data.DataLoader(train, batch_size=32 // size, sampler=sampler)
for epoch in range(8):
    sampler.set_epoch(epoch)  # another order for each epoch, the same on all ranks
    for image, label in loader:
        optimizer.zero_grad()
        mg.cross_entropy(convnet(image), label).backward()
        optimizer.step()
convnet.eval()
with mg.no_grad():
    right = convnet(mg.tensor(images[test])).numpy().argmax(1) == labels[test]
accuracy = float(right.mean())
say(f"accuracy on 360 images that were not trained on: {accuracy:.3f}")
assert accuracy > 0.9

bits = np.concatenate([p.numpy().reshape(-1) for p in net.parameters()])
everywhere = distributed.all_gather(bits)
assert (everywhere == everywhere[0]).all()
say("the parameters have the same bits on all ranks")

# %% [markdown]
# The same bits: each rank divides the same sum by the same number, and steps with the same
# gradients. So the models never drift apart, and nobody need ever compare them.
#
# ## On two processes
#
# Read as a notebook, this was one process. Here is the same script on two:

# %%
mpiexec = Path(sys.executable).parent / "mpiexec"
launcher = str(mpiexec) if mpiexec.exists() else shutil.which("mpiexec")
if find_spec("mpi4py") is None:  # then the launcher, if there is one, belongs to something else
    launcher = None


def on_two(*command):
    """What a program prints on two ranks; None without an MPI launcher."""
    if launcher is None or size > 1:
        return None
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [launcher, "-n", "2", sys.executable, *command],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout + done.stderr


if size == 1:
    output = on_two("14_data_parallel.py")
    if output is None:
        print("no mpiexec or no mpi4py here: pip install mpi4py mpich")
    else:
        wanted = ("rank 0", "largest", "y =", "buckets", "accuracy", "the parameters")
        print(*[text for text in output.splitlines() if text.startswith(wanted)], sep="\n")
        assert "the same bits on all ranks" in output

# %% [markdown]
# ## When a rank dies
#
# The worst a distributed program can do is to hang: 63 ranks wait for one that will never come.
# Every rank has a watchdog that tells rank 0 what it does, and a small process beside it that can
# still speak when the rank is killed. Here rank 1 raises in its second step, then kills itself:

# %%
PROGRAM = """
import os, signal, sys
import minigrad as mg
from minigrad import distributed

distributed.init(timeout=5)
model = distributed.DataParallel(mg.nn.Linear(3, 2))
for step in range(3):
    if distributed.rank() == 1 and step == 1:
        if sys.argv[1] == "raise":
            raise ValueError("a row is missing")
        os.kill(os.getpid(), signal.SIGKILL)
    model(mg.ones((4, 3))).sum().backward()
"""
for how in ("raise", "kill"):
    output = on_two("-c", PROGRAM, how)
    if output is not None:
        told = [part for part in output.splitlines() if part.startswith("minigrad.distributed:")]
        print(f"{how}:", *told, sep="\n  ")
        assert any("rank 1" in part for part in told)

# %% [markdown]
# ## A thousand ranks, on paper
#
# How far does this scale? A step takes forward + backward + what is left of the communication. The
# last is a small simulation: bucket $i$ begins when it is full and the one before it is through.
# For the transfer itself there are two classic formulas. In a **ring** each rank sends $2(p-1)$
# pieces of $n/p$ bytes; in a **tree** $\log_2 p$ rounds go up and as many down, of $n$ bytes each.
#
# We take the times of this process, and a link of 10 µs and 10 GB/s, as in a good cluster:

# %%
say(inspect.getsource(simulate.predict))
step = simulate.measure_step(model, lambda: (model(rows) ** 2).mean(), repeats=5)
link = simulate.Link(latency=10e-6, bandwidth=10e9)
say(simulate.table(step, link))

predicted = simulate.predictions(step, link)
plt.figure(figsize=(7, 2.8))
for name in ("ring", "tree"):
    some = [row for row in predicted if row.algorithm == name]
    plt.semilogx([row.ranks for row in some], [row.step * 1e3 for row in some], "o-", label=name)
    plt.semilogx(
        [row.ranks for row in some], [row.plain * 1e3 for row in some], ":", color="grey",
        label="not overlapped" if name == "ring" else None,
    )  # fmt: skip
plt.axhline(step.total * 1e3, color="black", lw=0.8, label="one rank alone")
plt.xlabel("ranks")
plt.ylabel("ms a step")
plt.legend(fontsize=8)
plt.tight_layout()

# %% [markdown]
# The ring's bandwidth term hardly depends on $p$; its latency grows with $p$. In the tree both grow
# only with $\log p$, but its bandwidth term is the larger one. Where they cross depends on the size
# of the model: that is why libraries have both.

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Give the two parts of the batch 3 and 5 rows. Which weights make the mean right again?

# %% answer
weights_of_parts = ...  # two numbers


# %% check
@exercise(1)
def check(weights_of_parts):
    one, other = weights_of_parts
    assert np.isclose(one + other, 1), "The weights of a mean add up to 1."
    weighted = one * gradient(slice(0, 3)) + other * gradient(slice(3, 8))
    hint = "Each row of the batch must count the same, whichever part it is in."
    assert np.allclose(weighted, joined, atol=1e-12), hint


# %% wrong
weights_of_parts = 1 / 2, 1 / 2

# %% solution
# Each part's mean counts with its share of the rows.
weights_of_parts = 3 / 8, 5 / 8

# %% [markdown]
# ### Exercise 2
#
# `deep` has 12 parameters. How many buckets has it with `bucket_mb=0`, and about how many with
# `bucket_mb=1000`? Why is neither good? (Run the timeline cell with both under `mpiexec -n 2` and
# look at `model.timeline.hidden`.)


# %%
def wrapped(megabytes):
    """A network like `deep`, wrapped, after two backwards: then buckets have the measured order."""
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.Tanh())]
    net = distributed.DataParallel(nn.Sequential(*layers), bucket_mb=megabytes)
    for _ in range(2):
        (net(rows) ** 2).mean().backward()
    return net


# %% answer
smallest_buckets = ...  # how many with bucket_mb=0
largest_buckets = ...  # how many with bucket_mb=1000


# %% check
@exercise(2)
def check(smallest_buckets, largest_buckets):
    for megabytes, answer in ((0, smallest_buckets), (1000, largest_buckets)):
        net = wrapped(megabytes)
        there = len(net.buckets)
        net.close()
        hint = f"bucket_mb={megabytes} makes {there} buckets: one is full when it holds as much."
        # the first bucket is cut at 1 MB, so that even one bucket in all may become two
        assert there - 1 <= answer <= there, hint


# %% wrong
smallest_buckets, largest_buckets = 6, 1

# %% solution
# One for each of 12 parameters: 12 times the latency. One in all: nothing is sent before the
# backward has ended.
smallest_buckets, largest_buckets = 12, 1

# %% [markdown]
# ### Exercise 3
#
# Accumulate the gradients of four small batches with `with net.no_sync():` around the first three.
# How often do the ranks exchange all gradients?

# %% answer
exchanges = ...  # a number


# %% check
@exercise(3)
def check(exchanges):
    net = wrapped(0.2)
    before = distributed.world().collectives
    with net.no_sync():
        for _ in range(3):
            (net(rows) ** 2).mean().backward()
    (net(rows) ** 2).mean().backward()
    there = distributed.world().collectives - before
    net.close()
    hint = f"distributed.world().collectives went up by {there}: what does no_sync leave out?"
    assert exchanges == there, hint


# %% wrong
exchanges = 4

# %% solution
# Once: the number of collectives goes up by one exchange of all buckets.
exchanges = 1

# %% [markdown]
# ### Exercise 4
#
# What is the derivative of `broadcast` from rank 0? Derive it, from the cotangents of all ranks.


# %% answer
def broadcast_gradient(rank, cotangents): ...  # returns rank's gradient of its own x


# %% check
@exercise(4)
def check(broadcast_gradient):
    cotangents = [10.0, 20.0, 30.0]
    hint = "Every rank's y is the root's x: the root's x gets the cotangents of all of them."
    assert broadcast_gradient(0, cotangents) == 60.0, hint
    hint = "The x of another rank is written over, so it has no influence."
    assert broadcast_gradient(2, cotangents) == 0.0, hint
    b = mg.tensor([3.0], requires_grad=True)
    (distributed.broadcast(b, root=0) * (rank + 1)).sum().backward()
    expected = broadcast_gradient(rank, [r + 1.0 for r in range(size)])
    assert b.grad.tolist() == [expected], f"The backward gives {b.grad.tolist()}."


# %% wrong
def broadcast_gradient(rank, cotangents):
    return cotangents[rank]


# %% solution
def broadcast_gradient(rank, cotangents):
    return sum(cotangents) if rank == 0 else 0.0


# %% [markdown]
# ### Exercise 5
#
# From how many of `simulate.RANKS` on does a ring's step take more than 1.5 times as long as one
# rank's alone? Compare links of half the bandwidth and of a tenth of the latency.


# %% answer
def slow_from(step, link): ...  # returns the number, or None if there is none


# %% check
@exercise(5)
def check(slow_from):
    for link in (simulate.Link(10e-6, 5e9), simulate.Link(1e-6, 10e9), simulate.Link(1e-3, 10e9)):
        slow = [
            p for p in simulate.RANKS if simulate.predict(step, link, p).step > 1.5 * step.total
        ]
        hint = f"For {link} these are slow: {slow}. Look for the first of them."
        assert slow_from(step, link) == (slow[0] if slow else None), hint


# %% wrong
def slow_from(step, link):
    times = {p: simulate.predict(step, link, p).step for p in simulate.RANKS}
    return max(times, key=times.get)


# %% solution
# The ring's latency, 2(p − 1)α for each bucket, is what grows; bandwidth hardly matters.
def slow_from(step, link):
    for p in simulate.RANKS:
        if simulate.predict(step, link, p).step > 1.5 * step.total:
            return p
    return None
