"""Repeated parts: a layer called twelve times, a loop of a thousand turns.

Ops in the order in which they were made are a text. A part that occurs in it at least three times
in a row is a repeat. Its first copy stays open, the others share one box that says how many. A run
of that order is convex, so folding it makes no cycle.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from minigrad_viz.graph import Graph, Node

LEAST = 3  # copies
LONGEST = 512  # ops in one copy
_TRIED = 24  # lengths tried at one place


@dataclass(slots=True, eq=False)
class Repeat:
    """`folded` are the positions of all copies but the first; each copy has `length` ops."""

    copies: int
    length: int
    title: str
    folded: list[int]


def find_repeats(graph: Graph) -> list[Repeat]:
    """The repeats of a graph, none overlapping another, in the order of creation."""
    ops = [at for at, node in enumerate(graph.nodes) if node.kind == "op"]
    ops.sort(key=lambda at: graph.nodes[at].seq)
    words: dict[tuple, int] = {}
    text = [words.setdefault(_word(graph.nodes[at]), len(words)) for at in ops]
    later: dict[int, list[int]] = defaultdict(list)
    for place, word in enumerate(text):
        later[word].append(place)
    repeats, place = [], 0
    turn = dict.fromkeys(later, 0)  # how many occurrences lie before `place`
    while place < len(text):
        length, copies = _best(text, place, later[text[place]], turn[text[place]])
        covered = length * copies if copies >= LEAST else 1
        if covered > 1:
            repeats.append(_repeat(graph, ops, place, length, copies))
        for word in text[place : place + covered]:
            turn[word] += 1
        place += covered
    return repeats


def _word(node: Node) -> tuple:
    """What two nodes have in common that do the same: numbers in a scope's name do not count."""
    scope = re.sub(r"\d+", "*", node.scope)
    line = (node.site.file, node.site.line) if node.site else ()
    return node.op, scope, line, tuple(array.shape for array in node.outputs)


def _best(text: list[int], place: int, places: list[int], turn: int) -> tuple[int, int]:
    """(length, copies) of the repeat that covers most from `place` on; the shortest of equals."""
    best = (1, 1)
    for other in places[turn + 1 : turn + 1 + _TRIED]:
        length = other - place
        if length > LONGEST:
            break
        copies = _copies(text, place, length)
        if copies >= LEAST and length * copies > best[0] * best[1]:
            best = (length, copies)
    return best


def _copies(text: list[int], place: int, length: int) -> int:
    end = place + length
    while end < len(text) and text[end] == text[end - length]:
        end += 1
    return (end - place) // length


def _repeat(graph: Graph, ops: list[int], place: int, length: int, copies: int) -> Repeat:
    part = [graph.nodes[at].op for at in ops[place : place + length]]
    title = " ".join(part[:3]) + (" …" if length > 3 else "")
    return Repeat(copies, length, title, ops[place + length : place + length * copies])
