"""Whole documents of each format, drawn from its grammar: every kind of line, field and link."""

import random
from typing import Any

CATEGORIES = ["parameter", "gradient", "saved", "temporary", "input", "optimizer state", "other"]
OPS = ["add", "mul", "matmul", "relu", "sum", "exp", "cast", "", "ä\u2028", "a" * 300]
DTYPES = ["float32", "float64", "int64", "bfloat16", "complex128", "no dtype"]
HEADER = {
    "minigrad": "0.1.0",
    "python": "3.11",
    "numpy": "2",
    "cupy": None,
    "device": "cpu",
    "clock": "perf_counter_ns",
}


def size(rng: random.Random, usual: int = 6) -> int:
    """Mostly small; now and then what an algorithm of quadratic time would notice."""
    return rng.choice([0, 1, 2, usual, usual, usual, 2 * usual, 2 * usual, rng.choice([60, 400])])


def number(rng: random.Random) -> float:
    return rng.choice([0.0, 1.0, -2.5, 1e-300, 1e300, 3, 2**40, rng.random()])


def shape(rng: random.Random) -> list[int]:
    return [rng.choice([0, 1, 2, 3, 1000, 2**40]) for _ in range(rng.choice([0, 1, 2, 3, 8]))]


def scope(rng: random.Random) -> str:
    return rng.choice(
        ["", "net", "net/0", "net/1", "net/0/a", "/", "//a", "a/" * rng.choice([3, 200])]
    )


def site(rng: random.Random) -> dict[str, Any]:
    file = rng.choice(["train.py", "/etc/passwd", "", "a\nb.py", "x" * 400])
    return {
        "file": file,
        "line": rng.choice([0, 1, 2**40]),
        "function": rng.choice(["f", "<module>"]),
    }


def array(rng: random.Random) -> dict[str, Any]:
    count = rng.choice([0, 4, 800, 2**40, 2**62])
    return {"shape": shape(rng), "dtype": rng.choice(DTYPES), "bytes": count}


# -- graphs ----------------------------------------------------------------------------------------


def _gradient(rng: random.Random) -> dict[str, Any]:
    values = rng.choice([None, [1.0, "nan", "-inf", 3], []])
    return {
        "grad_norm": number(rng),
        "nonfinite": rng.choice([None, "nan", "inf"]),
        "values": values,
    }


def _node(rng: random.Random, i: int) -> dict[str, Any]:
    node = {
        "id": i,
        "kind": rng.choice(["leaf", "parameter", "op", "op", "op", "unheard"]),
        "seq": i,
        "op": rng.choice([None, *OPS]),
        "bytes": rng.choice([0, 4, 2**60]),
        "device": "cpu",
        "shape": shape(rng),
        "dtype": rng.choice(DTYPES),
        "scope": scope(rng),
        "saved": [],
        "name": rng.choice([None, "w", "w" * 500]),
        "site": rng.choice([None, site(rng)]),
        "params": rng.choice([{}, {"axis": "0", "b" * 90: "c" * 900}]),
    }
    if rng.random() < 0.3:
        node |= {
            "flops": rng.choice([0, 2**62]),
            "saved": [array(rng) | {"name": "x", "buffer": 3}],
        }
        node |= {"outputs": [array(rng) for _ in range(rng.choice([1, 3]))], "grad": _gradient(rng)}
        verdict = rng.choice(["right", "wrong", "unsure", "skipped"])
        node["check"] = {"verdict": verdict, "error": number(rng), "tolerance": 1e-9, "why": "x"}
    return node


def graph(rng: random.Random, backward: bool = False) -> dict[str, Any]:
    n, shift = size(rng, 8), rng.choice([0, 1, 1000])
    nodes = [_node(rng, i + shift) for i in range(n)]
    links = rng.choice([[1], [1, 2], [1, 2, 3, n]])  # how far back an edge goes: chains, fans
    edges = [
        {
            "producer": max(i - rng.choice(links), 0) + shift,
            "output": 0,
            "consumer": i + shift,
            "slot": s,
        }
        for i in range(1, n)
        for s in range(rng.choice([1, 2]))
    ]
    document = {"format": "minigrad.graph", "version": [1, rng.choice([0, 1])], **HEADER}
    document |= {"nodes": nodes, "edges": edges, "roots": [n - 1 + shift] if n else []}
    document["backward"] = None
    if n and (backward or rng.random() < 0.4):
        document["backward"] = {
            "engine": "serial",
            "workers": 2,
            "released": True,
            "steps": [
                {
                    "node": i + shift,
                    "order": k,
                    "worker": k % 2,
                    "t0": k * 10,
                    "t1": k * 10 + rng.choice([0, 9]),
                    "contributions": 1,
                    "looking": 2,
                    "flops": rng.choice([None, 2**62]),
                    **_gradient(rng),
                    "sent": [
                        {
                            "producer": max(i - 1, 0) + shift,
                            "output": 0,
                            "slot": 0,
                            "bytes": 4,
                            **_gradient(rng),
                        }
                    ]
                    * rng.choice([0, 1, 2]),
                }
                for k, i in enumerate(range(n - 1, -1, -1))
            ],
        }
    return document


# -- event logs ------------------------------------------------------------------------------------


def log(rng: random.Random) -> list[dict[str, Any]]:
    head = {
        "format": "minigrad.events",
        "version": [1, rng.choice([0, 4])],
        **HEADER,
        "pid": 7,
        "base_ns": rng.choice([0, 5, 2**62]),
        "base_unix_ns": rng.choice([0, 10**18]),
        "min_ns": 0,
        "max_events": 100,
        "memory": True,
        "stack": 2,
        "sync": False,
        "device_times": True,
        "schedule": rng.choice([None, {"wait": 1, "warmup": 1, "active": 1, "repeat": 0}]),
    }
    lines: list[dict[str, Any]] = [head]
    defined = [
        ("thread", {"name": "main", "worker": None}),
        ("thread", {"name": "w", "worker": 3}),
        ("stream", {"name": "stream 1"}),
        ("site", site(rng)),
        ("site", site(rng)),
        ("scope", {"name": scope(rng)}),
        ("stack", {"frames": [0, 1]}),
        ("source", {"file": "train.py", "sha256": "0" * 64}),
        (
            "arrays",
            {
                "inputs": [array(rng)],
                "outputs": [array(rng)] * 2,
                "left_out": {"inputs": 1, "outputs": 2, "bytes": 2**62},
            },
        ),
    ]
    counts: dict[str, int] = {}
    for what, fields in defined:
        identity = counts.get(what, 0)
        counts[what] = identity + 1
        lines.append({"kind": "define", "what": what, "id": identity, **fields})
    count, t = 0, rng.choice([10, 2**61])
    nested, live = rng.random() < 0.2, []
    n = size(rng, 10)
    for i in range(n):
        t0, t1 = (
            (t + i, t + 3 * n - i) if nested else (t + 10 * i, t + 10 * i + rng.choice([0, 5, 30]))
        )
        optional = {
            "arrays": 0,
            "scope": 0,
            "site": rng.choice([0, 1]),
            "stack": 0,
            "flops": rng.choice([0, 2**62]),
            "moved": 8,
        }
        kept = {k: v for k, v in optional.items() if rng.random() < 0.6}
        base = {"t0": t0, "t1": t1, "thread": rng.choice([0, 0, 1])}
        kind = rng.choice(
            [
                "forward",
                "forward",
                "backward",
                "pass",
                "device",
                "mark",
                "alloc",
                "alloc",
                "category",
                "release",
                "held",
            ]
        )
        if kind in ("forward", "backward", "pass"):
            count += 1
            lines.append(
                {
                    "kind": kind,
                    "op": rng.choice(OPS),
                    "seq": rng.choice([None, 1, i]),
                    **base,
                    **kept,
                }
            )
        elif kind == "device":
            of = rng.choice(["forward", "backward", "to host"])
            lines.append(
                {"kind": kind, "of": of, "op": "copy", "host": t0, "seq": 1, "stream": 0, **base}
            )
        elif kind == "mark":
            what = rng.choice(
                ["scope", "step", "optimizer", "hook", "communication", "waiting", "rank", "new"]
            )
            name = rng.choice(["1 of 2", "3", "x", "-1 of 0", "9" * 30 + " of 2", "net/0"])
            lines.append({"kind": kind, "what": what, "name": name, **base, "site": 0, "scope": 0})
        elif kind == "alloc":
            fields = {
                "op": rng.choice([None, "mul"]),
                "seq": rng.choice([None, 1]),
                "phase": "forward",
                "category": rng.choice(CATEGORIES),
                "thread": 0,
                **array(rng),
            }
            lines.append({"kind": kind, "id": i, "t": t0, **fields, "site": 0})
            live.append(i)
        elif live and kind == "category":
            category = rng.choice(CATEGORIES)
            lines.append({"kind": kind, "id": live[-1], "t": t0, "category": category})
        elif live:
            used = {"used": t0, "used_forward": t0}
            lines.append({"kind": kind, "id": live.pop(), "t": t0, **used})
    lines.append(
        {
            "kind": "end",
            "events": count,
            "dropped": 0,
            "untracked": 1,
            "marks": 2,
            "steps": 3,
            "wall_ns": rng.choice([0, 10**9]),
            "writing_ns": 5,
            "recording_ns": 7,
        }
    )
    return lines


# -- comparisons of engines ------------------------------------------------------------------------


def comparison(rng: random.Random) -> dict[str, Any]:
    bars = [
        {
            "lane": i % 3,
            "op": rng.choice(OPS),
            "node": i,
            "start": i * 0.1,
            "end": i * 0.1 + 0.05,
            "critical": rng.random() < 0.5,
        }
        for i in range(size(rng))
    ]
    run = {"name": "parallel", "workers": 2, "length": 1.5, "bars": bars, "losses": {"idle": 0.2}}
    way = {
        "name": "serial",
        "median": 0.1,
        "quartiles": [0.1, 0.2],
        "same_bits": True,
        "largest_difference": 0.0,
    }
    return {
        "verdict": "as quick",
        "work": number(rng),
        "span": 1.0,
        "parallelism": 2.0,
        "bounds": {"2": [1.0, 2.0]},
        "ways": [dict(way) for _ in range(size(rng, 2))],
        "runs": [run, {**run, "name": "tape"}],
    }


# -- saved states ----------------------------------------------------------------------------------


def tree(rng: random.Random, names: list[str], depth: int = 3) -> Any:
    """The description of a nested state whose arrays have these names (minigrad/io/tree.py)."""
    kind = rng.choice(["array", "array", "float", "plain", "list", "tuple", "dict", "dict"])
    if kind == "array" and names:
        return {"array": rng.choice(names)}
    if kind == "float":
        return {"float": rng.choice(["nan", "inf", "-inf", "1e400", "x"])}
    if kind in ("list", "tuple") and depth:
        return {kind: [tree(rng, names, depth - 1) for _ in range(size(rng, 2))]}
    if kind == "dict" and depth:
        return {"dict": [[f"k{i}", tree(rng, names, depth - 1)] for i in range(size(rng, 2))]}
    return rng.choice([1, 2.5, "text", None, True, 10**300])


def description(rng: random.Random, names: list[str]) -> dict[str, Any]:
    return {"version": [1, 0], "tree": {"dict": [["a", tree(rng, names)], ["b", tree(rng, names)]]}}


def header(rng: random.Random) -> tuple[dict[str, Any], int]:
    """A safetensors header, and how many bytes of data it speaks of."""
    document: dict[str, Any] = {}
    at, widths = 0, {"F32": 4, "F64": 8, "BF16": 2, "BOOL": 1, "I64": 8, "C64": 8, "U8": 1}
    for i in range(size(rng, 3)):
        dtype = rng.choice(list(widths))
        extents = [rng.choice([0, 1, 2, 3]) for _ in range(rng.choice([0, 1, 2]))]
        length = widths[dtype]
        for extent in extents:
            length *= extent
        name = rng.choice(["w", "é", "a.b", "\0"]) + str(i)
        document[name] = {"dtype": dtype, "shape": extents, "data_offsets": [at, at + length]}
        at += length
    return document, at
