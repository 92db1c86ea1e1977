"""Programs whose graphs a visitor may open first: from an expression to a transformer."""

from __future__ import annotations

import random

import numpy as np

import minigrad as mg
from minigrad import nn


def _recorded(run):
    with mg.record_backward() as record:
        run().sum().backward()
    return record.graph


def _images(*shape):
    return mg.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def convnet():
    """The convnet of the demo."""

    class DigitNet(nn.Module):
        def __init__(self):
            self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
            self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
            self.dropout = nn.Dropout(0.25)
            self.hidden = nn.Linear(32 * 4 * 4, 64)
            self.out = nn.Linear(64, 10)

        def forward(self, x):
            x = mg.relu(self.conv1(x))
            x = mg.relu(self.conv2(x))
            x = mg.max_pool2d(x, 2)
            x = self.dropout(x.reshape(len(x), -1))
            return self.out(mg.relu(self.hidden(x)))

    model, labels = DigitNet(), mg.tensor(np.arange(8) % 10)
    return _recorded(lambda: mg.cross_entropy(model(_images(8, 1, 8, 8)), labels))


def encoder():
    """A transformer encoder of twelve layers."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 12)
    return _recorded(lambda: model(_images(2, 5, 32)))


def encoder_decoder():
    """An encoder and a decoder that are lists of modules."""

    class Translator(nn.Module):
        def __init__(self):
            self.encoder = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])
            self.decoder = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            for layer in self.encoder:
                x = mg.relu(layer(x))
            memory = x
            for layer in self.decoder:
                x = mg.tanh(layer(x + memory))
            return self.head(x)

    model = Translator()
    return _recorded(lambda: model(_images(4, 16)))


def lstm():
    """An LSTM cell unrolled over fifty steps."""
    cell, out = nn.LSTMCell(8, 16), nn.Linear(16, 1)

    def run():
        x, h, c = _images(50, 4, 8), mg.zeros(4, 16), mg.zeros(4, 16)
        for step in range(50):
            h, c = cell(x[step], (h, c))
        return out(h)

    return _recorded(run)


def expression():
    """The scalar expression of micrograd's own page."""
    with mg.record_backward() as record:
        a, b = mg.tensor(-4.0, requires_grad=True), mg.tensor(2.0, requires_grad=True)
        c = a + b
        d = a * b + b**3
        c = c + c + 1
        c = c + 1 + c - a
        d = d + d * 2 + mg.relu(b + a)
        d = d + 3 * d + mg.relu(b - a)
        e = c - d
        f = e**2
        g = f / 2.0
        g = g + 10.0 / f
        record.names.update(a=a, b=b, c=c, d=d, e=e, f=f, g=g)
        g.backward()
    return record.graph


def elementwise(count=1_000):
    """A chain of elementwise functions in an order that never repeats, outside of any scope."""
    chance = random.Random(0)
    h = x = mg.ones(32, requires_grad=True)
    with mg.record_backward() as record:
        for _ in range(count - 2):
            which = chance.randrange(4)
            if which == 0:
                h = mg.sin(h)
            elif which == 1:
                h = mg.tanh(h)
            elif which == 2:
                h = h * 1.5
            else:
                h = h + x
        h.sum().backward()
    return record.graph
