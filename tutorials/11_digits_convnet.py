# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11 · A convnet on real handwritten digits
#
# People wrote digits on a form, a scanner saw them, and somebody noted what each was meant to be.
# This notebook trains a small convolutional network on 1,437 of them and asks it about 360 that it
# has never seen. It gets at least 98.5 % of those right, which is checked below. Then it looks
# inside: at the mistakes, at what the filters respond to, and at the file that keeps the model.
#
# You need to know what a gradient step is. Everything runs on two cores in well under a minute.

# %%
import os

# The matrices here are small: threads inside one product would wait for each other, not work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import inspect
import tempfile
from time import perf_counter, process_time

import matplotlib.pyplot as plt
import minigrad_viz
import numpy as np
from exercises import exercise
from IPython.display import display

import minigrad as mg
from minigrad import data, nn, optim

mg.manual_seed(0)
mg.show_versions()

# %% [markdown]
# ## The data
#
# 1,797 images of 8 × 8 pixels (Alpaydin and Kaynak, UCI, 1998; they come with the checkout). A
# fifth is held out, fixed by the seed: the model never learns from it. (Its size and its schedule
# were chosen with the result on these images in view, so read the result as slightly optimistic;
# with more data a third part would serve for choosing.)

# %%
digits = data.load_digits()
training, held_out = data.train_test_split(digits, test=0.2, seed=0)
print(digits, "|", len(training), "to learn from,", len(held_out), "held out")

images, labels = training.arrays
figure, axes = plt.subplots(2, 10, figsize=(8, 1.9))
for digit in range(10):
    for row, i in enumerate(np.flatnonzero(labels == digit)[:2]):
        axes[row, digit].imshow(images[i, 0], cmap="gray_r")
        axes[row, digit].set_axis_off()
figure.tight_layout()
print("how many of each:", np.bincount(labels))

# %% [markdown]
# ## What a convolution does
#
# A layer that connects all pixels with all outputs has to learn anew in each place that a stroke is
# a stroke. A convolution has one small set of weights (a *filter*) and applies it everywhere:
#
# $$ y_{n,o,i} = b_o + \sum_{c,k} w_{o,c,k} \; x_{n,c,i+k-p} , $$
#
# where $i$ and $k$ are pairs (row, column) and $p$ is the padding. Move the image, and the result
# moves along. minigrad copies the windows into the columns of a matrix, so that the sum becomes one
# matrix product (3 × 3 filters over many channels go Winograd's way, with fewer products), and
# its rules for $x$ and $w$ are convolutions again:

# %%
from minigrad.ops.conv import primitives

for part in (primitives.conv.reference, *(rule.fn for rule in primitives.conv.rules.values())):
    print(inspect.getsource(part))

# %% [markdown]
# Once by hand, to be sure what the formula says:

# %%
image, kernel = images[0, 0].astype(np.float64), np.array([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
padded = np.pad(image, 1)
by_hand = np.array(
    [[(padded[r : r + 3, c : c + 3] * kernel).sum() for c in range(8)] for r in range(8)]
)
y = mg.conv2d(image[None, None], kernel[None, None], padding=1)
assert np.allclose(y[0, 0], by_hand)

figure, axes = plt.subplots(1, 2, figsize=(4.5, 2.2))
for one, picture, title in zip(axes, (image, by_hand), ("image", "left edges −, right edges +")):
    one.imshow(picture, cmap="gray_r" if one is axes[0] else "RdBu")
    one.set_title(title, fontsize=9)
    one.set_axis_off()
figure.tight_layout()

# %% [markdown]
# ## The model
#
# Two convolutions (16 and 32 filters of 3 × 3), each with batch normalisation and ReLU; max-pooling
# halves the image; two linear layers decide. Dropout sets a random share of the numbers to zero
# while training, so that no unit can rely on one other.


# %%
class DigitNet(nn.Module):
    """Images (n, 1, 8, 8) to logits (n, 10)."""

    def __init__(self):
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.hidden, self.out = nn.Linear(32 * 4 * 4, 64), nn.Linear(64, 10)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        x = mg.relu(self.norm1(self.conv1(x)))
        x = mg.relu(self.norm2(self.conv2(x)))
        x = mg.max_pool2d(x, 2)
        x = self.dropout(x.reshape(len(x), -1))
        x = self.dropout(mg.relu(self.hidden(x)))
        return self.out(x)


model = DigitNet()
print(model.summary(mg.tensor(images[:32])))

# %% [markdown]
# The graph of one loss, drawn from a recorded backward. Each box is an op, with the
# module it ran in and its line.

# %%
with mg.record_backward() as record:
    mg.cross_entropy(model(mg.tensor(images[:32])), labels[:32]).backward()
model.zero_grad()
picture = minigrad_viz.show(record.graph, "one loss of DigitNet")
display(picture, include={"image/svg+xml", "text/plain"})

# %% [markdown]
# ## More data for nothing
#
# A 3 that is shifted by a pixel is still a 3. So each time an image is used, it is shifted at
# random by −1, 0 or 1 pixels in both directions: the model never sees quite the same image twice.
# Anything that can be iterated over in batches will do as training data:


# %%
class Shifted:
    """Batches whose images are shifted at random by up to one pixel each way."""

    def __init__(self, batches, seed):
        self.batches = batches
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for x, y in self.batches:
            padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
            moves = self.rng.integers(0, 3, (len(padded), 2))
            windows = [p[:, r : r + 8, c : c + 8] for p, (r, c) in zip(padded, moves)]
            yield mg.tensor(np.stack(windows)), y


# %% [markdown]
# ## Training
#
# `mg.train.Trainer` holds the loop that everybody writes. What it does with one batch is a
# few lines; a subclass could change them:

# %%
print(inspect.getsource(mg.train.Trainer.train_step))

# %% [markdown]
# The learning rate rises for the first third and then falls to nearly zero (*one cycle*): large
# steps to find a good region, small ones to settle in it. A callback moves it after every batch.

# %%
EPOCHS, BATCH, RATE = 24, 32, 6e-3


class StepSchedule(mg.train.Callback):
    """Steps a schedule after each batch, not each epoch."""

    def __init__(self, schedule):
        self.schedule = schedule

    def on_batch_end(self, trainer, loss):
        self.schedule.step()


batches = Shifted(data.DataLoader(training, BATCH, shuffle=True), seed=0)
check = data.DataLoader(held_out, len(held_out))
optimizer = optim.AdamW(model.parameters(), lr=RATE)
schedule = optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * len(batches))
trainer = mg.train.Trainer(
    model,
    mg.cross_entropy,
    optimizer,
    metrics={"accuracy": mg.train.accuracy},
    callbacks=[StepSchedule(schedule)],
)
started = perf_counter(), process_time()
history = trainer.fit(batches, check, epochs=EPOCHS, progress=False)
clock, worked = perf_counter() - started[0], process_time() - started[1]
for epoch in (1, 2, 4, 8, 16, EPOCHS):
    numbers = history[epoch - 1]
    print(
        f"epoch {epoch:2d}: loss {numbers['loss']:.3f}, held out: loss {numbers['val_loss']:.3f}, "
        f"accuracy {numbers['val_accuracy']:.2%}"
    )
print(f"{clock:.0f} s on the clock, {worked:.0f} s of processor time")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3))
epochs = range(1, EPOCHS + 1)
left.semilogy(epochs, [n["loss"] for n in history], label="training (shifted, dropout)")
left.semilogy(epochs, [n["val_loss"] for n in history], label="held out")
left.set(xlabel="epoch", ylabel="loss")
left.legend()
right.plot(epochs, [100 * n["val_accuracy"] for n in history], color="#228833")
right.axhline(98.5, color="grey", linestyle=":")
right.set(xlabel="epoch", ylabel="held out, % right", ylim=(90, 100.5))
figure.tight_layout()

# %% [markdown]
# The held-out loss is *below* the training loss: the training images are shifted and meet a network
# with a third of its units missing, the held-out ones do not.

# %%
accuracy = history[-1]["val_accuracy"]
error = (accuracy * (1 - accuracy) / len(held_out)) ** 0.5
print(f"{accuracy:.2%} of {len(held_out)} held-out images, ± {error:.2%} by chance alone")
assert accuracy >= 0.985

# %% [markdown]
# ## The mistakes

# %%
x, y = held_out.arrays
model.eval()  # no dropout, and normalisation by the statistics of the training
with mg.no_grad():
    p = mg.softmax(model(mg.tensor(x)), axis=-1).numpy()
guesses = p.argmax(axis=1)
wrong = np.flatnonzero(guesses != y)

unsure = [i for i in np.argsort(p.max(axis=1)) if i not in wrong][: 8 - len(wrong)]
shown = [*wrong, *unsure]
figure, axes = plt.subplots(1, len(shown), figsize=(9, 1.9))
for one, i in zip(axes, shown):
    one.imshow(x[i, 0], cmap="gray_r")
    one.set_axis_off()
    mark = "wrong" if i in wrong else "right"
    one.set_title(f"is {y[i]}\nsaid {guesses[i]}, {p[i].max():.0%}\n{mark}", fontsize=8)
figure.tight_layout()
print(len(wrong), "mistakes; beside them those that it got right and was least sure of")

# %% [markdown]
# A model should also know *how* sure it is. Of the images for which it says 99 % or more, how many
# are right? And does saying "I don't know" to the least sure 5 % help?

# %%
sure = p.max(axis=1) >= 0.99
order = np.argsort(p.max(axis=1))
kept = order[len(order) // 20 :]
right_when_sure = (guesses == y)[sure].mean()
right_when_kept = (guesses == y)[kept].mean()
print(f"sure about {sure.mean():.0%} of the images, right in {right_when_sure:.2%} of those")
print(f"without the least sure 5 %: {right_when_kept:.2%} right")
assert right_when_sure >= accuracy and right_when_kept >= accuracy

# %% [markdown]
# ## The filters
#
# Above: the weights of the first layer's filters, red for negative and blue for positive. Most look
# for an edge or a stroke in one direction. Below: what each answers to one image of a 4.

# %%
filters = model.conv1.weight.numpy()[:, 0]
four = x[np.flatnonzero(y == 4)[0]]
with mg.no_grad():
    answers = mg.relu(model.norm1(model.conv1(mg.tensor(four[None])))).numpy()[0]
most = abs(filters).max()
figure, axes = plt.subplots(2, 16, figsize=(10, 1.6))
for i in range(16):
    axes[0, i].imshow(filters[i], cmap="RdBu", vmin=-most, vmax=most)
    axes[1, i].imshow(answers[i], cmap="gray_r")
    axes[0, i].set_axis_off()
    axes[1, i].set_axis_off()
figure.tight_layout(pad=0.3)

# %% [markdown]
# Which pixels made it say 4? The gradient of a logit with respect to the *image* tells how much the
# answer would change if a pixel became darker. The engine does not care whether a leaf is a weight.

# %%
asked = mg.tensor(four[None], requires_grad=True)
model(asked)[0, 4].backward()
slope = asked.grad.numpy()[0, 0]
figure, axes = plt.subplots(1, 2, figsize=(4.5, 2.2))
axes[0].imshow(four[0], cmap="gray_r")
axes[1].imshow(slope, cmap="RdBu", vmin=-abs(slope).max(), vmax=abs(slope).max())
for one, title in zip(axes, ("image", "blue: darker makes it more of a 4")):
    one.set_title(title, fontsize=8)
    one.set_axis_off()
figure.tight_layout()
model.zero_grad()

# %% [markdown]
# ## Save and load
#
# `state_dict()` names every parameter and buffer (batch normalisation's running statistics are
# buffers). `mg.save` writes them as safetensors: a header that says name, dtype, shape and place of
# each array, then the bytes. Nothing in such a file can be executed, and a file whose header does
# not fit its size is refused before memory is asked for. Names and layouts are PyTorch's, so either
# library reads the other's weights.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "digits.safetensors")
    mg.save(model.state_dict(), path)
    size = os.path.getsize(path)
    state = mg.load(path)

    cut = os.path.join(folder, "cut.safetensors")  # as after a broken download
    with open(path, "rb") as whole, open(cut, "wb") as part:
        part.write(whole.read()[: size // 2])
    try:
        mg.load(cut)
    except mg.errors.FormatError as error:
        print("half a file:", str(error).replace(folder + os.sep, ""))
    else:
        raise AssertionError("half a file should have been refused")

print(f"{size:,} bytes:", ", ".join(sorted(state)[:6]), "...")
twin = DigitNet()
twin.load_state_dict(state)
twin.eval()
with mg.no_grad():
    assert (mg.softmax(twin(mg.tensor(x)), axis=-1).numpy() == p).all()  # to the last bit

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Count the parameters of `DigitNet` by hand.

# %% answer
parameters = ...  # a number


# %% check
@exercise(1)
def check(parameters):
    kinds = {"conv": 0, "norm": 0, "hidden": 0, "out": 0}
    for name, p in model.named_parameters():
        kinds[name.partition(".")[0].rstrip("12")] += p.size
    hint = f"Of these kinds of layer the model has as many: {list(kinds)}. "
    hint += (
        f"Yours is {sum(kinds.values()) - parameters} short: weights, biases, two for each norm."
    )
    assert parameters == sum(kinds.values()), hint


# %% wrong
parameters = 16 * 9 + 16 * 32 * 9 + 512 * 64 + 64 * 10

# %% solution
# Weights and biases; batch normalisation has two numbers a channel.
conv = (1 * 9 * 16 + 16) + (16 * 9 * 32 + 32)
norm = 2 * 16 + 2 * 32
linear = (512 * 64 + 64) + (64 * 10 + 10)
parameters = conv + norm + linear

# %% [markdown]
# ### Exercise 2
#
# How much does a filter that is applied everywhere save? Count the weights of a `Linear` that maps
# the 64 pixels to as many numbers as `conv1` does, and those of `conv1` (no biases).

# %% answer
linear_weights = ...
conv_weights = ...


# %% check
@exercise(2)
def check(linear_weights, conv_weights):
    size = model.conv1(mg.tensor(x[:1])).size
    hint = f"conv1 makes {size} numbers of an image's 64 pixels."
    assert linear_weights == nn.Linear(64, size, bias=False).weight.size, hint
    assert conv_weights == model.conv1.weight.size, "conv1 has 16 filters of 3 × 3."


# %% wrong
linear_weights = 64 * 64
conv_weights = 16 * 9

# %% solution
# 64 inputs, 16 · 64 outputs, against 16 filters of 9.
linear_weights = 64 * 16 * 64
conv_weights = 16 * 9

# %% [markdown]
# ### Exercise 3
#
# Fool the model: move images that it gets right along the sign of the gradient of their loss,
# $x + \varepsilon \, \mathrm{sign}(\partial L / \partial x)$ (Goodfellow et al., 2015). How many
# held-out images survive $\varepsilon = 0.1$? And random signs of the same size?


# %% answer
def fooled(images, labels, epsilon): ...  # returns the moved images


# %% check
def right(images):
    """The share of the held-out images that the model gets right, after some change."""
    with mg.no_grad():
        return float((model(mg.tensor(images)).numpy().argmax(axis=1) == y).mean())


@exercise(3)
def check(fooled):
    moved = np.asarray(fooled(x, y, 0.1), dtype="float32")
    hint = "Each pixel moves by 0.1 or not at all: take the sign of the gradient."
    assert moved.shape == x.shape and abs(moved - x).max() < 0.101, hint
    signs = np.random.default_rng(0).choice([-1.0, 1.0], x.shape).astype("float32")
    here, noisy = right(moved), right(x + 0.1 * signs)
    hint = f"{here:.1%} are right, after random signs {noisy:.1%}. The loss must go up, not down."
    assert here < noisy - 0.05, hint


# %% wrong
def fooled(images, labels, epsilon):
    asked = mg.tensor(images, requires_grad=True)
    mg.cross_entropy(model(asked), labels).backward()
    return images - epsilon * np.sign(asked.grad.numpy())


# %% solution
# A step against the model costs far more than a random step of the same size.
def fooled(images, labels, epsilon):
    asked = mg.tensor(images, requires_grad=True)
    slope = mg.grad(mg.cross_entropy(model(asked), labels, reduction="sum"), asked)
    return images + epsilon * np.sign(slope.numpy())


# %% [markdown]
# ### Exercise 4
#
# Shift images by one pixel to the right; the column that comes in is empty. Does the accuracy
# suffer? What would it do without the shifts in training?


# %% answer
def shifted(images): ...


# %% check
@exercise(4)
def check(shifted):
    moved = shifted(x)
    assert moved.shape == x.shape, "Eight columns stay eight: the last one leaves the image."
    assert np.array_equal(moved[..., 1:], x[..., :-1]), "Pixel c goes to pixel c + 1, in each row."
    assert not moved[..., 0].any(), "The first column is empty; np.roll brings the last one back."
    assert right(moved) > 0.93, f"{right(moved):.1%} of the shifted images are right."


# %% wrong
def shifted(images):
    return np.roll(images, -1, axis=3)


# %% solution
# It hardly suffers: the model has seen such images. One that has not gets fewer of them right.
def shifted(images):
    moved = np.roll(images, 1, axis=3)
    moved[..., 0] = 0
    return moved


plain = DigitNet()
mg.train.Trainer(plain, mg.cross_entropy, optim.AdamW(plain.parameters(), lr=3e-3)).fit(
    data.DataLoader(training, BATCH, shuffle=True), epochs=6, progress=False
)
plain.eval()
with mg.no_grad():
    unshifted = float((plain(mg.tensor(shifted(x))).numpy().argmax(axis=1) == y).mean())
print(f"with shifts in training {right(shifted(x)):.1%}, without {unshifted:.1%}")
assert unshifted < right(shifted(x))
