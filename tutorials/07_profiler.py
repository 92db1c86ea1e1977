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
# `slow.py`, beside this notebook, trains a small network and has five faults. It gives right
# numbers, and it is much slower and larger than it has to be. We look at it with the profiler's
# tools, one after the other, repair what each of them shows, and measure after each repair.
#
# The rule of the game: **measure, change one thing, measure again.** Nothing is repaired because it
# looks slow.

# %%
import os

# The matrices here are small: threads inside one product would wait for each other, not work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import difflib
import inspect
import re
import statistics
import sys
import tempfile
import types
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import slow
from IPython.display import SVG, display
from minigrad_profiler import report_advice
from minigrad_profiler.memory import story
from minigrad_profiler.report import report_of
from minigrad_profiler.roofline import roofline

import minigrad as mg
from minigrad.instrument import cells
from minigrad.instrument.profile import recording_cost

mg.show_versions()
folder = tempfile.TemporaryDirectory()

# %% [markdown]
# ## The patient
#
# The script fits distances of points from the origin. `Bumps` measures how near each point is to
# each of many centres; `penalty` keeps a weight small. Its comments give the faults away, so they
# are left out here; try to find all five in the text before you read on.

# %%
source = Path(slow.__file__).read_text(encoding="utf-8")


def without_comments(text):
    lines = [line for line in text.splitlines() if not line.strip().startswith("#")]
    return "\n".join(lines)


for part in (slow.Bumps, slow.Net, slow.penalty, slow.main):
    print(without_comments(inspect.getsource(part)), end="\n\n")

# %% [markdown]
# To run variants of it, a version is its text, compiled under a name of its own. Each step of the
# script prints a line; we listen to those, and know how long each step took and what the losses
# were.


# %%
def version(text, name):
    """The script's text as a module."""
    module = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def run(module, steps):
    """Run the script; the milliseconds of each step after the first, and the losses."""
    times, losses = [], []

    def heard(line):
        times.append(perf_counter())
        losses.append(float(line.split()[-1]))

    module.print = heard
    before, sys.argv = sys.argv, ["slow.py", "--steps", str(steps)]
    try:
        module.main()
    finally:
        sys.argv = before
    return [1e3 * (b - a) for a, b in zip(times, times[1:])], losses


versions = {"as it was": version(source, "slow")}
times, losses = run(versions["as it was"], 12)
print(f"{statistics.median(times):.1f} ms a step (from {min(times):.1f} to {max(times):.1f})")
print("losses", losses[:3], "...")

# %% [markdown]
# ## First look: which ops?
#
# `mg.profile()` counts and times every op, forward and backward. (From a terminal, with no change
# to a script: `MINIGRAD_PROFILE=1 python slow.py` for this table, or `minigrad-profile run --html
# report.html slow.py` for a page with all that follows here; see `docs/profiling.md`.)

# %%
with mg.profile() as prof:
    run(versions["as it was"], 4)
print(prof.table(20))

# %% [markdown]
# Two things stand out. **matmul** takes the largest share, in many calls a step each way, though
# the model has only a few matrices. And `sum`, `mul` and `add` together are called some three
# hundred times a step and take microseconds each: hardly any work, much calling.
#
# The last lines say that somewhere float64 is made of float32. We come to that.
#
# How does the profile get its numbers, and what does it cost? The engine tells a *listener* about
# every op. This hears most calls of a forward: a look into a dict, two appends and a comparison of
# dtypes (a float64 made of float32 is a promotion). Where it returns False, `cells.counter` hears
# the whole event:

# %%
print(inspect.getsource(cells.brief_counter))
cost = recording_cost()
print(f"here: about {cost:.0f} ns a call")

# %% [markdown]
# ## Second look: which lines?
#
# With `lines=True` it tells source lines apart, also for the backward: each node remembers which
# line made it.

# %%
with mg.profile(lines=True) as prof:
    run(versions["as it was"], 4)
print(prof.table(8))

# %% [markdown]
# The most expensive line is the product inside the loop. It raises a matrix to its $k$-th power,
# one factor at a time: $k - 1$ products. Here $k$ is a power of two, so squaring does it with
# $\log_2 k$, as $M^8 = ((M^2)^2)^2$, and the backward then has fewer products too. That is the
# first repair:


# %%
def repaired(text, old, new):
    """The text with one passage replaced; shows the difference."""
    assert text.count(old) == 1, "slow.py has changed: adapt this notebook"
    after = text.replace(old, new)
    difference = difflib.unified_diff(text.splitlines(), after.splitlines(), n=0, lineterm="")
    print("\n".join(line for line in difference if not line.startswith(("---", "+++", "@@"))))
    return after


loop = re.search(r"for _ in range\((\d+)\):\n +power = power @ self.mixing", source)
products = int(loop[1])
squarings = (products + 1).bit_length() - 1
assert 2**squarings == products + 1
source = repaired(
    source,
    loop[0],
    loop[0].replace(loop[1], str(squarings)).replace("@ self.mixing", "@ power"),
)
print(f"{products} products, or {squarings}")
versions["squarings"] = version(source, "squarings")


# %% [markdown]
# Is it still the same computation? Products of matrices are rounded, so the last digits may move;
# the losses of a few steps must agree to what is printed of them, or nearly. And is it faster?
# Other programs disturb a measurement, so all versions are run in turns, and the median counts; the
# range of the middle half (the quartiles) says how far to trust it.


# %%
def compare(names, rounds=4, steps=7):
    """{name: (median, lower quartile, upper quartile)} in ms a step, versions run in turns."""
    seen = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            times, found = run(versions[name], steps)
            seen[name] += times
            assert np.allclose(found, losses[:steps], rtol=2e-3), f"{name} computes something else"
    result = {}
    for name, times in seen.items():
        low, middle, high = statistics.quantiles(times, n=4)
        result[name] = middle, low, high
        print(f"{name:24s} {middle:6.2f} ms a step (middle half: {low:.2f} to {high:.2f})")
    return result


names = list(versions)
_ = compare(names[-2:])

# %% [markdown]
# ## Third look: memory
#
# An **event log** holds every op with its times, shapes and lines; with `memory=True` also every
# array that came and went. `story` reads it: what was alive at the peak, and whose was it?

# %%
log = os.path.join(folder.name, "before.jsonl")
with mg.event_log(log, memory=True):
    run(versions["squarings"], 3)
before = story(log)
print(before.text(100, 6))

# %% [markdown]
# The line with `** 2` owns nearly everything: it forms each *difference* between a point and a
# centre in each coordinate, only to square and add them up. The backward then makes arrays of the
# same size. But
#
# $$ \|x - c\|^2 = \|x\|^2 - 2\, x \cdot c + \|c\|^2 , $$
#
# and the right side is one matrix product and two vectors: no array has all three of points,
# centres and coordinates.

# %%
source = repaired(
    source,
    "        square = ((x.reshape(-1, 1, SIDES) - self.centres) ** 2).mean(axis=2)\n",
    """        c = self.centres
        square = (x * x).sum(axis=1, keepdims=True) - 2 * (x @ c.T) + (c * c).sum(axis=1)
        square = square / SIDES
""",
)
versions["squares by a product"] = version(source, "product")
names = list(versions)
_ = compare(names[-2:])

log = os.path.join(folder.name, "after.jsonl")
with mg.event_log(log, memory=True):
    run(versions["squares by a product"], 3)
after = story(log)
print(f"peak {before.peak / 2**20:.1f} MiB -> {after.peak / 2**20:.1f} MiB")
assert after.peak < before.peak / 3

# %%
figure, axes = plt.subplots(figsize=(7, 2.8))
for told, name, colour in ((before, "before", "#ee6677"), (after, "after", "#4477aa")):
    t = [time / 1e6 for time, _, _ in told.timeline]
    live = [alive / 2**20 for _, alive, _ in told.timeline]
    axes.fill_between(t, live, alpha=0.5, step="post", color=colour, label=name)
axes.set(xlabel="ms", ylabel="MiB alive", title="Three steps, before and after (recorded)")
axes.legend()
figure.tight_layout()

# %% [markdown]
# ## Fourth look: many small calls
#
# Look at the lines again, now that the two large ones are gone:

# %%
with mg.profile(lines=True) as prof:
    run(versions["squares by a product"], 4)
print(prof.table(10))
small = [row for row in prof.rows() if row.calls >= 100]
print(f"{sum(row.calls for row in small):,} calls belong to lines that run over 100 times")

# %% [markdown]
# `penalty` goes through the rows of a matrix, and each row costs several ops, forward and backward,
# of a few microseconds: nearly all of that is the price of calling, not of adding. A whole array in
# one op costs the same call once.

# %%
source = repaired(
    source,
    """    total = mg.zeros((), dtype="float32")
""",
    "",
)
source = repaired(
    source,
    """    for row in weight:
        total = total + (row * row).sum()
    return total
""",
    """    return (weight * weight).sum()
""",
)
versions["one op a matrix"] = version(source, "whole")
names = list(versions)
_ = compare(names[-2:])
# %% [markdown]
# ## Fifth look: float64
#
# The profile said that float64 is made of float32, and where. NumPy's rule: a float32 array and a
# float64 array give float64. `np.linspace` makes float64 unless it is told otherwise, and from
# there every number behind it is twice as large; the gradients that come back are float64 too, up
# to that line.

# %%
with mg.profile(lines=True) as prof:
    run(versions["one op a matrix"], 4)
table = prof.table()
print(table[table.index("float64 was") :])

# %%
source = repaired(
    source, "np.linspace(1, 2, POINTS)", "np.linspace(1, 2, POINTS, dtype=np.float32)"
)
versions["float32"] = version(source, "narrow")
with mg.profile(lines=True) as prof:
    run(versions["float32"], 4)
assert "float64 was" not in prof.table()

# %% [markdown]
# ## Sixth look: gradients that nobody reads
#
# The profiler's *advice* collects such findings by itself. Ask it about the present version:

# %%
log = os.path.join(folder.name, "float32.jsonl")
with mg.event_log(log, memory=True):
    run(versions["float32"], 4)
print(report_advice.as_text(report_of(log).findings, 100))

# %% [markdown]
# One kind of finding is new: an **unused gradient**. The points are given and nobody reads their
# gradient; yet they were made with `requires_grad=True`, so each step computes it, and
# adds it to what is there, since nobody clears it either. (The others are the price of what the
# script wants: there is always a slowest line, only another one.)

# %%
source = repaired(source, "mg.tensor(points, requires_grad=True)", "mg.tensor(points)")
versions["no needless gradient"] = version(source, "lean")


def backward_calls(module):
    with mg.profile() as prof:
        run(module, 2)
    return sum(row.calls for row in prof.rows() if row.phase == "backward")


was, now = (backward_calls(versions[n]) for n in ("float32", "no needless gradient"))
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
for name, module in versions.items():
    with mg.profile(memory=True) as prof:
        run(module, 3)
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

first, last = result["as it was"][0], result["no needless gradient"][0]
print(
    f"{first / last:.1f} times as fast, {peaks['as it was'] / peaks[names[-1]]:.1f} times smaller"
)
assert peaks[names[-1]] < peaks["as it was"] / 3

# %% [markdown]
# Read the error bars, too. A repair has been *measured* to be faster only where the bars before and
# after it do not overlap. The first two are of that kind on any machine. The last two (float32 for
# the importances, a few ops fewer) hardly ever are: they are right, they would matter in a larger
# model, and here there is no reason to claim that they made anything faster.

# %% [markdown]
# ## How far could it still go?
#
# An op of $f$ operations that moves $b$ bytes takes at least $\max(f / F, b / B)$ on a machine that
# can do $F$ operations and move $B$ bytes a second: the **roofline** (Williams, Waterman,
# Patterson, 2009). Peaks are measured here, in a second or two; each point is an op. Left of the
# ridge memory is the limit, right of it arithmetic; what lies far below the roof spends its time on
# neither. The dashed slope is that of caches: the roof of an op is that of the cache which holds
# the arrays of one call, or of memory.

# %%
log = os.path.join(folder.name, "lean.jsonl")
with mg.event_log(log):
    run(versions["no needless gradient"], 10)
roof = roofline(log)
print(roof.text(100, 8).partition("\n\n")[0])
display(SVG(roof.svg()))

# %% [markdown]
# The products take nearly all of the time and are near the roof; what is left to win there is the
# work of BLAS. The rest takes little: small arrays, many of which cost what a call costs, and no
# repair of the script changes that. That is a good moment to stop.
#
# ## Exercises
#
# 1. Repair the *needless gradient* first, in the version as it was. How many ops of the backward
#    does it save there, and why does the median hardly move?
# 2. The share of matmul in the first table was not 100 %. Suppose it were made infinitely fast: by
#    which factor could the step become faster at most (Amdahl's law)? Compare with what the
#    squarings gained.
# 3. Plant a fault of your own: compute the penalty three times and take the mean. Show that the
#    profile names its line.
# 4. Write a listener of your own, with `mg.engine.events.listen(fn)`, that counts the bytes of all
#    results of all forward ops, and compare the first and the last version with it.

# %% tags=["solved"] jupyter={"source_hidden": true}
# 1. The gradient for the points costs the unbroadcast of one difference array: few ops of hundreds.
original = Path(slow.__file__).read_text(encoding="utf-8")
leaner = version(original.replace("(points, requires_grad=True)", "(points)"), "leaner")
was, now = backward_calls(versions["as it was"]), backward_calls(leaner)
assert 0 < was - now < 0.1 * was

# 2. With a share s in matmul, at most 1 / (1 − s). The squarings keep a part r of the products, so
# 1 / (1 − s + r s) is to be expected.
with mg.profile() as prof:
    run(versions["as it was"], 4)
total = sum(row.total_ns for row in prof.rows())
share = sum(row.total_ns for row in prof.rows() if row.op == "matmul") / total
most, expected = 1 / (1 - share), 1 / (1 - share + share * squarings / products)
measured = result["as it was"][0] / result["squarings"][0]
print(f"at most {most:.1f}, expected {expected:.1f}, measured {measured:.1f} times as fast")
assert 1 < expected < most

# 3. The line of the penalty runs three times as often.
line = "    return (weight * weight).sum()\n"
assert source.count(line) == 1
thrice = source.replace(line, "    return sum((weight * weight).sum() for _ in range(3)) / 3\n")
with mg.profile(lines=True) as prof:
    run(version(thrice, "thrice"), 2)
calls = {row.site.rpartition(":")[2]: row.calls for row in prof.rows() if row.op == "sum"}
number = 1 + thrice.splitlines().index(
    "    return sum((weight * weight).sum() for _ in range(3)) / 3"
)
assert calls[str(number)] == 6  # three times in each of two steps


# 4. An event: (kind, op, start, end, node, inputs, outputs, parameters).
def bytes_made(module):
    made = 0

    def hear(event):
        nonlocal made
        if event[0] == "forward":
            made += sum(y.nbytes for y in event[6] if y is not None)

    mg.engine.events.listen(hear)
    try:
        run(module, 2)
    finally:
        mg.engine.events.unlisten(hear)
    return made


assert bytes_made(versions["as it was"]) > 5 * bytes_made(versions["no needless gradient"])
folder.cleanup()
