"""The programs behind the pictures: small, real, recorded by the engine as a user would."""

from math import sqrt

import numpy as np

import minigrad as mg
from minigrad import data, nn


class DigitNet(nn.Module):
    """A residual convnet: images (n, 1, 8, 8) to logits (n, 10)."""

    def __init__(self, skip: bool = True) -> None:
        self.skip = skip
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.out = nn.Linear(16 * 4 * 4, 10)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        x = mg.relu(self.conv1(x))
        h = mg.relu(self.conv2(x))
        x = x + h if self.skip else h
        x = mg.max_pool2d(x, 2)
        return self.out(x.reshape(len(x), -1))


def digits(skip: bool = True) -> mg.record_backward:
    """One batch of handwritten digits through the convnet and back."""
    mg.manual_seed(0)
    net, images = DigitNet(skip), data.load_digits()
    x, labels = (array[:32] for array in images.arrays)
    with mg.record_backward() as rec:
        logits = net(mg.Tensor(x))
        loss = mg.cross_entropy(logits, labels)
        loss.backward()
    return rec


def scalars() -> mg.record_backward:
    """Six ops on numbers that can be followed by hand; a and d are used twice."""
    a, b, c = (mg.tensor(x, requires_grad=True) for x in (0.5, -0.3, 0.7))
    with mg.record_backward({"a": a, "b": b, "c": c}) as rec:
        d = a * b + c
        loss = mg.tanh(d) * d + a
        rec.names |= {"d": d, "loss": loss}
        loss.backward()
    return rec


def branches() -> mg.record_backward:
    """Four experts with one gate: a backward whose branches run at once, in two threads."""
    chance = np.random.default_rng(0)

    def weight(*shape: int) -> mg.Tensor:
        return mg.tensor(chance.normal(size=shape) / np.sqrt(shape[0]), requires_grad=True)

    x, target = chance.normal(size=(400, 160)), chance.normal(size=(400, 160))
    experts = [(weight(160, 320), weight(320, 160)) for _ in range(4)]
    gate = weight(160, 4)
    names = {f"w{k}.{n}": w for n, pair in enumerate(experts, 1) for k, w in enumerate(pair, 1)}
    with mg.record_backward({**names, "gate": gate}) as rec:
        share = mg.softmax(x @ gate)
        y = share[:, 0:1] * (mg.gelu(x @ experts[0][0]) @ experts[0][1])
        for k, (up, down) in enumerate(experts[1:], 1):
            y = y + share[:, k : k + 1] * (mg.gelu(x @ up) @ down)
        loss = ((y - target) ** 2).mean()
        loss.backward(engine="parallel", workers=2, min_work=0)
    return rec


def wrong_rule() -> mg.record_backward:
    """A Function whose backward forgets a factor: finite differences see it."""

    class Swish(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * mg.sigmoid(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            s = mg.sigmoid(x)
            return g * (s + x * s)  # x s (1 − s) would be right

    chance = np.random.default_rng(0)
    w, v = (mg.tensor(chance.normal(size=n), requires_grad=True) for n in ((4, 8), (8, 2)))
    x = mg.tensor(chance.normal(size=(5, 4)))
    with mg.record_backward({"w": w, "v": v}, check=True) as rec:
        h = Swish.apply(x @ w)
        loss = ((h @ v) ** 2).mean()
        loss.backward()
    return rec


class Block(nn.Module):
    """Attention and a small network, each added to its input (pre-norm)."""

    def __init__(self, width: int, heads: int) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def attention(self, x: mg.Tensor) -> mg.Tensor:
        n, length, width = x.shape
        parts = mg.split(self.qkv(x), 3, axis=-1)
        q, k, v = (p.reshape(n, length, self.heads, -1).swapaxes(1, 2) for p in parts)
        scores = q @ k.swapaxes(-1, -2) / sqrt(width // self.heads)
        mixed = mg.softmax(scores) @ v
        return self.mix(mixed.swapaxes(1, 2).reshape(n, length, width))

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(mg.gelu(self.up(self.norm2(x))))


def transformer(blocks: int = 1) -> mg.record_backward:
    """Blocks of a transformer over 8 sequences of 16 vectors of 32 numbers."""
    mg.manual_seed(0)
    layers = nn.Sequential(*[Block(32, 4) for _ in range(blocks)])
    x = mg.tensor(np.random.default_rng(0).normal(size=(8, 16, 32)), dtype="float32")
    with mg.record_backward() as rec:
        (layers(x) ** 2).mean().backward()
    return rec


def compiled_step(path: str) -> None:
    """The program of a training step under mg.compile, with the kernels of mg.accelerate."""
    mg.manual_seed(0)
    model = nn.Linear(64, 256)
    optimizer = mg.optim.Adam(model.parameters(), lr=1e-3)

    @mg.compile
    def step(x: mg.Tensor, target: mg.Tensor) -> mg.Tensor:
        optimizer.zero_grad()
        h = model(x)
        h = mg.tanh(h) * h + h / 2
        loss = -(mg.log_softmax(h) * target).sum() / len(x)
        loss.backward()
        optimizer.step()
        return loss

    x = mg.randn(1024, 64, dtype="float32")
    target = mg.softmax(mg.randn(1024, 256, dtype="float32"))
    with mg.accelerate(process=False):
        for _ in range(2):
            step(x, target)
    step.dump_graph(path)
