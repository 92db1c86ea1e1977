"""What may be wrong with a document: values of a wrong kind, links to nowhere, damaged bytes."""

import copy
import json
import random
from typing import Any

_RAW = {
    "@1e400@": "1e400",
    "@nan@": "NaN",
    "@inf@": "-Infinity",
    "@digits@": "9" * 5000,
    "@lists@": "[" * 900 + "]" * 900,
    "@objects@": '{"a":' * 900 + "1" + "}" * 900,
    "@abyss@": "[" * 50_000 + "]" * 50_000,
}  # JSON that Python's writer does not write
VALUES = [
    None, True, False, 0, 1, -1, 0.5, -0.0, 7, 255, 2**31, 2**53, 2**62, 2**63 - 1, 2**63,
    -(2**63), 2**64, 10**30, 10**308, 10**309, 10**400, 1e308, 5e-324, "", "0", "nan", "x", "\0",
    "\x1b[31mred", "\r\n\t\x07", "\ud800", "\udfff\ud800", "\u202e\u2066\ufeff", "é" * 300,
    "a" * 70_000, "a/" * 3000, "</script><script>alert(1)</script>", "../../../etc/passwd",
    "{0.__class__}", "%n%s", [], {}, [[]], [None], [0] * 70, [-1, 2**63], [1] * 5000, {"a": {}},
    {"": 0}, {"__class__": "os"}, *_RAW,
]  # fmt: skip


class Repeated(dict):
    """An object whose last member stands in the text twice."""

    def items(self):
        pairs = list(super().items())
        return pairs + pairs[-1:]


def text_of(document: Any) -> str:
    text = json.dumps(document)
    for token, raw in _RAW.items():
        text = text.replace(f'"{token}"', raw)
    return text


def places(document: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside."""
    found, left = [], [document]
    while left:
        here = left.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here))
        found += [(here, key) for key in keys]
        left += [here[key] for key in keys if isinstance(here[key], dict | list) and here[key]]
    return found


def mutated(rng: random.Random, document: Any) -> Any:
    """The document with one to three faults, each in a place drawn at random."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        every = places(document)
        if not every:
            return document
        here, key = rng.choice(every)
        kind = rng.choice("replace replace replace replace other take put many swap twice".split())
        if kind == "replace":
            here[key] = copy.deepcopy(rng.choice(VALUES))
        elif kind == "other":  # the right kind in the wrong place: ids to nowhere, cycles, doubles
            there, other = rng.choice(every)
            here[key] = copy.deepcopy(there[other])
        elif kind == "take":
            del here[key]
        elif kind == "put" and isinstance(here, dict):
            here[rng.choice(["", "id", "kind", "\ud800", "a" * 2000])] = rng.choice(VALUES[:20])
        elif kind == "many" and isinstance(here, list):
            here[key:key] = [copy.deepcopy(here[key]) for _ in range(rng.choice([1, 2, 60]))]
        elif kind == "swap" and isinstance(here, list):
            rng.shuffle(here)
        elif kind == "twice" and isinstance(here[key], dict) and here[key]:
            here[key] = Repeated(here[key])
    return document


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes, cut, changed, moved or padded."""
    content = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, length = rng.randrange(len(content) + 1), rng.choice([1, 2, 8, 64, 1000])
        part = content[at : at + length]
        kind = rng.choice("flip flip flip cut take twice zeros noise huge".split())
        if kind == "flip" and part:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del content[at:]
        elif kind == "take":
            del content[at : at + length]
        elif kind == "twice":
            content[at:at] = part
        elif kind == "zeros":
            content[at : at + length] = bytes(len(part))
        elif kind == "noise":
            content[at : at + length] = rng.randbytes(len(part))
        elif kind == "huge":
            content[at : at + 8] = rng.choice(
                [b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 7 + b"\x7f"]
            )
    return bytes(content)


def written(rng: random.Random, document: Any, lines: bool = False) -> bytes:
    """The text of a document with faults in its structure, in its bytes, or with none."""
    fate = rng.random()
    if fate < 0.75:
        document = mutated(rng, document)
    if not lines:
        data = text_of(document).encode()
    else:
        data = b"".join(text_of(line).encode() + b"\n" for line in document)
    return damaged(rng, data) if fate > 0.9 or 0.7 < fate < 0.75 else data
