"""Draw a program line by line, at values where each line is smooth: away from kinks and poles.

Each line runs as soon as it is drawn: the next one then knows shapes and values.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import minigrad as mg

from .helpers import names
from .lines import LINES, Chosen, Operands
from .program import Leaf, Line, Program

SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 1), (1, 3), (3, 3), (2, 1, 3), (2, 3, 4), (4, 4)]
RANGES = [(0.5, 1.5), (-1.5, -0.5), (-1.0, 1.0), (0.1, 0.9)]
DTYPES = ["float64"] * 4 + ["float32"] * 2
_LARGEST = 6.0  # of a value: products of larger ones would magnify rounding
_ELEMENTS = 96
# One program in 47 is large: there ops run in blocks, and other threads take a share of the work.
# 47 is prime, so all ways of SELDOM meet a large one.
_LARGE_SHAPES = [(36000,), (3, 12000), (12000, 3), (1, 12000), (3, 1), ()]
_LARGE_ELEMENTS = 40000
_SQUARES = ("outer", "diag", "einsum", "@", "inv")  # whose results would have that many squared
_TRIES = 12


def draw(seed: int, number: int) -> Program:
    """The program of this number of a seed."""
    rng = np.random.default_rng([seed, number])
    dtype = str(rng.choice(DTYPES))
    mixed, is_complex = rng.random() < 0.1, rng.random() < 0.35
    large = number % 47 == 46
    shapes, most = (_LARGE_SHAPES, _LARGE_ELEMENTS) if large else (SHAPES, _ELEMENTS)
    leaves = []
    for i in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(["float32", "float64"])) if mixed else dtype
        if is_complex and rng.random() < 0.6:
            kind = {"float32": "complex64", "float64": "complex128"}[kind]
        low, high = RANGES[int(rng.integers(len(RANGES)))]
        shape = shapes[int(rng.integers(len(shapes)))]
        leaves.append(Leaf(f"x{i}", shape, kind, low, high, int(rng.integers(1000))))
    space = names() | {leaf.name: mg.tensor(leaf.value) for leaf in leaves}
    values = {leaf.name: leaf.value for leaf in leaves}
    lines: list[Line] = []
    with mg.no_grad():
        for _ in range(int(rng.integers(2, 15))):
            line = _drawn_line(rng, values, space, len(lines), most)
            if line is not None:
                lines.append(line)
            if line is not None and line.sets[0] not in values:
                break  # it raises: the program ends with this line, and reveals the error
    made = [name for line in lines for name in line.sets] or [leaves[0].name]
    unread = set(made).difference(*[line.reads for line in lines]) - {made[-1]}
    some = [*rng.permutation(sorted(unread))[:2], *rng.choice(made, int(rng.integers(0, 2)))]
    outputs = tuple(dict.fromkeys([made[-1], *map(str, some)]))
    program = Program(tuple(leaves), tuple(lines), outputs, f"--seed {seed}, {number}")
    return program.without_unused()


def _drawn_line(rng: Any, values: dict, space: dict, number: int, most: int) -> Line | None:
    for _ in range(_TRIES):
        make: Callable = LINES[int(rng.integers(len(LINES)))]
        chosen: Chosen | None = make(Operands(rng, values))
        if chosen is None or (most > _ELEMENTS and any(word in chosen.form for word in _SQUARES)):
            continue
        sets = tuple(
            f"t{number}{'abc'[i] if chosen.count > 1 else ''}" for i in range(chosen.count)
        )
        line = Line(sets, chosen.reads, chosen.form)
        before = {name: values[name] for name in chosen.reads}
        try:
            with np.errstate(all="ignore"):
                exec(line.source, space)
        except Exception:
            return line
        found = {name: space[name].data for name in sets}
        if all(_usable(x, most) for x in found.values()):
            values |= found
            return line
        for name in sets:
            space.pop(name, None)
        values |= before
    return None


def _usable(x: Any, most: int) -> bool:
    if x.dtype.kind not in "fc" or not 0 < x.size <= most or x.ndim > 4:
        return False
    return bool(np.isfinite(x).all()) and float(np.abs(x).max()) <= _LARGEST
