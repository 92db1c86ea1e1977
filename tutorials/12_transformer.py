# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12 · A small transformer on real text
#
# A language model answers one question: given the characters so far, how likely is each character
# to come next? This notebook trains one on four tragedies of Shakespeare, from random numbers, in
# a minute or two. It is a GPT in every part that matters, only small: 64 characters of context,
# two blocks, 420,000 parameters. At the end it writes lines that look like a play, and
# mean nothing; why both is so is part of the story.
#
# You need to know what a layer, a loss and an optimizer are; notebook 11 trains a smaller model.

# %%
import os

# The matrices here are small: threads inside one product would wait for each other, not work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import inspect
import math
import tempfile
from time import perf_counter, process_time

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad import data, nn, optim
from minigrad.ops.attention import composed

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## The text
#
# *Hamlet*, *Macbeth*, *Othello* and *King Lear*, in the public domain; they come with the checkout.
# Each different character gets a number. The last tenth (the end of *King Lear*) is never trained
# on: it shows what the model has learned, not what it has memorised.

# %%
text = data.load_text()
characters = sorted(set(text))
number_of = {c: i for i, c in enumerate(characters)}
numbers = np.array([number_of[c] for c in text])
split = len(numbers) * 9 // 10
training, held_out = numbers[:split], numbers[split:]
SYMBOLS = len(characters)

print(f"{len(text):,} characters, {SYMBOLS} different: {''.join(characters)!r}")
print(text[20_000:20_300])

# %% [markdown]
# ## What is a good loss?
#
# The loss is the mean of $-\log p(\text{the character that came})$. It has a scale of its own,
# which counting gives before any training:
#
# - know nothing, say $p = 1/70$ for all: $\log 70$;
# - know how frequent each character is;
# - know the last character, too (pairs), or the last two (triples).


# %%
def loss_of_counts(order):
    """The held-out loss of counting: each character given the `order` before it."""
    shape = (SYMBOLS,) * (order + 1)
    counts = np.full(shape, 0.05)  # what was never seen is still possible
    np.add.at(counts, tuple(training[i : len(training) - order + i] for i in range(order + 1)), 1)
    p = counts / counts.sum(axis=-1, keepdims=True)
    seen = tuple(held_out[i : len(held_out) - order + i] for i in range(order + 1))
    return float(-np.log(p[seen]).mean())


baselines = {"nothing": math.log(SYMBOLS)}
for order, name in enumerate(("frequencies", "pairs", "triples")):
    baselines[name] = loss_of_counts(order)
for name, value in baselines.items():
    print(f"{name:12s} {value:.3f}")

# %% [markdown]
# A table of triples has $70^3 = 343{,}000$ entries, about as many numbers as our model. Tables stop
# there: for eight characters one would need $70^9$ entries. A transformer has to find out which of
# the last 64 characters matter.
#
# ## Attention
#
# At each position the model holds a vector. Attention lets a position collect from earlier ones:
# each position asks a question $q$ (the *query*), and every position offers a key $k$ and a value
# $v$, all linear maps of its vector. The answer is a mean of the values, weighted by how well the
# keys fit the query:
#
# $$ P = \mathrm{softmax}\left(\frac{q k^\top}{\sqrt d}\right), \qquad y = P v . $$
#
# *Causal*: position $i$ may look at the positions $0 \dots i$ only, for what comes later is what it
# has to guess. The scores of later positions become $-\infty$, and $e^{-\infty} = 0$. In minigrad's
# source, made of other ops (a layer without masks of its own takes both steps as one op,
# `self_attention`):

# %%
print(inspect.getsource(composed.scores))
print(inspect.getsource(composed.probabilities))
print(inspect.getsource(composed.visible))

# %% [markdown]
# A **block** is attention, then a small network at each position, both *added* to what was there,
# so that a stack of blocks starts close to the identity and gradients reach the first block
# unhindered:

# %%
print(inspect.getsource(nn.TransformerEncoderLayer.forward))
print(inspect.getsource(nn.TransformerEncoderLayer._feed))

# %% [markdown]
# ## The model
#
# A vector for each character plus a vector for each position (the *embeddings*), the blocks, and a
# linear map to one number per character (the logits).

# %%
CONTEXT, WIDTH, HEADS, BLOCKS = 64, 128, 4, 2


class Writer(nn.Module):
    """Characters (n, t) to logits (n, t, SYMBOLS): of each position, what may come next."""

    def __init__(self):
        self.characters = nn.Embedding(SYMBOLS, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(BLOCKS)
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, SYMBOLS, bias=False)
        for table in (self.characters, self.positions):
            nn.init.normal_(table.weight, 0.0, 0.02)

    def forward(self, x):
        x = self.characters(x) + self.positions(mg.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.out(self.norm(x))


model = Writer()
print(model.summary(mg.tensor(training[None, :CONTEXT])))

# %% [markdown]
# Causality is worth a test of its own: a model that can see the answer gets a wonderful loss and
# has learned nothing. Change the last character; no earlier logit may move by a bit.

# %%
x = training[None, :CONTEXT].copy()
with mg.no_grad():
    before = model(mg.tensor(x)).numpy()
    x[0, -1] = (x[0, -1] + 1) % SYMBOLS
    after = model(mg.tensor(x)).numpy()
assert (before[:, :-1] == after[:, :-1]).all() and (before[:, -1] != after[:, -1]).any()

# %% [markdown]
# ## Before
#
# To write, ask for the probabilities of the next character, draw one, append it, repeat. Dividing
# the logits by a *temperature* below 1 makes likely characters likelier.


# %%
def write(start, length, temperature=0.8, seed=1):
    """`start`, continued by `length` characters."""
    dice = np.random.default_rng(seed)
    written = [number_of[c] for c in start]
    with mg.no_grad():
        for _ in range(length):
            logits = model(mg.tensor([written[-CONTEXT:]])).numpy()[0, -1] / temperature
            p = np.exp(logits - logits.max(), dtype=np.float64)
            written.append(int(dice.choice(SYMBOLS, p=p / p.sum())))
    return "".join(characters[i] for i in written)


print(write("Ham.\n", 150))

# %% [markdown]
# ## Training
#
# A batch is 16 windows from random positions of the text. One window teaches 64 lessons at once: at
# each of its positions the next character is known. The rate rises at first and then falls to zero;
# the norm of the gradient is limited, which catches the occasional wild batch.


# %%
def windows(source, n):
    """n windows from random positions: characters (n, CONTEXT), and for each the next one."""
    starts = rng.integers(0, len(source) - CONTEXT, n)
    taken = source[starts[:, None] + np.arange(CONTEXT + 1)]
    return taken[:, :-1], taken[:, 1:]


def loss_on(x, y):
    return mg.cross_entropy(model(mg.tensor(x)).reshape(-1, SYMBOLS), y.reshape(-1))


fixed = windows(held_out, 64)  # the same held-out windows every time


def held_out_loss():
    with mg.no_grad():
        return loss_on(*fixed).item()


# %%
STEPS, BATCH, RATE = 1200, 16, 4e-3

optimizer = optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.1)
schedule = optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
losses, checks = [], {0: held_out_loss()}
started = perf_counter(), process_time()


def train(until):
    """Go on training until that step."""
    while len(losses) < until:
        optimizer.zero_grad()
        loss = loss_on(*windows(training, BATCH))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if len(losses) % 100 == 0:
            step, recent = len(losses), np.mean(losses[-100:])
            checks[step] = held_out_loss()
            print(f"step {step:4d}: loss {recent:.3f}, held out {checks[step]:.3f}")


train(200)
print(write("Ham.\n", 150))

# %% [markdown]
# After 200 steps it knows which letters are frequent, and which follow each other: no more. Go on.

# %%
train(700)

# %%
train(STEPS)
clock, worked = perf_counter() - started[0], process_time() - started[1]
print(f"{clock:.0f} s on the clock, {worked:.0f} s of processor time")
print(f"{STEPS * BATCH * CONTEXT / worked:,.0f} characters for each of those")

# %%
figure, axes = plt.subplots(figsize=(7, 3.6))
smooth = np.convolve(losses, np.ones(20) / 20, mode="valid")
axes.plot(range(20, STEPS + 1), smooth, color="#99bbdd", label="training (mean of 20 steps)")
axes.plot(list(checks), list(checks.values()), "o-", color="#224466", label="held out")
for name, value in baselines.items():
    axes.axhline(value, color="grey", linestyle=":", linewidth=1)
    axes.text(STEPS, value, name, ha="right", va="bottom", color="dimgrey", fontsize=9)
axes.set(xlabel="step", ylabel="loss a character", ylim=(1.4, 4.5), title="Learning to write")
axes.legend(loc="center right")
figure.tight_layout()

# %% [markdown]
# The curve passes the baselines one after the other: first frequencies, then pairs, where it slows
# down (up to there a position need not look at others; pairs are easy). Then the heads begin to
# look back, and it falls below what counting triples gives.

# %%
final = checks[STEPS]
assert final < baselines["triples"] < baselines["pairs"] and final < 1.9
print(f"held out {final:.3f}: among {math.exp(final):.1f} equally likely characters, not {SYMBOLS}")

# %% [markdown]
# ## After

# %%
after_training = write("Ham.\n", 500)
print(after_training)

# %% [markdown]
# The form is there: a name and a point, then lines of verse, words that are English or could be.
# Sense is not: for sense one needs more than 64 characters of memory and more than half a megabyte
# of reading. How many of its words occur in the plays?

# %%
vocabulary = set(text.lower().replace("\n", " ").split())


def share_of_words(written):
    words = written.lower().split()
    return sum(word in vocabulary for word in words) / len(words)


model_words = share_of_words(write("Ham.\n", 1500))
dice = np.random.default_rng(0)
shuffled = "".join(dice.choice(list(text[:50_000]), 1500))
print(
    f"the model {model_words:.0%}, letters drawn by their frequency {share_of_words(shuffled):.0%}"
)
assert model_words > 0.5 and share_of_words(shuffled) < 0.45

# %% [markdown]
# ## What does it look at?
#
# `MultiheadAttention` returns its weights $P$ if asked. Row $i$ of a picture says where position
# $i$ looks; the triangle above the diagonal is the future, and empty.

# %%
line = "Ham.\nTo be, or not to be, that is the"
x = mg.tensor([[number_of[c] for c in line]])
maps = []
with mg.no_grad():
    h = model.characters(x) + model.positions(mg.arange(x.shape[1]))
    for block in model.blocks:
        n = block.norm1(h)
        _, p = block.self_attn(n, n, n, is_causal=True, average_attn_weights=False)
        maps.append(p.numpy()[0])  # (heads, position that looks, position that is looked at)
        h = block(h, is_causal=True)

figure, axes = plt.subplots(BLOCKS, HEADS, figsize=(10, 5.6))
words = [0, *[i + 1 for i, c in enumerate(line) if c.isspace()]]  # where each begins
for i, row in enumerate(axes):
    for head, one in enumerate(row):
        one.imshow(maps[i][head], cmap="Blues", vmin=0, vmax=1)
        one.set_title(f"block {i + 1}, head {head + 1}", fontsize=8)
        one.set_xticks(words, line.split(), fontsize=8, rotation=90)
        one.set_yticks(words, line.split(), fontsize=8)
        one.tick_params(length=2)
figure.tight_layout()
for p in maps:
    assert np.allclose(p.sum(axis=-1), 1, atol=1e-5) and np.triu(p[0], 1).max() == 0

# %% [markdown]
# How far back does each head look, on the mean? Nobody told the heads to divide the work. In the
# saved run one head of the first block has learned to look at almost exactly the character before,
# which is what the table of pairs does; in the second block some columns are dark: a line break or
# a comma that many later positions look back to.

# %%
position = np.arange(len(line))
back = position[:, None] - position
for i, p in enumerate(maps):
    means = (p * back).sum(axis=-1)[:, 8:].mean(axis=-1)
    print(f"block {i + 1}: characters back, head by head", np.round(means, 1))

# %% [markdown]
# ## Keep it
#
# The weights go into one safetensors file, a format that holds arrays and nothing executable, with
# PyTorch's names for these layers. Saved and loaded, the model writes the same lines to the letter.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "writer.safetensors")
    mg.save(model.state_dict(), path)
    print(f"{os.path.getsize(path) / 1e6:.2f} MB")
    trained, model = model, Writer()
    model.load_state_dict(mg.load(path))
assert write("Ham.\n", 500) == after_training

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Write `entropy(logits, temperature)`: the mean entropy, in nats, of the distributions that are
# drawn from. Then sample with temperature 0.3 and 1.5: which one repeats itself?


# %% answer
def entropy(logits, temperature): ...


# %% check
@exercise(1)
def check(entropy):
    even = float(entropy(mg.zeros(2, 3, 4), 1.0))
    assert np.isclose(even, math.log(4)), f"Four equal choices have the entropy log 4, not {even}."
    with mg.no_grad():
        logits = model(mg.tensor(fixed[0][:8]))
    low, one, high = (float(entropy(logits, t)) for t in (0.3, 1.0, 1.5))
    hint = f"It is {low:.2f} at 0.3 and {high:.2f} at 1.5: divide the logits by the temperature."
    assert low < one < high, hint


# %% wrong
def entropy(logits, temperature):
    p = mg.softmax(logits * temperature, axis=-1).numpy()
    return -(p * np.log(p + 1e-30)).sum(axis=-1).mean()


# %% solution
# Low temperature: low entropy, the same few words again and again.
def entropy(logits, temperature):
    p = mg.softmax(logits / temperature, axis=-1).numpy()
    return -(p * np.log(p + 1e-30)).sum(axis=-1).mean()


repeated = write("Ham.\n", 800, temperature=0.3).split()
varied = write("Ham.\n", 800, temperature=1.5).split()
assert len(set(repeated)) / len(repeated) < len(set(varied)) / len(varied)

# %% [markdown]
# ### Exercise 2
#
# The loss is a mean over all 64 positions. At which position in the window is it largest, and why?

# %% answer
hardest = ...  # 0 to 63


# %% check
@exercise(2)
def check(hardest):
    x, y = fixed
    with mg.no_grad():
        logits = model(mg.tensor(x)).reshape(-1, SYMBOLS)
        each = mg.cross_entropy(logits, y.reshape(-1), reduction="none")
    by_position = each.numpy().reshape(y.shape).mean(axis=0)
    hint = f"The loss there is {by_position[hardest]:.2f}, at another position "
    hint += f"{by_position.max():.2f}. How many characters does the model know at each?"
    assert hardest == by_position.argmax(), hint


# %% wrong
hardest = 63

# %% solution
# At the first position it knows one character only, and does about as well as pairs.
hardest = 0

# %% [markdown]
# ### Exercise 3
#
# Write `loss_without_positions()`: the held-out loss of the trained model with the vectors of the
# positions set to zero. The model is afterwards as it was.


# %% answer
def loss_without_positions(): ...


# %% check
@exercise(3)
def check(loss_without_positions):
    kept, before = model.positions.weight.numpy().copy(), held_out_loss()
    try:
        without = float(loss_without_positions())
        same = np.array_equal(model.positions.weight.numpy(), kept)
    finally:
        with mg.no_grad():
            model.positions.weight.copy_(mg.tensor(kept))
    hint = f"With positions the loss is {before:.2f}; yours, {without:.2f}, is hardly larger."
    assert without > before + 0.3, hint
    assert same, "Copy the vectors first, and write them back at the end."


# %% wrong
def loss_without_positions():
    with mg.no_grad():
        model.positions.weight.zero_()
    return held_out_loss()


# %% solution
# It rises a lot: near and far can no longer be told apart.
def loss_without_positions():
    kept = model.positions.weight.numpy().copy()
    with mg.no_grad():
        model.positions.weight.zero_()
        without = held_out_loss()
        model.positions.weight.copy_(mg.tensor(kept))
    return without


# %% [markdown]
# ### Exercise 4
#
# Without a mask attention does not know any order. Given the result `a`, of shape (n, T, C), of
# attention on `h`, say what attention gives on `h[:, order]`, without calling it again.


# %% answer
def predicted(a, order): ...


# %% check
@exercise(4)
def check(predicted):
    h = mg.tensor(rng.normal(size=(1, 10, WIDTH)).astype("float32"))
    order = np.roll(np.arange(10), 3)
    attention = model.blocks[0].self_attn
    with mg.no_grad():
        a, _ = attention(h, h, h)
        b, _ = attention(h[:, order], h[:, order], h[:, order])
    found = np.asarray(predicted(a, order))
    hint = "Each query now stands elsewhere, and its mean over all keys is what it was."
    assert np.allclose(found, b.numpy(), atol=1e-4), hint


# %% wrong
def predicted(a, order):
    return a


# %% solution
# Queries, keys and values are the same for the same character, and a mean has no order.
def predicted(a, order):
    return a[:, order]
