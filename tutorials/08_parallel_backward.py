# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 8 · Parallel backward: work, span, and the same bits
#
# A backward visits the graph node by node. Where two nodes do not depend on each other, two threads
# could run them at once. How much can that win, at most? What does it win on this machine, now? And
# how can several threads give *the same bits* as one, although floating-point addition depends on
# the order? All numbers below are measured while this notebook runs, and shown with their spread.
#
# A warning about such numbers. On a machine that others use as well, two threads also get two
# shares of the processors; then even work that cannot be split seems to gain. So the first cell
# measures how much of a core a busy loop gets. Where that is far below 100 %, trust the bits and
# the bounds below, and not the speeds.
#
# You need to know what a graph and a backward are (notebook 3). NumPy lets go of the interpreter's
# lock while it computes on large arrays; that is what makes threads worth a thought in Python.

# %%
import inspect
from time import perf_counter, process_time

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise
from IPython.display import SVG, display
from minigrad_profiler import gantt
from minigrad_profiler.compare import compare
from minigrad_profiler.compare_model import Model

import minigrad as mg
from minigrad.backends import blas
from minigrad.parallel import scheduler

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)


def share():
    """How much of a core this process gets: below 1, others are working on this machine too."""
    clock, worked = perf_counter(), process_time()
    while perf_counter() - clock < 0.3:
        pass
    return (process_time() - worked) / (perf_counter() - clock)


print(f"{mg.get_num_threads()} cores may be used; a busy loop gets {share():.0%} of one just now")

# %% [markdown]
# ## Work and span
#
# Give each node the time that it takes. Two numbers bound what any number of workers can do:
#
# - the **work** $T_1$: the sum of all times. One worker needs that much.
# - the **span** $T_\infty$: the longest path. No number of workers needs less.
#
# With $p$ workers, none of which idles while a node is ready (a *greedy* schedule),
#
# $$ \max\left(\frac{T_1}{p},\; T_\infty\right) \;\le\; T_p \;\le\; \frac{T_1}{p} + T_\infty . $$
#
# The left is plain. The right is Graham's bound (1969): at each moment either all workers are busy,
# which lasts at most $T_1 / p$, or some worker idles; then every ready node is being run, so the
# longest remaining path is getting shorter, and that can last at most $T_\infty$.
#
# So $T_1 / T_\infty$, the **parallelism**, is about the number of workers that can be kept busy.
# Try it on a graph small enough for pencil and paper: a root, three branches of 2, 3 and 4 ms, and
# a leaf where they meet.

# %%
small = Model(
    ops=["root", "a", "b", "c", "leaf"],
    costs=[1.0, 2.0, 3.0, 4.0, 1.0],
    parents=[[1, 2, 3], [4], [4], [4], []],
)
print(f"T1 = {small.work}, T∞ = {small.span}, parallelism {small.parallelism:.2f}")
for p in (1, 2, 3, 8):
    low, high = small.bounds(p)
    print(f"p = {p}: {low:5.2f} <= {small.scheduled(p):5.2f} <= {high:5.2f}")
    assert low <= small.scheduled(p) <= high
assert small.scheduled(2) == 1 + 5 + 1 and small.scheduled(3) == small.span == 6

# %% [markdown]
# With two workers: *c* (4 ms) on one; *b* (3 ms), then *a* (2 ms) on the other: 5 ms between root
# and leaf. Longest path first is a good rule (begin with *a* and *b*, and it takes 6). It is the
# rule of minigrad's scheduler, which keeps the ready nodes in a heap:

# %%
print(inspect.getsource(scheduler.Scheduler._link))
print(inspect.getsource(scheduler.Scheduler._next))

# %% [markdown]
# ## Two graphs
#
# A **chain** of layers, and **towers**: eight narrow networks on the same input, whose results are
# added (as the experts of a mixture, or the members of an ensemble).


# %%
def weight(size):
    return mg.tensor(
        (rng.normal(size=(size, size)) / size**0.5).astype("float32"), requires_grad=True
    )


def chain(depth, size, rows):
    """One network, `depth` layers deep: the loss, and its leaves."""
    leaves = [weight(size) for _ in range(depth)]
    x = mg.tensor(rng.normal(size=(rows, size)).astype("float32"))
    for w in leaves:
        x = mg.tanh(x @ w)
    return (x * x).mean(), leaves


def towers(count, depth, size, rows):
    """`count` networks side by side on one input."""
    leaves = [weight(size) for _ in range(count * depth)]
    x = mg.tensor(rng.normal(size=(rows, size)).astype("float32"))
    total = None
    for i in range(count):
        y = x
        for w in leaves[i * depth : (i + 1) * depth]:
            y = mg.tanh(y @ w)
        total = y if total is None else total + y
    return (total * total).mean(), leaves


found = {}
for name, (loss, _) in (("chain", chain(12, 256, 256)), ("towers", towers(8, 3, 256, 256))):
    found[name] = compare(loss, workers=[2], repeats=7)
    model = found[name].model
    print(
        f"{name:7s} work {model.work:6.2f} ms, span {model.span:6.2f} ms, "
        f"parallelism {model.parallelism:5.2f}"
    )
assert 0.999 < found["chain"].model.parallelism < 1.1 < found["towers"].model.parallelism

# %% [markdown]
# The costs in these models are the least that each node took in any recorded run. So one can ask
# what a greedy schedule would make of them with any number of workers, with nothing lost to
# scheduling:

# %%
workers = np.arange(1, 17)
figure, axes = plt.subplots(figsize=(6.5, 3.2))
for (name, one), colour in zip(found.items(), ("#ee6677", "#4477aa")):
    model = one.model
    axes.plot(workers, [model.work / model.scheduled(p) for p in workers], "o-", color=colour,
              label=name)  # fmt: skip
    axes.axhline(model.parallelism, linestyle=":", color=colour)
    for p in workers:
        low, high = model.bounds(p)
        assert low - 1e-9 <= model.scheduled(p) <= high + 1e-9
axes.plot(workers, workers, "--", color="grey", label="p")
axes.set(xlabel="workers p", ylabel="T1 / Tp", ylim=(0.5, 10), title="What the graphs allow")
axes.legend()
figure.tight_layout()

# %% [markdown]
# A chain stays where it is, however many workers there are. (Inside one layer two products are
# independent, those for the input and for the weight, but they are one node here.) The towers
# saturate at their parallelism.
#
# ## What this machine makes of it
#
# `compare` ran each engine in turns, seven times, on the same graph. The first table: times with
# quartiles, and whether the gradients have the bits of the serial engine. Then the bounds, where
# the workers' time went, and the most expensive nodes. The last sentence says what limits the gain.

# %%
print(found["towers"])

# %% [markdown]
# As a picture, serial above and two workers below, on one time axis. Framed nodes are on the
# longest path. (Of the recorded runs of each kind this is the shortest, so it may lie below the
# medians above.)

# %%
display(SVG(gantt.svg(found["towers"].runs, 900)))

# %% [markdown]
# "Where the workers' time went" splits $p \cdot T_p$ into seven parts, which add up:
#
# | part | what it is |
# |---|---|
# | work | what the nodes take at their best |
# | slower | two cores share caches and memory, so nodes take longer |
# | no processor | ready to run, but other programs had the processors (Linux counts this) |
# | lock | waiting for the interpreter's lock, or for the scheduler's |
# | dependency | nothing was ready, but later something was |
# | imbalance | a worker had nothing more to do, or one was at work before the others could be |
# | scheduling | adding up, choosing, waking (also a worker that began late) |

# %%
for recorded in found["towers"].runs:
    total = recorded.workers * recorded.length
    assert abs(sum(recorded.losses.values()) - total) < 1e-6 * total
    print(f"{recorded.name}: {recorded.workers} × {recorded.length:.2f} ms")

# %% [markdown]
# ## The same bits
#
# Addition of floating-point numbers is not associative:

# %%
a, b, c = np.float32(1e8), np.float32(-1e8), np.float32(1.0)
print((a + b) + c, a + (b + c))
assert (a + b) + c != a + (b + c)

# %% [markdown]
# A tensor that is used by eight towers receives eight contributions. If each thread added its own
# as soon as it had it, the sum would depend on who came first, and a training run could not be
# repeated. minigrad keeps each contribution until its **turn**, which is its position in the serial
# order:

# %%
print(inspect.getsource(scheduler.Sum))

# %% [markdown]
# The test: one input for all towers, also asked for its gradient; each weight used twice; up to
# four workers; no lower limit for what may be handed to another thread; twenty runs. One thing has
# to be held still, and the engine does so: the number of threads *inside* a matrix product, which
# splits sums as well.

# %%
x = mg.tensor(rng.normal(size=(64, 96)).astype("float32"), requires_grad=True)
shared = [weight(96) for _ in range(8)]
total = sum(mg.tanh(mg.tanh(x @ w) @ w) for w in shared)
loss = (total * total).mean()
leaves = [x, *shared]


def bits(**options):
    return [g.numpy().tobytes() for g in mg.grad(loss, leaves, retain_graph=True, **options)]


with blas.one_thread():
    expected = bits(engine="serial")
for workers in (1, 2, 3, 4):
    for _ in range(5):
        assert bits(engine="parallel", workers=workers, min_work=0) == expected
print("20 parallel backwards, 9 gradients each: the same bits")

# %% [markdown]
# ## When it does not pay
#
# To hand a node to another thread costs some 25 µs, and Python code (the engine itself, small ops)
# holds the interpreter's lock. So the same eight towers with smaller and smaller matrices: the
# ratio serial / parallel, above 1 where two workers are faster. *Forced* hands over every node;
# *gated* is the engine as it is by default, which asks first.

# %%
sizes = (16, 48, 128, 320)
ratios = {"forced": [], "gated": []}
for size in sizes:
    loss, _ = towers(8, 3, size, size)
    one = compare(loss, workers=[2], repeats=9)
    serial = np.array(one.way("serial").seen)
    for kind, name in (("forced", "parallel, 2 workers"), ("gated", "parallel, 2 workers, gated")):
        seen = serial / np.array(one.way(name).seen)  # run in turns, so paired
        ratios[kind].append(np.quantile(seen, [0.25, 0.5, 0.75]))
    low, middle, high = ratios["forced"][-1]
    print(
        f"{size:3d}×{size:<3d} serial {np.median(serial):7.2f} ms; "
        f"forced {middle:.2f} ({low:.2f} to {high:.2f}), gated {ratios['gated'][-1][1]:.2f}"
    )
    print("        gated says:", one.way("parallel, 2 workers, gated").note)

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.2))
for (kind, found_ratios), colour in zip(ratios.items(), ("#ee6677", "#4477aa")):
    low, middle, high = np.array(found_ratios).T
    axes.errorbar(sizes, middle, [middle - low, high - middle], fmt="o-", capsize=4, color=colour,
                  label=kind)  # fmt: skip
axes.axhline(1, color="black", linestyle=":")
axes.set(xscale="log", xlabel="size of the matrices", ylabel="serial / parallel",
         title="Eight towers, 2 workers (bars: the middle half)")  # fmt: skip
axes.minorticks_off()
axes.set_xticks(sizes, [str(s) for s in sizes])
axes.legend()
figure.tight_layout()

# %% [markdown]
# For small nodes a hand-over costs more than the work that is handed over, and the parallel engine
# is *slower* than the serial one. So by default it runs serially there (to ask first costs
# something too, which is what is left between *gated* and 1). How it decides: each kind of node has
# a cost, guessed at first and then measured; from the costs follow $T_1$, $T_\infty$ and a
# forecast. A graph that comes again is judged by what both ways have really taken.

# %%
from minigrad.parallel import work

print(inspect.getsource(work.Estimate.forecast))
loss, leaves = towers(8, 3, 16, 16)
mg.grad(loss, leaves, engine="parallel", workers=2)
print(mg.engine.last_report())
assert mg.engine.last_report().engine == "serial"

# %% [markdown]
# There is one more rival: BLAS, which can use all cores inside *one* product. For large matrices
# that is often as good, it needs no independent nodes, and it works for a chain as well. `compare`
# lists it where there is more than one BLAS thread ("serial, BLAS n threads"); its verdict weighs
# it too:

# %%
print(found["towers"].verdict())
print(f"(a busy loop gets {share():.0%} of a core at the end)")

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# A complete binary tree of nodes of equal cost 1, $2^k - 1$ of them, from the root down. What are
# its work, span and parallelism?


# %% answer
def tree(k): ...  # returns three numbers


# %% check
@exercise(1)
def check(tree):
    for k in (1, 3, 7):
        n = 2**k - 1
        children = [[j for j in (2 * i + 1, 2 * i + 2) if j < n] for i in range(n)]
        model = Model(["node"] * n, [1.0] * n, children)
        work, span, parallelism = tree(k)
        assert work == model.work, f"k = {k}: the work is the sum of all costs."
        assert span == model.span, f"k = {k}: the longest path goes from the root to a leaf."
        assert np.isclose(parallelism, model.parallelism), "Parallelism is work over span."


# %% wrong
def tree(k):
    return 2**k - 1, 2 ** (k - 1), 2


# %% solution
def tree(k):
    return 2**k - 1, k, (2**k - 1) / k


# %% [markdown]
# ### Exercise 2
#
# Find costs for root, *a*, *b*, *c*, leaf (the small graph above), none of *a*, *b* and *c* zero,
# for which two workers need exactly $\max(T_1/2, T_\infty)$.

# %% answer
costs = ...  # five numbers


# %% check
@exercise(2)
def check(costs):
    assert len(costs) == 5 and min(costs) >= 0, "Give five costs, none of them negative."
    assert min(costs[1:4]) > 0, "a, b and c must cost something."
    model = Model(small.ops, [float(c) for c in costs], small.parents)
    need, least = model.scheduled(2), model.bounds(2)[0]
    hint = f"Two workers need {need:g}, the bound is {least:g}. While is one of them idle?"
    assert need == least, hint


# %% wrong
costs = [0, 3, 3, 3, 0]

# %% solution
# Three branches of 3, 3 and 6 keep both workers busy for 6, if root and leaf cost nothing.
costs = [0, 3, 3, 6, 0]

# %% [markdown]
# ### Exercise 3
#
# A leaf's gradient really depends on the order of addition. `x` is used by three towers. Add up
# their three contributions in two orders that give different bits.

# %%
x = mg.tensor(rng.normal(size=(64, 96)).astype("float32"), requires_grad=True)
contributions = [mg.grad((mg.tanh(x @ w) ** 2).sum(), x).numpy() for w in shared[:3]]


# %% answer
def two_sums(a, b, c): ...  # returns two arrays


# %% check
@exercise(3)
def check(two_sums):
    one, other = two_sums(*contributions)
    hint = "Both must be the sum of all three."
    assert all(np.allclose(s, sum(contributions), rtol=1e-3, atol=1e-3) for s in (one, other)), hint
    assert (one != other).any(), (
        "The same bits: a + b is b + a exactly. Change which two come first."
    )


# %% wrong
def two_sums(a, b, c):
    return (a + b) + c, (b + a) + c


# %% solution
# The contributions are float32 arrays; in some entries the two orders differ in the last bit.
def two_sums(a, b, c):
    return (a + b) + c, a + (b + c)


# %% [markdown]
# ### Exercise 4
#
# An error in a thread must not be lost. Raise a `ValueError` in a hook in the middle of a parallel
# backward (`mg.backward(loss, engine="parallel", workers=2, min_work=0)`). What arrives at the
# caller, and what can a leaf's `.grad` hold afterwards?

# %% answer
arrives = ...  # the class of the error
holds = ...  # "whole or None", "a part of the sum" or "zeros"


# %% check
@exercise(4)
def check(arrives, holds):
    loss, leaves = towers(2, 3, 64, 64)
    leaves[1].register_hook(lambda g: (_ for _ in ()).throw(ValueError("from a hook")))
    raised = None
    try:
        mg.backward(loss, engine="parallel", workers=2, min_work=0, retain_graph=True)
    except Exception as error:
        raised = error
    assert arrives is type(raised), "Catch it and print its type."
    others = [w for w in leaves if w is not leaves[1]]
    found = list(zip(others, mg.grad(loss, others, retain_graph=True)))
    whole = all(w.grad is None or np.allclose(w.grad, g) for w, g in found)
    hint = "Compare every .grad that is there with the gradient of mg.grad."
    assert (holds == "whole or None") == (whole and leaves[1].grad is None), hint


# %% wrong
arrives = ValueError
holds = "a part of the sum"

# %% solution
# The error arrives as it is. Leaves that were complete before it have their gradient, the others
# have none: never half a sum.
arrives = ValueError
holds = "whole or None"
