# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6 · Hooks, errors, and the memory of a backward
#
# A backward walks the graph from the newest node to the oldest. This notebook is about the points
# where you can stand and watch (hooks), about two kinds of wrong numbers that the engine turns into
# errors (NaN, and arrays that were overwritten), and about what a graph keeps alive and how to make
# it keep less. Every byte below is measured, not estimated.
#
# You need to know what `backward` and `.grad` are. The graph itself is the subject of notebook 3.

# %%
import inspect
import os
import tempfile
import tracemalloc
import warnings

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad.engine import versions
from minigrad.modes import checkpoint, hooks, saved_hooks

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## Where a hook can stand
#
# Take $u = a b$ and $L = \sum (e^{u/10} + u)$. The value $u$ is used twice, so two contributions
# arrive at it during a backward: $e^{u/10}/10$ along one path, $1$ along the other.

# %%
a = mg.tensor([1.0, 2.0], requires_grad=True)
b = mg.tensor([3.0, 4.0], requires_grad=True)
u = a * b
L = (mg.exp(u / 10) + u).sum()

heard = []


def note(what):
    """A hook that writes down its name and the numbers it was given."""
    return lambda *given: heard.append((what, given))


u.register_hook(note("u: tensor hook"))
u.grad_fn.register_prehook(note("u = a b: before its rules"))
u.grad_fn.register_hook(note("u = a b: after its rules"))
for name, leaf in (("a", a), ("b", b)):
    leaf.register_hook(note(f"{name}: tensor hook"))
    leaf.register_post_accumulate_grad_hook(note(f"{name}: .grad is updated"))
    leaf.register_leaf_ready_hook(note(f"{name}: ready, nothing more will come"))
mg.register_multi_grad_hook([a, b], note("both a and b have theirs"))
u.retain_grad()  # keep the gradient of an inner tensor, too

L.backward()
for what, given in heard:
    print(f"{what:34s}", *given)

# %% [markdown]
# The hooks that run once `.grad` is there are given the leaf, so their lines show the values of `a`
# and `b`; all others are given gradients.
#
# Two things to check in that list. The tensor hook of `u` ran **once**, with the **total** of its
# two contributions:

# %%
total = 1 + np.exp(u.detach().numpy() / 10) / 10
assert [what for what, _ in heard].count("u: tensor hook") == 1
assert np.allclose(heard[0][1][0], total) and np.allclose(u.grad, total)
assert heard[0][0] == "u: tensor hook" and heard[1][0] == "u = a b: before its rules"

# %% [markdown]
# And the **order** is a promise. The module that keeps the hooks states it in its first lines:

# %%
print(inspect.getdoc(hooks))

# %% [markdown]
# Below that, a hook is a few lines of bookkeeping: an entry in a tuple at the vertex itself. While
# none is registered a backward does not look for any, so a program without hooks pays nothing.

# %%
print(inspect.getsource(hooks.add))

# %% [markdown]
# A hook that returns something replaces the gradient, and everything upstream sees the new one.
# Here a hook limits the size of what flows back through a recurrence that explodes:
# $h_{k+1} = 2 \tanh h_k$ near $h = 0$ doubles a gradient in each of 25 steps.


# %%
def slope(limit):
    """dh₂₅/dh₀; at every fifth value the gradient is cut to ±limit."""
    h = start = mg.tensor(1e-9, requires_grad=True)
    for step in range(25):
        h = 2 * mg.tanh(h)
        if step % 5 == 0:
            h.register_hook(lambda g: g.clip(-limit, limit))
    h.backward()
    return start.grad.item()


print(f"free {slope(np.inf):.3g}, limited {slope(10.0):.3g}")
assert slope(10.0) == 20 and 0.9 * 2**25 < slope(np.inf) < 2**25

# %% [markdown]
# ## When is a leaf ready?
#
# The leaf-ready hook fires in the *middle* of a backward: as soon as no older node can contribute.
# For a chain of layers that means that the last layer's weights are final while the first layer's
# have not been touched. Whoever sends gradients to other machines starts here (notebook 14). The
# picture shows, for eight layers, at which share of the backward each weight became ready.

# %%
weights = [mg.tensor(rng.normal(size=(192, 192)) / 14, requires_grad=True) for _ in range(8)]
x = mg.tensor(rng.normal(size=(256, 192)))
steps_done = 0
ready_at = {}


def one_more(event):
    """A listener of the engine: count the nodes whose rules have run."""
    global steps_done
    steps_done += event[0] == "backward"


for i, w in enumerate(weights):
    w.register_leaf_ready_hook(lambda w, i=i: ready_at.setdefault(i, steps_done))

y = x
for w in weights:
    y = mg.tanh(y @ w)
loss = (y * y).sum()
mg.engine.events.listen(one_more)
loss.backward()
mg.engine.events.unlisten(one_more)

figure, axes = plt.subplots(figsize=(6.5, 2.2))
axes.barh(range(8), [ready_at[i] for i in range(8)], color="#4477aa")
axes.axvline(steps_done, color="black", linestyle=":")
axes.set(xlabel="nodes run when the weight was final (dotted: all)", ylabel="layer")
axes.set(xticks=range(0, steps_done + 1, 2), yticks=range(8))
figure.tight_layout()
assert [ready_at[i] for i in range(8)] == sorted(ready_at.values(), reverse=True)

# %% [markdown]
# ## NaN: which op was it?
#
# $\sqrt{x}$ has an infinite slope at 0. Multiply by a gradient of 0, and IEEE arithmetic answers
# $0 \cdot \infty = \mathrm{NaN}$: the loss looks healthy, the gradient is not.

# %%
warnings.filterwarnings("ignore", category=RuntimeWarning)  # NumPy says so, but not where
x = mg.tensor([4.0, 1.0, 0.0], requires_grad=True)
mask = mg.tensor([1.0, 1.0, 0.0])


def masked_roots(x):
    return (mg.sqrt(x) * mask).sum()


loss = masked_roots(x)
loss.backward()
print("loss", loss.item(), "gradient", x.grad)
assert np.isnan(x.grad.numpy()).tolist() == [False, False, True]

# %% [markdown]
# `detect_anomaly` listens to every op, forward and backward, and raises at the **first** that makes
# a NaN or an Inf. The stack in the error belongs to the *forward*: the backward has no line of
# yours to point at.

# %%
try:
    with mg.detect_anomaly():
        masked_roots(x).backward()
except mg.errors.AnomalyError as error:
    anomaly = error
    print(str(error).partition(" The forward")[0])
    print("op", error.op, "| phase", error.phase, "| value", error.value)
    file, line, function = error.stack[0]
    print("made in", function)
assert (anomaly.op, anomaly.phase, anomaly.value, function) == (
    "sqrt", "backward", "NaN", "masked_roots",
)  # fmt: skip

# %% [markdown]
# A mask behind a singular function does not help; the singular point must not enter the function
# at all. Replace it first, and select afterwards:


# %%
def safe_roots(x):
    inside = mg.where(x > 0, x, 1.0)  # never 0
    return mg.where(x > 0, mg.sqrt(inside), 0.0).sum()


x.grad = None
with mg.detect_anomaly():
    safe_roots(x).backward()
print(x.grad)
assert np.allclose(x.grad, [0.25, 0.5, 0.0])

# %% [markdown]
# ## Written over: an error, never a wrong number
#
# $\frac{d}{dy}\sin y = \cos y$ needs $y$ as it was when `sin` ran. If somebody writes into `y`
# before the backward, the saved array is not the one that was used.

# %%
x = mg.tensor([0.1, 0.2, 0.3], requires_grad=True)
y = mg.exp(x)
z = mg.sin(y)
with mg.no_grad():
    y += 1  # in place, into the array that sin has saved
try:
    z.sum().backward()
except mg.errors.InPlaceError as error:
    print(str(error).partition(" The last change")[0], "...")
    assert str(error).startswith("sin: its argument 'x'")
else:
    raise AssertionError("the changed array should have been refused")
assert x.grad is None  # refused before anything was changed

# %% [markdown]
# How does it know? Nodes are numbered by a clock, and a write in place takes a number from the
# **same** clock. A node that is older than a write into memory it saved is stale. The forward
# stores nothing for this; a backward compares one number per node:

# %%
print(inspect.getsource(versions.refuse_changed))

# %% [markdown]
# Not every write is harmful. `exp` needs only its *result*, so its argument may be overwritten;
# `a + b` needs nothing at all. And on a tensor that is tracked, a write is itself a recorded op,
# with a new array: here `y` becomes $e^x + 1$, and `sin` is given that.

# %%
y = mg.exp(x)
y += 1
z = mg.sin(y)
z.sum().backward()
e = np.exp(x.detach().numpy())
assert np.allclose(x.grad, np.cos(e + 1) * e)
print(x.grad)

# %% [markdown]
# ## What a graph keeps
#
# For $x_{k+1} = \tanh(x_k W_k)$ the rule of `tanh` needs $x_{k+1}$ and the product needs $x_k$: one
# array per layer lives until the backward. So memory grows as $n$, the number of layers.
# `tracemalloc` counts every byte that NumPy asks for; in what follows one unit is one activation.

# %%
layers_of_weights = [
    mg.tensor((rng.normal(size=(8, 8)) / 8**0.5).astype("float32"), requires_grad=True)
    for _ in range(256)
]
activations = mg.tensor(rng.normal(size=(4096, 8)).astype("float32"))


def layer(w):
    return lambda x: mg.tanh(x @ w)


layers = [layer(w) for w in layers_of_weights]


def peak(run):
    """The most bytes that were alive at once while run() ran, above what lived before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    run()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most - before


def gradients(n):
    """The gradients of the first n weights, and clear them."""
    taken = [w.grad.numpy().copy() for w in layers_of_weights[:n]]
    for w in layers_of_weights:
        w.grad = None
    return taken


def plain(n):
    x = activations
    for f in layers[:n]:
        x = f(x)
    x.sum().backward()


# %% [markdown]
# **Checkpointing** keeps only the inputs of a few segments. When the backward arrives at a segment,
# the segment is computed again, differentiated, and dropped. With $s$ segments of $n/s$ layers the
# memory is about $s + n/s$ activations, least at $s = \sqrt n$: $2 \sqrt n$ instead of $n$,
# for one more forward.


# %%
def checkpointed(n, segments):
    mg.checkpoint_sequential(layers[:n], segments, activations).sum().backward()


unit = activations.nbytes
sizes = [4, 9, 16, 36, 64, 100, 169, 256]
kept, recomputed = [], []
for n in sizes:
    kept.append(peak(lambda: plain(n)) / unit)
    expected = gradients(n)
    recomputed.append(peak(lambda: checkpointed(n, round(n**0.5))) / unit)
    assert all((g == h).all() for g, h in zip(gradients(n), expected))  # the same bits
    print(f"{n:4d} layers: {kept[-1]:6.1f} activations plain, {recomputed[-1]:5.1f} checkpointed")

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.4))
axes.loglog(sizes, kept, "o-", color="#ee6677", label="plain")
axes.loglog(sizes, recomputed, "s-", color="#4477aa", label="checkpointed, √n segments")
axes.loglog(sizes, sizes, ":", color="black", label="n")
axes.loglog(sizes, 2 * np.sqrt(sizes), "--", color="black", label="2 √n")
axes.set(xlabel="layers n", ylabel="peak, in activations", title="Memory of a backward, measured")
axes.legend()
figure.tight_layout()

# %% [markdown]
# The slope of a line in this plot is the power of $n$. Fit it on the larger sizes:

# %%
grows = [np.polyfit(np.log(sizes[3:]), np.log(line[3:]), 1)[0] for line in (kept, recomputed)]
print(f"plain grows as n^{grows[0]:.2f}, checkpointed as n^{grows[1]:.2f}")
assert 0.9 < grows[0] < 1.1 and 0.4 < grows[1] < 0.65

# %% [markdown]
# The whole of `checkpoint_sequential`; `checkpoint(fn, *args)` does the same for any function, and
# puts the random generators back before it computes again, so that dropout drops the same units:

# %%
print(inspect.getsource(checkpoint.checkpoint_sequential))
print(inspect.getsource(checkpoint._through))

# %% [markdown]
# A function that is not the same the second time cannot be checkpointed. That is found out:

# %%
calls = []


def not_the_same(x):
    calls.append(1)
    return mg.tanh(x) if len(calls) == 1 else mg.sin(x)


try:
    mg.checkpoint(not_the_same, x).sum().backward()
except mg.errors.CheckpointError as error:
    print(error)
else:
    raise AssertionError("the difference should have been noticed")

# %% [markdown]
# ## Kept in another form
#
# What nodes save can also be kept, but smaller or elsewhere. `saved_tensors_hooks(pack, unpack)` is
# given each array when a node saves it, and gives it back when a rule needs it. Two forms: as
# float16 (half the bytes, gradients off by its rounding), and in files (the same bits).


# %%
def as_half(n):
    with mg.saved_tensors_hooks(lambda x: x.astype("float16"), lambda x: x.astype("float32")):
        x = activations
        for f in layers[:n]:
            x = f(x)
    x.sum().backward()


def on_disk(n, folder):
    with mg.save_on_disk(folder):
        x = activations
        for f in layers[:n]:
            x = f(x)
    files = os.listdir(folder)
    x.sum().backward()
    return len(files)


n = 32
bytes_plain = peak(lambda: plain(n))
exact = gradients(n)
bytes_half = peak(lambda: as_half(n))
rounded = gradients(n)
with tempfile.TemporaryDirectory() as folder:
    bytes_disk = peak(lambda: print(on_disk(n, folder), "files while the graph lived"))
    from_disk = gradients(n)
    print(len(os.listdir(folder)), "files after the backward")

off = max(abs(g - h).max() / abs(h).max() for g, h in zip(rounded, exact))
print(f"plain   {bytes_plain / unit:5.1f} activations")
print(f"float16 {bytes_half / unit:5.1f} activations, gradients off by at most {off:.1e}")
print(f"disk    {bytes_disk / unit:5.1f} activations, the same bits")
assert all((g == h).all() for g, h in zip(from_disk, exact))
assert 0 < off < 0.05 and bytes_disk < bytes_plain / 4

# %% [markdown]
# Look closely at the second line. One array $x_{k+1}$ is saved by two nodes, the `tanh` that made
# it and the product that reads it. In the plain graph they share it; packed, each has a float16
# copy of its own, so the bytes are $2 \cdot \frac12$ of before, not $\frac12$. Exercise 4 repairs
# this. On the disk the same doubling costs files, not memory. The source:

# %%
print(inspect.getsource(saved_hooks.save_on_disk))

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Write `watch(parameters, found)`: hooks that append to the list `found`, for each gradient of a
# parameter, whether it contains a NaN. The backward goes on, with the gradients as they were.


# %% answer
def watch(parameters, found): ...


# %% check
@exercise(1)
def check(watch):
    p, q = (mg.tensor(v, requires_grad=True) for v in ([0.0, 1.0], [1.0, 1.0]))
    found = []
    watch([p, q], found)
    ((mg.sqrt(p) * mg.tensor([0.0, 1.0])).sum() + (q * q).sum()).backward()
    hint = f"Two gradients came and found has {len(found)} entries. Register a hook on each tensor."
    assert len(found) == 2, hint
    hint = f"p's gradient is {p.grad.tolist()}, q's {q.grad.tolist()}: one NaN is enough."
    assert sorted(map(bool, found)) == [False, True], hint
    assert np.allclose(q.grad, 2), "A hook that returns something replaces the gradient."


# %% wrong
def watch(parameters, found):
    for p in parameters:
        p.register_hook(lambda g: found.append(bool(np.isnan(g).all())))


# %% solution
# A tensor hook that returns nothing leaves the gradient as it is.
def watch(parameters, found):
    for p in parameters:
        p.register_hook(lambda g: found.append(bool(np.isnan(g).any())))


# %% [markdown]
# ### Exercise 2
#
# With $s$ segments the peak is about $s + n/s$. For $n = 100$ measure the peak for several $s$. For
# which of 2, 5, 10, 20, 50 is it least? Is the curve flat near it?

# %% answer
segments = ...  # one of the five


# %% check
@exercise(2)
def check(segments):
    peaks = {s: peak(lambda: checkpointed(100, s)) / unit for s in (2, 5, 10, 20, 50)}
    gradients(100)
    assert segments in peaks, "Choose one of 2, 5, 10, 20 and 50."
    hint = f"{segments} segments need {peaks[segments]:.0f} activations, another number fewer."
    assert peaks[segments] == min(peaks.values()), hint


# %% wrong
segments = 50

# %% solution
# The least is near √100, and the curve is flat there: 5 or 20 segments cost little more.
segments = 10

# %% [markdown]
# ### Exercise 3
#
# Put checkpoints inside a checkpoint: `nested(n, parts)` splits the first $n$ layers into parts,
# each part into as many parts again, checkpoints both levels, and runs the backward of the sum, as
# `checkpointed` does. How does the peak for $n = 64$ in 4 times 4 parts compare with 8 segments?


# %% answer
def nested(n, parts): ...


# %% check
@exercise(3)
def check(nested):
    one_level = peak(lambda: checkpointed(64, 8))
    expected = gradients(64)
    two_levels = peak(lambda: nested(64, 4))
    hint = "The weights have no gradients: run the backward of the sum."
    assert all(w.grad is not None for w in layers_of_weights[:64]), hint
    hint = "A gradient differs: is each of the 64 layers run once, in its order?"
    assert all((g == h).all() for g, h in zip(gradients(64), expected)), hint
    hint = (
        f"{two_levels / unit:.0f} activations at the peak; one level needs {one_level / unit:.0f}."
    )
    assert two_levels < one_level, hint


# %% wrong
def nested(n, parts):
    mg.checkpoint_sequential(layers[:n], parts, activations).sum().backward()


# %% solution
# Alive are 4 inputs of parts, 4 of their parts and 4 activations: about 12, against 16. It costs
# one more forward than one level does.
def nested(n, parts):
    def outer(x, group):
        return mg.checkpoint_sequential(group, parts, x)

    x, size = activations, n // parts
    for i in range(parts):
        x = mg.checkpoint(outer, x, layers[i * size : (i + 1) * size])
    x.sum().backward()


# %% [markdown]
# ### Exercise 4
#
# `tanh`'s result is saved twice: by `tanh` and by the product after it. Write `pack` and `unpack`
# for `saved_tensors_hooks` so that *one* float16 copy is kept for both. (The same memory has the
# same address, `x.data.__array_interface__["data"][0]`, while it lives.)


# %% answer
def pack(x): ...


def unpack(kept): ...


# %% check
@exercise(4)
def check(pack, unpack):
    def run():
        with mg.saved_tensors_hooks(pack, unpack):
            x = activations
            for f in layers[:n]:
                x = f(x)
        x.sum().backward()

    bytes_once = peak(run)
    hint = "The gradients are not those of float16 copies."
    assert all((g == h).all() for g, h in zip(gradients(n), rounded)), hint
    hint = f"{bytes_once / unit:.0f} activations at the peak, plain {bytes_plain / unit:.0f}: "
    hint += "return the same object for the second, and keep no copy alive yourself."
    assert bytes_once < 0.75 * bytes_plain, hint


# %% wrong
def pack(x):
    return x.astype("float16")


def unpack(kept):
    return kept.astype("float32")


# %% solution
import weakref


# A table from address to the packed copy, which must not outlive the copy: weak values. An address
# that is used again belongs to another array, so the numbers are compared as well.
class Half:
    def __init__(self, x):
        self.data = x.numpy().astype("float16")


copies = weakref.WeakValueDictionary()


def pack(x):
    key = x.data.__array_interface__["data"][0], x.shape
    kept = copies.get(key)
    if kept is None or not (kept.data == x.numpy().astype("float16")).all():
        kept = copies[key] = Half(x)
    return kept


def unpack(kept):
    return mg.tensor(kept.data.astype("float32"))
