# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 10 · On a GPU
#
# A GPU does a hundred times the arithmetic of a processor, if it is given enough of it at once, and
# if the data are there. minigrad's rules are written in NumPy's words, and CuPy's arrays understand
# the same words; so the engine needs no second copy of itself. What you need is a feeling for three
# prices: of a launch, of a byte from memory, of a copy to the host.
#
# **With a GPU** (and `pip install '.[gpu]'` from the checkout) every measurement here runs live.
# **Without one** the notebook runs as well: each measurement then shows what it found on the
# machine named below, saved in `data/gpu_outputs.json`. Each says which of the two it is.

# %%
import datetime
import inspect
import json
import os
import statistics
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad import nn, optim
from minigrad.backends import blas
from minigrad.backends import device as devices
from minigrad.fusion.launch import Kernel

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

LIVE = mg.cuda.is_available()
device = "cuda" if LIVE else "cpu"
FILE = Path("data/gpu_outputs.json")
saved = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"results": {}}
results = {}


def result(name, measure):
    """What measure() finds on this GPU; without one, what it found when the file was made."""
    results[name] = measure() if LIVE else saved["results"][name]
    return results[name]


where = f"{mg.cuda.get_device_name()}, live" if LIVE else f"{saved['gpu']}, saved {saved['date']}"
print("figures below:", where)
if not LIVE:
    print("made with", saved["versions"])

# %% [markdown]
# ## One source, two kinds of arrays
#
# A tensor holds an array, and the array knows where it lives. Everything else follows from Python's
# way of calling: `np.exp(x)` on a CuPy array runs CuPy's `exp`, on its GPU. Only where a new array
# is made from nothing does a rule have to ask which module to use. This is how:

# %%
print(inspect.getsource(devices.array_module))
print(inspect.getsource(devices.resolve))

# %% [markdown]
# A program names the device once. The rest of it stays as it is; this cell runs on either:


# %%
def network(device, width=64, rows=128, depth=3, dtype="float32"):
    """The loss of a small network, a function of no arguments, and its weights, on a device."""
    numbers = np.random.default_rng(1)
    weights = [
        mg.tensor(
            (numbers.normal(size=(width, width)) / width**0.5).astype(dtype),
            device=device,
            requires_grad=True,
        )
        for _ in range(depth)
    ]
    x = mg.tensor(numbers.normal(size=(rows, width)).astype(dtype), device=device)

    def loss():
        h = x
        for w in weights:
            h = mg.tanh(h @ w)
        return (h * h).mean()

    return loss, weights


loss, weights = network(device)
gradients = mg.grad(loss(), weights)
print("loss", loss().item(), "on", weights[0].device, "| gradients on", gradients[0].device)
assert gradients[0].device == weights[0].device

# %% [markdown]
# What does not happen is a silent copy: if arrays of two devices meet in one op, that is an error,
# because a program that moves data in secret is slow in secret. And without a GPU, asking for one
# says what is missing:

# %%
try:
    mg.ones(3, device="cpu") + mg.ones(3, device="cuda")
except Exception as error:
    print(type(error).__name__ + ":", error)
else:
    raise AssertionError("two devices in one op should be refused")

# %% [markdown]
# ## The same numbers?
#
# Nearly. Both follow the same formulas, but sums are added in another order, and `tanh` is rounded
# by another library. The largest difference of a gradient, relative to the largest entry:


# %%
def agreement():
    found = {}
    for dtype in ("float32", "float64"):
        (loss, weights), (other, others) = (network(d, dtype=dtype) for d in ("cpu", "cuda"))
        pairs = zip(mg.grad(loss(), weights), mg.grad(other(), others))
        found[dtype] = max(
            float(abs(a.numpy() - b.to("cpu").numpy()).max() / abs(a.numpy()).max())
            for a, b in pairs
        )
    return found


for dtype, off in result("agreement", agreement).items():
    print(f"{dtype}: {off:.1e} (one rounding: {np.finfo(dtype).eps:.1e})")
    assert off < 100 * np.finfo(dtype).eps

# %% [markdown]
# ## A launch returns before its work is done
#
# The host only puts a kernel into a queue (a *stream*), which costs some microseconds, and goes on.
# So a clock around an op measures the queueing. To measure the work, wait for the queue:


# %%
def asynchrony():
    x = mg.rand(8192, 8192, dtype="float32", device="cuda")
    (x @ x, mg.cuda.synchronize())  # the first call loads libraries
    start = perf_counter()
    for _ in range(10):
        x @ x
    queued = perf_counter()
    mg.cuda.synchronize()
    return {"queued_ms": 1e3 * (queued - start), "done_ms": 1e3 * (perf_counter() - start)}


times = result("asynchrony", asynchrony)
print(f"10 products 8192 × 8192: queued in {times['queued_ms']:.2f} ms, done in "
      f"{times['done_ms']:.0f} ms")  # fmt: skip
print(f"that is {10 * 2 * 8192**3 / times['done_ms'] / 1e9:.0f} TFLOP/s")
assert times["queued_ms"] < times["done_ms"] / 5

# %% [markdown]
# From here on, `seconds` waits. It also warms up first (the first use of a kernel compiles it),
# repeats until the clock is exact enough, and takes the median of five.


# %%
def seconds(fn, device):
    """The median time of one fn(), its work on the device included."""
    wait = mg.cuda.synchronize if device == "cuda" else lambda: None
    fn()
    fn()
    wait()
    start = perf_counter()
    fn()
    wait()
    count = max(1, min(500, int(0.05 / (perf_counter() - start))))
    seen = []
    for _ in range(5):
        start = perf_counter()
        for _ in range(count):
            fn()
        wait()
        seen.append((perf_counter() - start) / count)
    return statistics.median(seen)


# %% [markdown]
# ## How large is large enough?
#
# One layer, forward and backward, of $n \times n$ matrices: three products of $2 n^3$ operations
# and some passes over $n^2$ numbers. On the host of that GPU, and on the GPU:

# %%
SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)


def layer_step(device, n):
    x = mg.rand(n, n, dtype="float32", device=device)
    w = mg.rand(n, n, dtype="float32", device=device, requires_grad=True)
    x.requires_grad_()
    return lambda: mg.grad(mg.tanh(x @ w).sum(), [x, w])


def by_size():
    return {
        kind: [
            seconds(layer_step(kind, n), kind) for n in (SIZES if kind == "cuda" else SIZES[:-1])
        ]
        for kind in ("cpu", "cuda")
    }


by = result("by_size", by_size)
with blas.one_thread():
    here = [seconds(layer_step("cpu", n), "cpu") for n in SIZES[:5]]
figure, axes = plt.subplots(figsize=(7, 3.6))
axes.loglog(SIZES, [1e6 * t for t in by["cuda"]], "o-", color="#228833", label="GPU")
axes.loglog(SIZES[:-1], [1e6 * t for t in by["cpu"]], "s-", color="#4477aa", label="its host")
axes.loglog(SIZES[:5], [1e6 * t for t in here], "^:", color="grey", label="one core here, now")
axes.loglog(SIZES[3:], [1e6 * 6 * n**3 / 50e12 for n in SIZES[3:]], "--", color="black",
            label="6n³ operations at 50 TFLOP/s")  # fmt: skip
axes.set(xlabel="n", ylabel="µs", title="tanh(x @ w).sum(), forward and backward")
axes.legend(fontsize=8)
figure.tight_layout()

for n, cpu, gpu in zip(SIZES, by["cpu"], by["cuda"]):
    print(f"n = {n:4d}: host {1e6 * cpu:9.0f} µs, GPU {1e6 * gpu:7.0f} µs, ratio {cpu / gpu:6.2f}")
assert by["cpu"][0] < by["cuda"][0] and by["cpu"][-1] > 5 * by["cuda"][-1]

# %% [markdown]
# Up to about a thousand the curve of the GPU is flat: what is paid there are launches, a few for
# each op, and at its left end the GPU is *slower* than its host. Where it begins to rise,
# arithmetic takes over. Small models do not belong on a GPU; large batches of them may.
#
# ## A byte from memory: why kernels are fused
#
# `g * (1 - y * y)` is the derivative of tanh. Run op by op it is three kernels: each reads its
# inputs from memory and writes a result, which the next reads again. The arithmetic is free, the
# bytes are not. So on a GPU minigrad runs a rule once on *symbols*, which records what happens to
# one element, and makes a single kernel of it. Making the source needs no GPU; here it is, for this
# rule:


# %%
def tanh_rule(g, y):
    return g * (1 - y * y)


kernel = Kernel(tanh_rule, [np.dtype(np.float32)] * 2, ["full", "full"])
print(kernel.source())

# %% [markdown]
# Three kernels would move 8 arrays (read y, y, write; read, write; read, read, write); the fused
# one moves 3. `mg.fuse` does it for functions of yours, forward and gradient (on a processor too,
# where it works in blocks that stay in the cache):


# %%
def swish_tanh(x, y):
    return x * mg.sigmoid(x) + mg.tanh(y) * x


fused = mg.fuse(swish_tanh)


def fusion():
    x, y = (mg.randn(1 << 25, dtype="float32", device="cuda") for _ in range(2))
    found = {"bytes": x.nbytes}
    with mg.no_grad():
        for name, fn in (("apart", swish_tanh), ("fused", fused)):
            found[name] = seconds(lambda fn=fn: fn(x, y), "cuda")
        found["copy"] = seconds(lambda: x.data.copy(), "cuda")
    return found


told = result("fusion", fusion)
moved = 3 * told["bytes"]
copied = 2 * told["bytes"] / told["copy"]
print(f"op by op {1e3 * told['apart']:.2f} ms, fused {1e3 * told['fused']:.2f} ms")
print(f"fused: {moved / told['fused'] / 1e12:.2f} TB/s; a copy: {copied / 1e12:.2f} TB/s")
assert told["fused"] < told["apart"] / 2

x, y = (mg.randn(1000, requires_grad=True) for _ in range(2))  # and it is the same function
for a, b in zip(mg.grad(fused(x, y).sum(), [x, y]), mg.grad(swish_tanh(x, y).sum(), [x, y])):
    assert np.allclose(a, b, rtol=1e-5, atol=1e-6)

# %% [markdown]
# ## A copy to the host
#
# `loss.item()` asks the GPU for a number: the host has to wait until everything in the queue is
# done, and cannot prepare the next step meanwhile. minigrad counts every copy between host and GPU,
# in arrays and bytes; `mg.cuda.transfers()` returns the counts, and their difference around a
# training step tells what it moves. A training step should move its batch, and nothing else.


# %%
def transfers():
    loss, weights = network("cuda", width=256, rows=256, depth=6)
    optimizer = optim.SGD(weights, lr=0.01)

    def train(steps, look_every):
        start, before = perf_counter(), mg.cuda.transfers()
        for step in range(steps):
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
            if step % look_every == look_every - 1:
                value.item()
        mg.cuda.synchronize()
        took, now = perf_counter() - start, mg.cuda.transfers()
        count = now.to_host - before.to_host
        return {"us_a_step": 1e6 * took / steps, "copies_to_host": count}

    train(50, 50)
    return {"every step": train(500, 1), "every 100th": train(500, 100)}


for often, told in result("transfers", transfers).items():
    print(
        f"item() {often:12s}: {told['copies_to_host']:4d} copies to the host, "
        f"{told['us_a_step']:6.0f} µs a step"
    )
looks = {often: told["copies_to_host"] for often, told in results["transfers"].items()}
assert looks == {"every step": 500, "every 100th": 5}

# %% [markdown]
# In this small network the host is the slower of the two anyway, so the GPU waits for it and a look
# at the loss costs little. Where the GPU is the slower one, each look gives up the overlap: the
# queue runs dry while the host prepares the next step.

# %% [markdown]
# ## Fewer bits
#
# Most of a GPU's arithmetic is in its tensor cores, which multiply narrower numbers. **TF32**
# rounds the factors of a float32 product to 10 bits of mantissa; **bfloat16** has 7, and halves the
# memory too. Both add up in float32. `mg.autocast` runs products narrow and sums, exponentials and
# losses wide, with no change to the model; its log says what it cast. This part runs anywhere:

# %%
loss, weights = network(device)
with mg.autocast(mg.bfloat16, device=device) as casting:
    value = loss()
narrow = mg.grad(value, weights)
for event in casting.log:
    print(event)
wide = mg.grad(loss(), weights)
off = max(float(abs((a - b).to("cpu").numpy()).max() / abs(b.to("cpu").numpy()).max())
          for a, b in zip(narrow, wide))  # fmt: skip
print(f"gradients in {narrow[0].dtype}, off by {off:.1e} of the largest entry")
assert narrow[0].dtype == np.float32 and 1e-5 < off < 0.1


# %%
def precisions():
    def step(narrow):
        loss, weights = network("cuda", width=4096, rows=4096, depth=2)

        def run():
            if not narrow:
                return mg.grad(loss(), weights)
            with mg.autocast(mg.bfloat16, device="cuda"):
                value = loss()
            return mg.grad(value, weights)

        return seconds(run, "cuda")

    found = {"float32": step(False)}
    mg.cuda.allow_tf32(True)
    found["TF32"] = step(False)
    mg.cuda.allow_tf32(False)
    found["bfloat16 by autocast"] = step(True)
    return found


told = result("precisions", precisions)
for name, took in told.items():
    print(f"{name:22s} {1e3 * took:7.2f} ms a step, {told['float32'] / took:5.2f} times float32")
assert told["TF32"] < told["float32"] and told["bfloat16 by autocast"] < told["float32"]

# %% [markdown]
# ## A convnet
#
# The network of notebook 11, a training step with batches of different size: images a second.


# %%
def digit_net():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def training_step(device, rows):
    model = digit_net().to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x = mg.rand(rows, 1, 8, 8, dtype="float32", device=device)
    target = mg.tensor(np.arange(rows) % 10, device=device)

    def step():
        optimizer.zero_grad()
        mg.cross_entropy(model(x), target).backward()
        optimizer.step()

    return step


BATCHES = (32, 256, 2048, 16384)


def convnet():
    return {
        kind: [rows / seconds(training_step(kind, rows), kind) for rows in BATCHES]
        for kind in ("cpu", "cuda")
    }


told = result("convnet", convnet)
for rows, cpu, gpu in zip(BATCHES, told["cpu"], told["cuda"]):
    print(f"batch {rows:6d}: host {cpu:10,.0f} images/s, GPU {gpu:12,.0f} images/s")
with blas.one_thread():
    here = 256 / seconds(training_step("cpu", 256), "cpu")
print(f"the processor here, batch 256: {here:,.0f} images/s")
assert told["cuda"][-1] > 10 * told["cuda"][0]

# %% [markdown]
# Again the flat part: with 32 images the GPU spends its time on launches, and takes hardly longer
# for 2,048.

# %%
if LIVE and os.environ.get("MINIGRAD_SAVE_GPU_OUTPUTS"):  # how data/gpu_outputs.json was made
    import cupy

    versions = {"minigrad": mg.__version__, "cupy": cupy.__version__, "numpy": np.__version__}
    versions["cuda"] = cupy.cuda.runtime.runtimeGetVersion()
    today = datetime.date.today().isoformat()
    found = {"gpu": mg.cuda.get_device_name(), "date": today, "versions": versions}
    text = json.dumps({**found, "results": results}, indent=1)
    Path(os.environ["MINIGRAD_SAVE_GPU_OUTPUTS"]).write_text(text + "\n", encoding="utf-8")

# %% [markdown]
# ## Exercises
#
# All of them can be done without a GPU.
#
# ### Exercise 1
#
# Write `break_even(sizes, host, gpu)`: the size at which both take equally long. Interpolate on the
# logarithmic scale, for sizes and for times; then use it on the times by size above.


# %% answer
def break_even(sizes, host, gpu): ...


# %% check
@exercise(1)
def check(break_even):
    sizes = np.array([16.0, 64.0, 256.0, 1024.0])
    even = float(break_even(sizes, 0.01 * sizes**2, 1.0 * sizes))  # they meet at 100
    hint = f"For times n²/100 and n the answer is 100, not {even:.4g}. Interpolate log(host/gpu)."
    assert np.isclose(even, 100), hint
    measured = float(break_even(np.array(SIZES[: len(by["cpu"])]), np.array(by["cpu"]),
                                np.array(by["cuda"][: len(by["cpu"])])))  # fmt: skip
    assert SIZES[0] <= measured <= SIZES[-1], f"{measured:.4g} is outside the measured sizes."


# %% wrong
def break_even(sizes, host, gpu):
    return np.interp(0, host - gpu, sizes)


# %% solution
# The ratio host/GPU passes 1 between two sizes, its logarithm 0.
def break_even(sizes, host, gpu):
    return np.exp(np.interp(0, np.log(host / gpu), np.log(sizes)))


# %% [markdown]
# ### Exercise 2
#
# How many arrays does `x * sigmoid(x) + tanh(y) * x` move op by op, and how many fused? Compare the
# ratio with what was measured.

# %% answer
arrays = ...  # op by op, and fused


# %% check
@exercise(2)
def check(arrays):
    one_input, two_inputs = 2, 3  # arrays that an op reads and writes
    hint = "There are five ops. Each reads its inputs from memory and writes its result there."
    assert arrays[0] == 2 * one_input + 3 * two_inputs, hint
    assert arrays[1] == 3, "Fused, each input is read once, and only the result is written."
    measured = results["fusion"]["apart"] / results["fusion"]["fused"]
    assert arrays[0] / arrays[1] / 2 < measured < 2 * arrays[0] / arrays[1], f"{measured=:.1f}"


# %% wrong
arrays = 10, 3

# %% solution
# sigmoid 2, product 3, tanh 2, product 3, sum 3: 13 arrays; fused x, y and the result: 3.
arrays = 13, 3

# %% [markdown]
# ### Exercise 3
#
# Write a softmax along the last axis that runs on a NumPy array, a CuPy array and a tensor alike,
# without asking which it is. Large inputs must not overflow.


# %% answer
def softmax(x): ...


# %% check
@exercise(3)
def check(softmax):
    numbers = rng.normal(size=(4, 5))
    with np.errstate(all="ignore"):
        far = softmax(numbers + 1000)
    assert np.allclose(softmax(numbers).sum(axis=-1), 1), "Each row adds up to 1: keep the axis."
    hint = "It overflows. Subtract the largest of each row first; the quotient stays the same."
    assert np.allclose(far, softmax(numbers)), hint
    x = mg.tensor(numbers, device=device)
    hint = "A tensor gives another result. Use only methods and functions that all three have."
    assert np.allclose(softmax(numbers), softmax(x).to("cpu")), hint


# %% wrong
def softmax(x):
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


# %% solution
# Only methods and functions that all three have.
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# %% [markdown]
# ### Exercise 4
#
# A training step has 60 kernels of 8 µs work each, and a launch costs the host 12 µs. How long is a
# step? And if fusion makes 20 kernels of them, of 16 µs work each?

# %% answer
step_us = ...  # microseconds
fused_us = ...


# %% check
@exercise(4)
def check(step_us, fused_us):
    hint = "The host queues while the GPU works: they overlap, and the slower of the two counts."
    assert step_us == 60 * max(12, 8), hint
    assert fused_us == 20 * max(12, 16), hint


# %% wrong
step_us = 60 * (12 + 8)
fused_us = 20 * (12 + 16)

# %% solution
# Before, the host is the slower one: 720 µs, while the GPU would need 480. Fused, the host needs
# 240 µs, the GPU 320, and now the GPU is busy all the time.
step_us = 720
fused_us = 320
