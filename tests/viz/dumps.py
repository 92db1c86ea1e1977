"""Dumps built by hand, as the engine would write them."""

from __future__ import annotations

import math
import random

BYTES = {"float32": 4, "float64": 8, "int64": 8}


class Dump:
    """A dump under construction: each method adds a node and gives its id."""

    def __init__(self):
        self.document = {
            "format": "minigrad.graph",
            "version": [1, 0],
            "minigrad": "0.1.0",
            "python": "3.11.7",
            "numpy": "2.4.6",
            "cupy": None,
            "device": "cpu",
            "clock": "perf_counter_ns",
            "nodes": [],
            "edges": [],
            "roots": [],
            "backward": None,
        }

    def add(self, kind, shape, op=None, dtype="float32", **fields):
        """Adds a node of any kind; `fields` overrides what the engine would have written."""
        identity = len(self.document["nodes"]) + 1
        size = math.prod(shape) * BYTES.get(dtype, 4)
        node = {
            "id": identity,
            "kind": kind,
            "op": op,
            "seq": identity,
            "shape": list(shape),
            "dtype": dtype,
            "bytes": size,
            "device": "cpu",
            "scope": "",
            "site": None,
            "name": None,
            "saved": [],
            "params": {},
        }
        self.document["nodes"].append({**node, **fields})
        return identity

    def leaf(self, shape, **fields):
        """Adds an input."""
        return self.add("leaf", shape, **fields)

    def parameter(self, shape, name, **fields):
        """Adds a named parameter."""
        return self.add("parameter", shape, name=name, **fields)

    def op(self, op, shape, *inputs, **fields):
        """Adds an operation on `inputs`: ids, or (id, output) pairs."""
        identity = self.add("op", shape, op=op, **fields)
        for slot, source in enumerate(inputs):
            producer, output = source if isinstance(source, tuple) else (source, 0)
            self.edge(producer, output, identity, slot)
        return identity

    def edge(self, producer, output, consumer, slot):
        """Adds one edge."""
        edge = {"producer": producer, "output": output, "consumer": consumer, "slot": slot}
        self.document["edges"].append(edge)

    def done(self, *roots):
        """The document, with these roots."""
        self.document["roots"] = list(roots)
        return self.document


def tiny():
    """y = sum(x * w): two leaves, two operations."""
    dump = Dump()
    x = dump.leaf((3,), name="x")
    w = dump.parameter((3,), "w")
    site = {"file": "/home/ada/train.py", "line": 12, "function": "step"}
    product = dump.op("mul", (3,), x, w, site=site, formula="y = a b ; ga = g b, gb = g a")
    return dump.done(dump.op("sum", (), product, site=site))


def convnet(batch=64):
    """Two convolution blocks and a linear head, with scopes, saved arrays and a backward."""
    dump = Dump()
    x = dump.leaf((batch, 1, 8, 8), name="images")
    h, channels, side = x, 1, 8
    for at, wide in ((1, 16), (2, 32)):
        weight = dump.parameter((wide, channels, 3, 3), f"model.conv{at}.weight")
        bias = dump.parameter((wide, 1, 1), f"model.conv{at}.bias")
        scope, shape = f"model/conv{at}", (batch, wide, side, side)
        h = dump.op("conv2d", shape, h, weight, **_made(scope, 40 + at))
        h = dump.op("add", shape, h, bias, **_made(scope, 40 + at))
        h = dump.op("relu", shape, h, **_made(f"model/act{at}", 50 + at))
        side //= 2
        h = dump.op("max_pool2d", (batch, wide, side, side), h, **_made(f"model/pool{at}", 55))
        channels = wide
    h = dump.op("reshape", (batch, 128), h, **_made("model", 60))
    for at, (rows, columns) in ((1, (128, 64)), (2, (64, 10))):
        weight = dump.parameter((rows, columns), f"model.fc{at}.weight")
        bias = dump.parameter((columns,), f"model.fc{at}.bias")
        h = dump.op("matmul", (batch, columns), h, weight, **_made(f"model/fc{at}", 70 + at))
        h = dump.op("add", (batch, columns), h, bias, **_made(f"model/fc{at}", 70 + at))
        if at == 1:
            h = dump.op("relu", (batch, columns), h, **_made("model/act3", 75))
    target = dump.leaf((batch,), name="labels", dtype="int64")
    loss = dump.op("cross_entropy", (), h, target, **_made("", 90))
    document = dump.done(loss)
    document["backward"] = backward(document)
    return document


def _made(scope, line):
    site = {"file": "/home/ada/digits/model.py", "line": line, "function": "forward"}
    saved = [{"name": "x", "shape": [64, 10], "dtype": "float32", "bytes": 2560}]
    return {"scope": scope, "site": site, "saved": saved, "params": {"axis": "-1"}}


def backward(document, workers=1):
    """A recorded backward over a document's operations, one millisecond a step."""
    ops = [node["id"] for node in reversed(document["nodes"]) if node["kind"] == "op"]
    steps = [
        {
            "node": node,
            "order": order,
            "worker": order % workers,
            "t0": order * 1_000_000,
            "t1": order * 1_000_000 + 900_000,
            "contributions": 1,
            "grad_norm": 0.5,
            "nonfinite": None,
        }
        for order, node in enumerate(ops)
    ]
    return {"engine": "serial", "workers": workers, "steps": steps}


def residual(blocks=6):
    """A chain of blocks, each with a skip; the first activation is used again at the end."""
    dump = Dump()
    x = h = dump.leaf((32, 64), name="x")
    for at in range(blocks):
        weight = dump.parameter((64, 64), f"net.{at}.weight")
        scope = f"net/block{at}"
        y = dump.op("matmul", (32, 64), h, weight, scope=scope)
        y = dump.op("tanh", (32, 64), y, scope=scope)
        h = dump.op("add", (32, 64), h, y, scope=scope)
    h = dump.op("mul", (32, 64), h, x)
    pair = [{"shape": [32], "dtype": "float32", "bytes": 128}] * 2
    parts = dump.op("split", (32,), h, outputs=pair)
    both = dump.op("sub", (32,), (parts, 0), (parts, 1))
    return dump.done(dump.op("sum", (), both))


def wide_random(count, reach=20, seed=0):
    """A random graph of `count` nodes: operations use recent nodes, and all lead to the last."""
    chance, dump = random.Random(seed), Dump()
    unused = [dump.leaf((32, 32), name="x")]
    for at in range(2, count):
        if chance.random() < 0.1:
            unused.append(dump.parameter((32, 32), f"p{at}"))
            continue
        inputs = [unused.pop(0)] if len(unused) > reach // 2 else []
        inputs.append(max(1, at - chance.randint(1, reach)))
        scope = f"part{at * 10 // count}/step{at * 100 // count % 10}"
        op = chance.choice(("add", "mul", "matmul"))
        made = dump.op(op, (32, 32), *dict.fromkeys(inputs), scope=scope)
        unused = [node for node in unused if node != inputs[-1]] + [made]
    return dump.done(dump.op("stack", (len(unused), 32, 32), *unused))


def deep_chain(count):
    """A chain of `count` multiplications, all by the same second leaf."""
    dump = Dump()
    h = dump.leaf((32, 32), name="a")
    b = dump.leaf((32, 32), name="b")
    for _ in range(count):
        h = dump.op("mul", (32, 32), h, b)
    return dump.done(dump.op("sum", (), h))
