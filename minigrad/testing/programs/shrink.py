"""Shrink a failing program to a few lines that fail in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from .program import Leaf, Program, values_of

_MOST = 600  # programs to try


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found that also fails, by one change after another."""
    tried, seen = 0, {program.source}
    found = True
    while found and tried < _MOST:
        found = False
        for smaller in _smaller(program):
            key = smaller.source + repr(smaller.leaves)
            if key in seen or smaller.size >= program.size:
                continue
            seen.add(key)
            tried += 1
            if fails(smaller):
                program, found = smaller, True
                break
            if tried >= _MOST:
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that are simpler by one step, the largest steps first."""
    try:
        values = values_of(program)
    except Exception:  # a program that fails by raising: its values may not exist
        values = {leaf.name: leaf.value for leaf in program.leaves}
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield replace(program, outputs=(name,)).without_unused()
        for i in range(len(program.outputs)):
            rest = program.outputs[:i] + program.outputs[i + 1 :]
            yield replace(program, outputs=rest).without_unused()
    # an inner value as the output
    for line in program.lines:
        for name in line.sets:
            if name not in program.outputs:
                yield replace(program, outputs=(name,)).without_unused()
    # an inner value as a new leaf, or another value of the same kind instead
    for i, line in enumerate(program.lines):
        for name in line.sets:
            if name not in values:
                continue
            yield _as_leaf(program, name, values[name])
            for other in [*[leaf.name for leaf in program.leaves],
                          *[n for earlier in program.lines[:i] for n in earlier.sets]]:  # fmt: skip
                if other in values and _alike(values[other], values[name]):
                    yield program.with_name_for(name, other).without_unused()
    # fewer leaves
    for leaf in program.leaves:
        for other in program.leaves:
            if other is not leaf and _alike(leaf.value, other.value):
                yield program.with_name_for(leaf.name, other.name).without_unused()
    # smaller leaves: an axis of one length, everywhere
    for n in sorted({n for leaf in program.leaves for n in leaf.shape if n > 1}, reverse=True):
        for m in (1, 2):
            if m < n:
                yield _with_leaves(program, lambda shape, n=n, m=m: tuple(
                    m if k == n else k for k in shape))  # fmt: skip
    for i, leaf in enumerate(program.leaves):
        for shape in [(), leaf.shape[1:], leaf.shape[:-1], (1,), (2,)]:
            if np.prod(shape) < leaf.value.size or len(shape) < len(leaf.shape):
                leaves = [*program.leaves]
                leaves[i] = replace(leaf, shape=shape)
                yield replace(program, leaves=tuple(leaves))
    yield _with_leaves(program, lambda shape: shape[1:])
    yield _with_leaves(program, lambda shape: ())
    for i, leaf in enumerate(program.leaves):
        if leaf.seed:
            leaves = [*program.leaves]
            leaves[i] = replace(leaf, seed=0)
            yield replace(program, leaves=tuple(leaves))


def _with_leaves(program: Program, shape_of: Callable[[tuple], tuple]) -> Program:
    leaves = [replace(leaf, shape=shape_of(leaf.shape)) for leaf in program.leaves]
    return replace(program, leaves=tuple(leaves))


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _as_leaf(program: Program, name: str, value: np.ndarray) -> Program:
    """The program with a leaf of the same shape instead of the line that sets `name`."""
    used = {int(leaf.name[1:]) for leaf in program.leaves}
    new = f"x{min(set(range(100)) - used)}"
    real = bool(value.dtype.kind != "c" and (value < 0).any())
    low, high = (-1.5, -0.5) if real and (value < 0).all() else (0.5, 1.5)
    leaf = Leaf(new, value.shape, str(value.dtype), low, high, 1 + max(used))
    program = replace(program, leaves=(*program.leaves, leaf))
    return program.with_name_for(name, new).without_unused()
