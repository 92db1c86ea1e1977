# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 15 · Why is my training not learning?
#
# A training run that fails seldom raises an error. It prints NaN, or a loss that stays where it
# started. This notebook breaks four runs on purpose. For each you see the symptom, then the tool
# that shows the cause, then the mend, and the run that learns.
#
# | symptom | tool | cause |
# |---|---|---|
# | the loss becomes NaN | anomaly mode | a logarithm of zero |
# | the loss stays at $\log 10$ | a picture of the activations | dead ReLUs |
# | the loss hardly moves | histograms of the gradients | gradients that vanish |
# | the loss starts in the thousands | norms along the backward | gradients that explode |
#
# You need to know what a training loop is. Notebook 6 explains anomaly mode and hooks.

# %%
import inspect
import itertools
import json
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import minigrad_viz
import numpy as np
from exercises import exercise
from IPython.display import SVG, display
from minigrad_viz import cli

import minigrad as mg
from minigrad import data, nn, optim
from minigrad.instrument import numbers

mg.show_versions()
warnings.filterwarnings("ignore", category=RuntimeWarning, message=".* encountered in")

# %% [markdown]
# ## The program
#
# A scanner wrote 1,797 handwritten digits as 8 × 8 counts from 0 to 16. `batches` hands them out,
# 64 at a time and without end; `train` is plain gradient descent. Both are right. The four faults
# will be elsewhere.

# %%
training, held_out = data.train_test_split(data.load_digits(), test=0.2)
COUNTS = 16.0  # the loader scales to 0 … 1; the scanner's counts go to 16


def pixels(images, scale):
    return images.reshape(-1, 64) * scale


def batches(scale):
    while True:
        for images, digits in data.DataLoader(training, batch_size=64, shuffle=True):
            yield pixels(images, scale), digits


def train(model, loss_of, lr, scale=COUNTS, steps=150):
    """The losses of `steps` steps of gradient descent."""
    optimizer, losses = optim.SGD(model.parameters(), lr=lr), []
    for x, digits in itertools.islice(batches(scale), steps):
        optimizer.zero_grad()
        loss = loss_of(model(x), digits)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def share_right(model, scale=COUNTS):
    """The share of the held-out digits that the model names rightly."""
    images, digits = held_out.arrays
    with mg.no_grad():
        guesses = model(mg.tensor(pixels(images, scale))).numpy().argmax(axis=1)
    return float((guesses == digits).mean())


def two_layers():
    mg.manual_seed(1)  # every run starts from the same weights and sees the same batches
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


# %% [markdown]
# ## First run: NaN
#
# The loss is the cross-entropy, $-\log p_k$ for the right digit $k$, written as in a lecture: first
# the softmax, then the logarithm.


# %%
def cross_entropy_by_hand(scores, digits):
    p = mg.softmax(scores, axis=-1)
    of_the_right_one = p[np.arange(len(digits)), digits.numpy()]
    return -mg.log(of_the_right_one).mean()


losses = train(two_layers(), cross_entropy_by_hand, lr=0.5)
print("losses:", *(f"{loss:.3g}" for loss in losses[:6]), "…")
assert np.isnan(losses[-1])

# %% [markdown]
# The symptom: a few losses, then NaN for ever. The optimizer warns as soon as a weight is NaN, but
# by then the cause is one step old. **Anomaly mode** stops at the first op that makes a NaN or an
# Inf, and names your line:

# %%
model = two_layers()
try:
    with mg.detect_anomaly():
        train(model, cross_entropy_by_hand, lr=0.5)
except mg.errors.AnomalyError as error:
    found = error
print("op:", found.op, "| phase:", found.phase, "| value:", found.value)
print("called in:", found.stack[0][2])
assert (found.op, found.value, found.stack[0][2]) == ("log", "Inf", "cross_entropy_by_hand")

# %% [markdown]
# So it began in the forward, and it began with Inf: $\log 0$. Anomaly mode stopped before the step,
# so the weights are still finite. Record one batch with them and draw the graph. A red box marks a
# value or a cotangent that is not finite:

# %%
x, digits = next(batches(COUNTS))
with mg.record_backward() as record:
    scores = model(x)
    cross_entropy_by_hand(scores, digits).backward()
picture = minigrad_viz.show(record.graph, "the step that breaks")
display(picture, include={"image/svg+xml", "text/plain"})

# %% [markdown]
# The boxes `mean` and `neg` show their values, −∞ and ∞. The cotangents tell more. The backward
# runs upwards from `neg`, and the one that arrives at `log` is finite. What the rule of `log` makes
# of it, $g / p$, is not: from `getitem` on everything is red. And why is $p$ zero? Look at the
# numbers that go in:

# %%
s = scores.detach().numpy()
p = mg.softmax(scores.detach(), axis=-1).numpy()
print(f"scores from {s.min():.0f} to {s.max():.0f}")
print(f"probabilities that are exactly 0: {(p == 0).sum()} of {p.size}")
print(f"float32: exp(-100) = {np.exp(np.float32(-100)):.1e}, exp(-104) =", np.exp(np.float32(-104)))
assert (p == 0).any()

# %% [markdown]
# A score that lies 104 below the largest has the probability 0 in float32. The mend is algebra: the
# logarithm of a softmax needs no exponential of the winning score,
#
# $$ -\log \frac{e^{s_k}}{\sum_j e^{s_j}} = \log \sum_j e^{s_j - m} - (s_k - m),
#    \qquad m = \max_j s_j . $$
#
# One term of the sum is $e^0 = 1$, so the logarithm is never of 0. `mg.cross_entropy` computes
# this. And here is how anomaly mode listens; `_judge` raises the error:

# %%
print(inspect.getsource(mg.detect_anomaly.hear))

# %%
model = two_layers()
losses = train(model, mg.cross_entropy, lr=0.5)
print("losses:", *(f"{loss:.3g}" for loss in losses[:6]), "…", f"{losses[-1]:.3g}")
print(f"right: {share_right(model):.0%}")
assert np.isfinite(losses).all() and share_right(model) < 0.2

# %% [markdown]
# ## Second run: dead ReLUs
#
# No NaN any more, and still nothing learned. The mend uncovered the next fault, as mends do. The
# symptom has a number: the loss settles at $2.303 = \log 10$. That is the loss of a model that
# gives each of the ten digits a tenth, whatever the image. Nothing of the image arrives at the end.
#
# So look at what passes the middle. Each column of the next picture is one of the 64 hidden units,
# each row one image; dark means that the unit is above zero.


# %%
def hidden(model, scale=COUNTS):
    with mg.no_grad():
        return model[1](model[0](mg.tensor(pixels(held_out.arrays[0], scale)))).numpy()


def dead(model, scale=COUNTS):
    """How many hidden units are zero for every image."""
    return int((hidden(model, scale).max(axis=0) == 0).sum())


figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
for ax, (title, shown) in zip(axes, {"before": two_layers(), "after 150 steps": model}.items()):
    ax.imshow(hidden(shown)[:100] > 0, cmap="Greys", aspect="auto", interpolation="nearest")
    ax.set(title=f"{title}: {dead(shown)} of 64 units are dead", xlabel="hidden unit")
axes[0].set_ylabel("image")
figure.tight_layout()
assert dead(two_layers()) < 5 and dead(model) > 55

# %% [markdown]
# A ReLU has the slope 0 below zero. A unit that is below zero for every image gets the gradient 0,
# so no step changes it: it is dead for good. The gradient of the first layer says the same:

# %%
x, digits = next(batches(COUNTS))
model.zero_grad()
mg.cross_entropy(model(x), digits).backward()
of_first = model[0].weight.grad.numpy()
print(f"{(of_first == 0).sum():,} of {of_first.size:,} entries are exactly 0")
assert (of_first == 0).mean() > 0.9

# %% [markdown]
# And who killed them? The first steps did. Compare a step with the weight that it changes; a usual
# size is one part in a hundred or less.

# %%
fresh = two_layers()
mg.cross_entropy(fresh(x), digits).backward()
steps = {}
for name, w in fresh.named_parameters():
    steps[name] = 0.5 * np.linalg.norm(w.grad.numpy()) / np.linalg.norm(w.detach().numpy())
    print(f"{name:10s} the first step is {steps[name]:7.1%} of its size")
assert steps["0.weight"] > 0.1

# %% [markdown]
# The gradient of a weight is a product with the layer's input, and the input goes to 16. Count the
# dead units step by step, for both scales of the pixels:

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.9))
for scale, colour in ((COUNTS, "#c0392b"), (1.0, "#33567f")):
    model = two_layers()
    optimizer, deaths, losses = optim.SGD(model.parameters(), lr=0.5), [], []
    for inputs, targets in itertools.islice(batches(scale), 150):
        deaths.append(dead(model, scale))
        optimizer.zero_grad()
        loss = mg.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    label = f"pixels from 0 to {scale:.0f}"
    left.plot(deaths, color=colour, label=label)
    right.semilogy(losses, color=colour, label=label)
    print(f"{label}: {deaths[-1]} dead, {share_right(model, scale):.0%} right")
left.set(xlabel="step", ylabel="dead units of 64", ylim=(-2, 66))
right.axhline(np.log(10), color="grey", linestyle=":", label="log 10")
right.set(xlabel="step", ylabel="loss")
right.legend(fontsize=8)
figure.tight_layout()
assert deaths[-1] < 15 and share_right(model, 1.0) > 0.9

# %% [markdown]
# The mend is one division: pixels from 0 to 1. The same network, rate and loss then learn. A rate
# of 0.03 would do as well. A leaky ReLU alone would not: it never dies, so here its loss explodes.
#
# ## Third run: gradients that vanish
#
# Now a deeper network, with sigmoids. The pixels are scaled, the loss is the library's.


# %%
def eight_layers(activation):
    mg.manual_seed(2)
    inner = [layer for _ in range(7) for layer in (nn.Linear(64, 64), activation())]
    return nn.Sequential(*inner, nn.Linear(64, 10))


deep = eight_layers(nn.Sigmoid)
losses = train(deep, mg.cross_entropy, lr=0.5, scale=1.0)
print(
    "losses:", *(f"{loss:.3g}" for loss in losses[::30]), f"  right: {share_right(deep, 1.0):.0%}"
)
assert losses[-1] > 2.2

# %% [markdown]
# The symptom resembles the last one: $\log 10$ again. But no unit of a sigmoid is ever dead. So
# look at the gradients. A recorded backward keeps a **histogram of every `.grad`**. In Jupyter the
# viewer's page stands below. Search for `0.weight`, or press *Open* and click on a weight: the
# panel shows the histograms of its values and of its gradient.

# %%
x, digits = next(batches(1.0))


def recorded(model):
    """The graph of one backward, with histograms of the parameters and of their .grad."""
    model.zero_grad()
    with mg.record_backward() as record:
        mg.cross_entropy(model(x), digits).backward()
    return record.graph


before = recorded(eight_layers(nn.Sigmoid))
page = minigrad_viz.show(before, "eight layers with sigmoids", height=580)
display(page, include={"text/html", "text/plain"})

# %% [markdown]
# The dump is plain data, so the histograms of all eight weights also fit into one figure. Each
# panel has its own scale, and its title tells how large the largest entry is:


# %%
def gradient_histograms(graph, title):
    weights = [n for n in graph["nodes"] if n["kind"] == "parameter" and len(n["shape"]) == 2]
    weights.sort(key=lambda node: int(node["name"].split(".")[0]))
    figure, axes = plt.subplots(2, 4, figsize=(9, 3.4))
    for layer, (ax, node) in enumerate(zip(axes.flat, weights), 1):
        bars = node["grad"]["histogram"]
        largest = max(-bars["least"], bars["most"])
        edges = np.linspace(bars["least"], bars["most"], len(bars["counts"]) + 1) / largest
        ax.stairs(bars["counts"], edges, fill=True, color="#33567f")
        ax.set_title(f"layer {layer}: up to {largest:.0e}", fontsize=9)
        ax.set(xlim=(-1.05, 1.05), xticks=[-1, 0, 1], yticks=[])
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    return [node["grad"]["grad_norm"] for node in weights]


norms = gradient_histograms(before, "gradients of the weights, sigmoids")

# %% [markdown]
# The shapes are all alike, and harmless. The scales are the message: each layer towards the input
# has a gradient about seven times smaller than the one behind it.

# %%
print("norms:", *(f"{n:.1e}" for n in norms))
factor = (norms[-1] / norms[0]) ** (1 / 7)
print(f"a factor of {factor:.1f} a layer")
assert 4 < factor < 12

# %% [markdown]
# The factor can be predicted. A sigmoid's slope is at most $1/4$. `nn.Linear` draws its weights
# evenly from $\pm 1/8$ for 64 inputs, so a product with them multiplies a norm by about
# $\sqrt{64} \cdot \frac{1}{8 \sqrt 3} = 0.58$. Together $0.58 / 4 = 1/7$. Seven layers of that
# leave a millionth.
#
# The viewer shows it as heat, over three decades: only the last layers glow. Each box also tells
# the norm ‖g‖ that arrived. Read it from the bottom up:


# %%
def heat(graph, title):
    """minigrad-viz graph.json --heat norm -o graph.svg, and shown here."""
    with tempfile.TemporaryDirectory() as folder:
        dump, target = Path(folder, "graph.json"), Path(folder, "graph.svg")
        dump.write_text(json.dumps(graph), encoding="utf-8")
        cli.main([str(dump), "--heat", "norm", "--title", title, "-o", str(target)])
        display(SVG(target.read_text(encoding="utf-8")))


heat(before, "eight layers with sigmoids")

# %% [markdown]
# The mend: an activation whose slope is 1 where it is not 0, and weights drawn for it. He's rule
# (`kaiming_normal_`) chooses their size so that the norm stays as it is from layer to layer.


# %%
def he(model):
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


norms = gradient_histograms(recorded(he(eight_layers(nn.ReLU))), "gradients, ReLU and He's rule")
mended = he(eight_layers(nn.ReLU))
losses = train(mended, mg.cross_entropy, lr=0.05, scale=1.0, steps=300)
print("losses:", *(f"{v:.3g}" for v in losses[::60]), f"  right: {share_right(mended, 1.0):.0%}")
assert max(norms) / min(norms) < 20 and share_right(mended, 1.0) > 0.85

# %% [markdown]
# What the page and this figure call a histogram is 24 counts. The dump keeps no large array:

# %%
print(inspect.getsource(numbers.histogram))

# %% [markdown]
# ## Fourth run: gradients that explode
#
# A recurrent network reads 30 pairs: a random number, and a mark that is 0 or 1. Two of the marks
# are 1. The answer is the sum of the two marked numbers. Who always answers 1 has the loss
# $1/6 = 0.167$; a network has learned something when it is below that.

# %%
STEPS = 30


def sums(rng, rows=32):
    """(pairs, answers): pairs has the axes time, row, (number, mark)."""
    values, marks, row = rng.uniform(size=(STEPS, rows)), np.zeros((STEPS, rows)), np.arange(rows)
    marks[rng.integers(0, STEPS // 2, rows), row] = 1
    marks[rng.integers(STEPS // 2, STEPS, rows), row] = 1
    pairs = np.stack([values, marks], axis=-1)
    return [mg.tensor(a.astype("float32")) for a in (pairs, (values * marks).sum(axis=0))]


class Reader(nn.Module):
    """h ← relu(inward(pair) + h w), 30 times; the answer is outward(h)."""

    def __init__(self, w):
        super().__init__()
        self.inward, self.outward = nn.Linear(2, len(w)), nn.Linear(len(w), 1)
        self.w = nn.Parameter(w.astype("float32"))

    def forward(self, pairs):
        h = mg.zeros((pairs.shape[1], self.w.shape[0]))
        for pair in pairs:
            h = mg.relu(self.inward(pair) + h @ self.w)
        return self.outward(h)[:, 0]


def squared_error(model, pairs, answers):
    return ((model(pairs) - answers) ** 2).mean()


def read_and_learn(model, steps, clip=np.inf):
    """Losses and norms of the gradients of Adam; longer gradients are cut to the norm `clip`."""
    rng, optimizer = np.random.default_rng(3), optim.Adam(model.parameters(), lr=3e-3)
    losses, norms = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = squared_error(model, *sums(rng))
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), clip)))
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def reader(w):
    mg.manual_seed(4)
    return Reader(w)


drawn = np.random.default_rng(5).standard_normal((32, 32))
wild = 1.5 * drawn / np.sqrt(32)
wild_losses, wild_norms = read_and_learn(reader(wild), 600)
print("losses:", *(f"{loss:.3g}" for loss in wild_losses[::100]))
print("norms: ", *(f"{norm:.3g}" for norm in wild_norms[::100]))
assert wild_losses[0] > 100 and np.mean(wild_losses[-50:]) > 0.12

# %% [markdown]
# The symptom: the loss begins in the thousands, and 600 steps later it is hardly better than the
# constant answer. The gradients are huge, but which op makes them so? Each step of a recorded
# backward tells the norm of the cotangent that arrived. Take those of the 30 ReLUs:


# %%
def norms_through_time(model):
    """The norm of the cotangent at each ReLU, from the last time step to the first."""
    with mg.record_backward() as record:
        squared_error(model, *sums(np.random.default_rng(6))).backward()
    op = {node["id"]: node["op"] for node in record.graph["nodes"]}
    walked = record.graph["backward"]["steps"]
    return [step["grad_norm"] for step in walked if op[step["node"]] == "relu"]


figure, ax = plt.subplots(figsize=(7, 2.9))
for w, colour, label in (
    (wild, "#c0392b", "random"),
    (np.eye(32), "#33567f", "the identity"),
):
    norms = norms_through_time(reader(w))
    ax.semilogy(range(STEPS, 0, -1), norms, "o-", markersize=3, color=colour, label=label)
    print(f"{label}: a factor of {(norms[-1] / norms[0]) ** (1 / (STEPS - 1)):.2f} a step")
    assert (norms[-1] / norms[0] > 100) == (w is wild)
ax.invert_xaxis()  # the backward runs from the last step to the first
ax.set(xlabel="time step, in the order of the backward", ylabel="norm of the cotangent")
ax.legend()
figure.tight_layout()

# %% [markdown]
# A straight line on a logarithmic axis: about the same factor at every step. The same matrix
# multiplies the cotangent 30 times, and $1.27^{29}$ is a thousand. No single op is wrong.
#
# Two mends belong together. Start from the **identity** (Le, Jaitly and Hinton, 2015): then a step
# neither grows nor shrinks what it hands on. **Clip** what comes later, when the matrix has moved
# away from it: where the norm of all gradients exceeds a bound, scale them down together. Their
# direction stays.

# %%
print(inspect.getsource(nn.utils.clip_grads_with_norm_))

# %%
runs = {
    "random": (wild_losses, "#c0392b"),
    "identity": (read_and_learn(reader(np.eye(32)), 600)[0], "#c9a227"),
    "identity, clipped": (read_and_learn(reader(np.eye(32)), 600, clip=1.0)[0], "#33567f"),
}
figure, ax = plt.subplots(figsize=(7, 3.2))
for label, (values, colour) in runs.items():
    ax.semilogy(values, color=colour, linewidth=0.9, label=label)
    print(f"{label:18s} the last 50 losses: {np.mean(values[-50:]):.3f}")
ax.axhline(1 / 6, color="grey", linestyle=":", label="always 1")
ax.set(xlabel="step", ylabel="loss", ylim=(1e-3, 1e4))
ax.legend(fontsize=8)
figure.tight_layout()
assert np.mean(runs["identity, clipped"][0][-50:]) < 0.05

# %% [markdown]
# The identity alone saves the first step, not the later ones: its first gradient has a norm of
# thousands, since 30 steps add up. With clipping the network solves the problem.
#
# ## The way through
#
# | you see | look at | with | usual mends |
# |---|---|---|---|
# | NaN, Inf | the op that made the first | `mg.detect_anomaly()` | a stable formula |
# | a constant answer | the share of zeros | a picture of activations | scale the inputs |
# | no progress | `.grad`, layer by layer | histograms in the page | ReLU, He's rule, skips |
# | a huge loss, jumps | norms along the backward | `--heat norm` | the identity, clipping |
# | a part never changes | `p.grad is None` | the picture of the graph | no `.numpy()` in a model |
#
# First make the program small: one batch, a few steps, a fixed seed. Then change one thing at a
# time. Each mend here was one line; to find the line took a picture.

# %% [markdown]
# ## Exercises
#
# Each exercise has a cell for your answer, where `...` stands, and a cell that checks it.
#
# ### Exercise 1
#
# The first layer of this model never changes. Write `unreached(model, x, digits)`: the names of the
# parameters that no gradient reaches. Then look at the picture of the graph: where is it cut?


# %%
class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x):
        h = self.first(x).detach().numpy()
        return self.last(mg.tensor(np.maximum(h, 0)))


cut = Cut()
with mg.record_backward() as record:
    mg.cross_entropy(cut(x), digits).backward()
picture = minigrad_viz.show(record.graph, "one backward of Cut")
display(picture, include={"image/svg+xml", "text/plain"})


# %% answer
def unreached(model, x, digits): ...


# %% check
@exercise(1)
def check(unreached):
    found = unreached(Cut(), x, digits)
    assert set(found) != {"last.weight", "last.bias"}, "These two have a .grad. Turn the test."
    assert set(found) == {"first.weight", "first.bias"}, "After a backward, whose .grad is None?"
    assert not list(unreached(two_layers(), x, digits)), "Every parameter of two_layers gets one."


# %% wrong
def unreached(model, x, digits):
    return [name for name, p in model.named_parameters() if not p.requires_grad]


# %% solution
# `.detach().numpy()` leaves the graph, and mg.tensor makes a new leaf without a history.
def unreached(model, x, digits):
    mg.cross_entropy(model(x), digits).backward()
    return [name for name, p in model.named_parameters() if p.grad is None]


# %% [markdown]
# ### Exercise 2
#
# `unit(x)` scales each row of `x` to length 1. A blank image has the length 0. Write it so that a
# blank row stays blank, and so that no gradient is NaN. Test it under `mg.detect_anomaly()`.


# %% answer
def unit(x): ...


# %% check
@exercise(2)
def check(unit):
    rows = mg.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]], requires_grad=True)
    y = unit(rows)
    wanted = [[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]]
    assert np.allclose(y.detach().numpy(), wanted), "Divide each row by its length; 0 stays 0."
    (y * mg.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])).sum().backward()
    finite = np.isfinite(rows.grad.numpy())
    assert finite.all(), "The value is right, its gradient is not: √ has an infinite slope at 0."
    assert np.allclose(rows.grad.numpy()[0], [0.128, -0.096]), "The first row's gradient is wrong."


# %% wrong
def unit(x):
    return x / (mg.sqrt((x * x).sum(axis=1, keepdims=True)) + 1e-12)


# %% solution
# The 0 must not enter the square root at all, not even where its result is thrown away.
def unit(x):
    square = (x * x).sum(axis=1, keepdims=True)
    return x / mg.sqrt(mg.where(square > 0, square, 1.0))


# %% [markdown]
# ### Exercise 3
#
# Write `largest_rate(model, x, digits)`: the largest learning rate with which the first step of
# gradient descent changes no parameter by more than 1 % of its norm.


# %% answer
def largest_rate(model, x, digits): ...


# %% check
@exercise(3)
def check(largest_rate):
    for scale in (1.0, COUNTS):
        rate = largest_rate(two_layers(), x * scale, digits)
        model = two_layers()
        before = [p.detach().numpy().copy() for p in model.parameters()]
        mg.cross_entropy(model(x * scale), digits).backward()
        optim.SGD(model.parameters(), lr=rate).step()
        after = [p.detach().numpy() for p in model.parameters()]
        norm = np.linalg.norm
        change = max(norm(new - old) / norm(old) for new, old in zip(after, before))
        assert change < 0.0101, f"With this rate one parameter changes by {change:.1%}."
        assert change > 0.0099, f"The largest change is {change:.1%}: the rate can be larger."


# %% wrong
def largest_rate(model, x, digits):
    mg.cross_entropy(model(x), digits).backward()
    norm = np.linalg.norm
    return max(0.01 * norm(p.detach().numpy()) / norm(p.grad.numpy()) for p in model.parameters())


# %% solution
# Each parameter allows a rate of 0.01 ‖p‖ / ‖g‖; the smallest of them holds for all.
def largest_rate(model, x, digits):
    mg.cross_entropy(model(x), digits).backward()
    norm = np.linalg.norm
    return min(0.01 * norm(p.detach().numpy()) / norm(p.grad.numpy()) for p in model.parameters())
