# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 7 · The profiler: find and fix a slow training step
#
# Here is a program as one writes it on a first afternoon: it tells handwritten digits apart, its
# numbers are right, and it is several times slower and larger than it has to be. We let the
# profiler write a report, repair what the report names, and measure after each repair.
#
# The rule of the game: **measure, change one thing, measure again.** Nothing is repaired because it
# looks slow.

# %%
import os

# The matrices here are small: threads inside one product would wait for each other, not work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import inspect
import statistics
import tempfile
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise
from IPython.display import SVG, display
from minigrad_profiler import report_advice
from minigrad_profiler.memory import story
from minigrad_profiler.report import report_of, write_report
from minigrad_profiler.roofline import roofline

import minigrad as mg
from minigrad import data, optim
from minigrad.instrument import cells

mg.show_versions()
folder = tempfile.TemporaryDirectory()

# %% [markdown]
# ## The patient
#
# The model keeps 192 images as *centres*. A new image is described by how near it is to each
# centre, and a matrix turns the 192 numbers into scores for the ten digits. Both are trained. Each
# batch gets a little noise, so that the model does not learn single pixels by heart.
#
# The program has four faults. Try to find them before you read on.

# %%
images, labels = data.load_digits().arrays
images = images.reshape(-1, 64)  # float32, from 0 to 1
ROWS, CENTRES = 128, 192


def noisy_batch(step):
    """128 images with noise, and their labels."""
    rows = np.arange(step * ROWS, (step + 1) * ROWS) % len(images)
    noise = 0.05 * np.random.default_rng(step).normal(size=(ROWS, 64))
    return mg.tensor(images[rows] + noise, requires_grad=True), labels[rows]


def nearness(x, centres):
    """How near each image is to each centre, from 0 to 1."""
    difference = x[:, None, :] - centres
    return np.exp(-8 * (difference**2).mean(axis=2))


def loss_by_rows(x, labels, centres, weights):
    """The mean of the images' losses."""
    scores = nearness(x, centres) @ weights
    total = 0.0
    for row, label in zip(scores, labels):
        total = total + mg.cross_entropy(row[None], label[None])
    return total / len(labels)


def train(batch, loss_of, steps):
    """Returns the milliseconds of each step, and the losses."""
    centres = mg.tensor(images[:CENTRES], requires_grad=True)
    weights = mg.zeros(CENTRES, 10, dtype="float32", requires_grad=True)
    optimizer = optim.Adam([centres, weights], lr=0.02)
    times, losses = [], []
    for step in range(steps):
        begin = perf_counter()
        optimizer.zero_grad()
        loss = loss_of(*batch(step), centres, weights)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(1e3 * (perf_counter() - begin))
    return times, losses


times, losses = train(noisy_batch, loss_by_rows, 30)
print(f"{statistics.median(times):.1f} ms a step; loss {losses[0]:.2f} -> {losses[-1]:.2f}")
assert losses[-1] < losses[0] / 2

# %% [markdown]
# ## The report
#
# An **event log** holds every op with its times, shapes and lines; with `memory=True` also every
# array that came and went. The report is one HTML page made of it: summary, findings, tables by op
# and line, timeline, memory, roofline. For a script of your own no line has to change:
#
#     minigrad-profile run --html report.html your_program.py
#
# In a notebook the log is recorded around some steps:


# %%
def record(name, batch, loss_of, steps=4):
    """The path of an event log of a few steps."""
    log = os.path.join(folder.name, f"{name}.jsonl")
    with mg.event_log(log, memory=True):
        train(batch, loss_of, steps)
    return log


first = record("first", noisy_batch, loss_by_rows)
page = os.path.join(folder.name, "report.html")
write_report(first, page)
print(f"report.html: {os.path.getsize(page) / 1024:.0f} KiB, open it in a browser")

# %% [markdown]
# Begin with its findings, the largest first. Each names a line (`In[2]:31` is line 31 of the cell
# that ran second), says how much of the run it concerns, and what to try:

# %%
findings = report_of(first).findings
print(report_advice.as_text(findings[:4], 100))

# %% [markdown]
# One line leads: that of the loop. It calls `cross_entropy` once for each image, thousands of calls
# of a few microseconds each, and the call costs more than the work. The same line is the slowest,
# and the Python around the calls counts as well: three findings, one cause.
#
# How does the profiler know? The engine tells a *listener* about every op. This one hears most
# calls of a forward for `mg.profile()`: a look into a dict, two appends, a comparison of dtypes.

# %%
print(inspect.getsource(cells.brief_counter))

# %% [markdown]
# ## Repair 1: one call for the whole batch
#
# `mg.cross_entropy` takes all rows at once, and its mean is the mean that we want.


# %%
def loss_at_once(x, labels, centres, weights):
    """The mean of the images' losses."""
    return mg.cross_entropy(nearness(x, centres) @ weights, labels)


# %% [markdown]
# Is it still the same computation? The losses of a few steps must agree to what rounding allows.
# And is it faster? Other programs disturb a measurement, so versions run in turns, and the median
# counts; the middle half (the quartiles) says how far to trust it.


# %%
def compare(names, rounds=4, steps=8):
    """{name: (median, lower quartile, upper quartile)} in ms a step, versions run in turns."""
    seen = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            times, found = train(*versions[name], steps)
            seen[name] += times[1:]
            assert np.allclose(found, losses[:steps], rtol=2e-3), f"{name} computes something else"
    result = {}
    for name, times in seen.items():
        low, middle, high = statistics.quantiles(times, n=4)
        result[name] = middle, low, high
        print(f"{name:24s} {middle:6.2f} ms a step (middle half: {low:.2f} to {high:.2f})")
    return result


versions = {"as it was": (noisy_batch, loss_by_rows), "one call": (noisy_batch, loss_at_once)}
_ = compare(list(versions))

# %% [markdown]
# ## Repair 2: float64
#
# Ask for a new report, since the old one describes another program:

# %%
log = record("one call", *versions["one call"])
print(report_advice.as_text(report_of(log).findings[:1], 100))


# %% [markdown]
# NumPy's rule: float32 and float64 give float64. `normal` makes float64, so the batch is float64,
# and from there every number behind it is twice as large.


# %%
def float32_batch(step):
    """128 images with noise, and their labels."""
    rows = np.arange(step * ROWS, (step + 1) * ROWS) % len(images)
    noise = 0.05 * np.random.default_rng(step).normal(size=(ROWS, 64))
    return mg.tensor(images[rows] + noise.astype("float32"), requires_grad=True), labels[rows]


versions["float32"] = float32_batch, loss_at_once
_ = compare(list(versions)[-2:])
with mg.profile() as prof:
    train(*versions["float32"], 2)
assert "float64 was" not in prof.table()

# %% [markdown]
# ## Repair 3: memory
#
# The next report leads to two lines that stand below each other. `story` reads the same log: what
# was alive at the peak, and whose was it?

# %%
log = record("float32", *versions["float32"])
findings = [f for f in report_of(log).findings if f.kind in ("slow line", "memory")]
print(report_advice.as_text(findings, 100))
before = story(log)
print(before.text(100, 5))

# %% [markdown]
# `difference` has an entry for each image, each centre and each pixel: 1.6 million numbers, made
# only to be squared and added up. The backward makes arrays of the same size. But
#
# $$ \|x - c\|^2 = \|x\|^2 - 2\, x \cdot c + \|c\|^2 , $$
#
# and the right side is one matrix product and two vectors: no array has all three axes.


# %%
def nearness_by_product(x, centres):
    """How near each image is to each centre, from 0 to 1."""
    squares = (x * x).sum(axis=1, keepdims=True) - 2 * (x @ centres.T) + (centres**2).sum(axis=1)
    return np.exp(-8 / 64 * squares)


def loss_by_product(x, labels, centres, weights):
    """The mean of the images' losses."""
    return mg.cross_entropy(nearness_by_product(x, centres) @ weights, labels)


versions["a product"] = float32_batch, loss_by_product
_ = compare(list(versions)[-2:])
after = story(record("a product", *versions["a product"]))
print(f"peak {before.peak / 2**20:.1f} MiB -> {after.peak / 2**20:.1f} MiB")
assert after.peak < before.peak / 3

# %%
figure, axes = plt.subplots(figsize=(7, 2.8))
for told, name, colour in ((before, "before", "#ee6677"), (after, "after", "#4477aa")):
    t = [time / 1e6 for time, _, _ in told.timeline]
    live = [alive / 2**20 for _, alive, _ in told.timeline]
    axes.fill_between(t, live, alpha=0.5, step="post", color=colour, label=name)
axes.set(xlabel="ms", ylabel="MiB alive", title="Four steps, before and after (recorded)")
axes.legend()
figure.tight_layout()

# %% [markdown]
# ## Repair 4: a gradient that nobody reads
#
# The fourth fault is too small for a finding here. The images are given and nobody reads their
# gradient; yet they are made with `requires_grad=True`, so each step computes it. The table of ops
# counts the backward:


# %%
def lean_batch(step):
    """128 images with noise, and their labels."""
    x, labels = float32_batch(step)
    return x.detach(), labels


def backward_calls(batch):
    with mg.profile() as prof:
        train(batch, loss_by_product, 2)
    return sum(row.calls for row in prof.rows() if row.phase == "backward")


versions["no needless gradient"] = lean_batch, loss_by_product
was, now = backward_calls(float32_batch), backward_calls(lean_batch)
print(f"ops of two backwards: {was} -> {now}")
assert now < was

# %% [markdown]
# ## The result
#
# All versions, in turns:

# %%
names = list(versions)
result = compare(names, rounds=5)
peaks = {}
for name, version in versions.items():
    with mg.profile(memory=True) as prof:
        train(*version, 3)
    peaks[name] = prof.memory.peak / 2**20

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True)
middle = [result[n][0] for n in names]
spread = [[m - result[n][1] for n, m in zip(names, middle)]]
spread.append([result[n][2] - m for n, m in zip(names, middle)])
left.barh(names, middle, xerr=spread, color="#4477aa", capsize=3)
left.set(xlabel="ms a step, with the middle half")
right.barh(names, [peaks[n] for n in names], color="#ee6677")
right.set(xlabel="MiB at the peak")
left.invert_yaxis()
figure.tight_layout()
times_faster = middle[0] / middle[-1]
print(f"{times_faster:.1f} times as fast, {peaks[names[0]] / peaks[names[-1]]:.1f} times smaller")
assert peaks[names[-1]] < peaks[names[0]] / 3

# %% [markdown]
# Read the error bars, too. A repair has been *measured* to be faster only where the bars before and
# after it do not overlap. One call and the product are of that kind on any machine.
#
# ## How far could it still go?
#
# An op of $f$ operations that moves $b$ bytes takes at least $\max(f / F, b / B)$ on a machine that
# can do $F$ operations and move $B$ bytes a second: the **roofline** (Williams, Waterman,
# Patterson, 2009). Peaks are measured here, in a second or two; each point is an op. Left of the
# ridge memory is the limit, right of it arithmetic; an op far below the roof waits for neither, but
# for calls. The dashed slope is the roof of arrays that a cache holds.

# %%
roof = roofline(record("lean", *versions["no needless gradient"], steps=10))
print(roof.text(100, 8).partition("\n\n")[0])
display(SVG(roof.svg()))

# %% [markdown]
# When the leading finding is the product that the model is about, and it stands near the roof, it
# is a good moment to stop. Now take a program of your own, and look at its report first.

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Amdahl's law: a part of the program takes the share $s$ of the time and becomes $k$ times as fast.
# How many times as fast is the program? Compare with what repair 1 gained.


# %% answer
def speedup(s, k): ...


# %% check
@exercise(1)
def check(speedup):
    assert np.isclose(speedup(1.0, 4.0), 4.0), "If the part is everything, the program gains k."
    assert np.isclose(speedup(0.3, 1.0), 1.0), "A part that is no faster gains nothing: factor 1."
    hint = "Half of the time made infinitely fast leaves the other half: a factor of 2 at most."
    assert speedup(0.5, 1e12) < 2.001, hint
    assert np.isclose(speedup(0.5, 2.0), 4 / 3), "The new time is (1 − s) + s/k of the old."


# %% wrong
def speedup(s, k):
    return 1 - s + s * k


# %% solution
# The new time is (1 − s) + s/k of the old one.
def speedup(s, k):
    return 1 / (1 - s + s / k)


# %% [markdown]
# ### Exercise 2
#
# Plant a fault of your own: `slower` gives the same loss as `loss_by_product`, with at least twice
# as many calls of ops. Make a report of it and see that it names your line.


# %% answer
def slower(x, labels, centres, weights): ...


# %% check
@exercise(2)
def check(slower):
    def calls(loss_of):
        with mg.profile() as prof:
            found = train(lean_batch, loss_of, 2)[1]
        return sum(row.calls for row in prof.rows()), found

    (few, right), (many, found) = calls(loss_by_product), calls(slower)
    hint = f"The losses are {found}, not {right}: a fault of speed keeps the numbers."
    assert np.allclose(found, right, rtol=1e-3), hint
    assert many >= 2 * few, f"{many} calls, and loss_by_product has {few}: make it slower."


# %% wrong
def slower(x, labels, centres, weights):
    return sum(loss_by_product(x, labels, centres, weights) for _ in range(3))


# %% solution
# The line of the sum runs three times as often.
def slower(x, labels, centres, weights):
    return sum(loss_by_product(x, labels, centres, weights) for _ in range(3)) / 3


# %% [markdown]
# ### Exercise 3
#
# Write a listener of your own: `bytes_made(run)` calls `run()` and returns the bytes of all results
# of all forward ops. `mg.engine.events.listen(hear)` calls `hear(event)`, `unlisten(hear)` ends it;
# an event is (kind, op, start, end, node, inputs, outputs, parameters), its kind `"forward"`.


# %% answer
def bytes_made(run): ...


# %% check
@exercise(3)
def check(bytes_made):
    x = mg.tensor(np.ones(1000), requires_grad=True)
    found = bytes_made(lambda: np.exp(x).sum())
    hint = f"exp and sum make 8,008 bytes of float64, not {found}: add up y.nbytes of the outputs."
    assert found == 8008, hint
    found = bytes_made(lambda: np.exp(x).sum().backward())
    assert found == 8008, "The events of the backward, of another kind, count as well."
    was = bytes_made(lambda: train(*versions["as it was"], 2))
    now = bytes_made(lambda: train(*versions["no needless gradient"], 2))
    assert was > 5 * now, f"As it was {was:,} bytes, now {now:,}: is an old listener still there?"


# %% wrong
def bytes_made(run):
    made = []
    hear = lambda event: made.extend(x.nbytes for x in event[5] if x is not None)
    mg.engine.events.listen(hear)
    try:
        run()
    finally:
        mg.engine.events.unlisten(hear)
    return sum(made)


# %% solution
# `finally`: a listener that stays after an error would slow down everything behind it.
def bytes_made(run):
    made = []

    def hear(event):
        if event[0] == "forward":
            made.extend(y.nbytes for y in event[6] if y is not None)

    mg.engine.events.listen(hear)
    try:
        run()
    finally:
        mg.engine.events.unlisten(hear)
    return sum(made)
