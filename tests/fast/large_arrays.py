"""Samples of elementwise ops made larger, for what works in blocks."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.custom.variants import listed
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op as registry
from minigrad.testing import samples  # noqa: F401
from minigrad.testing.spec import specs

ELEMENTWISE = sorted(
    name
    for name in specs
    if isinstance(getattr(registry, name, None), Primitive)
    and getattr(registry, name).kind == "elementwise"
)


def enlarged(op, args):
    """The arrays of a sample made larger, 7 rows of 30 or more; None where shapes differ.

    Those that the op has a rule for need a gradient.
    """
    arrays = [x for x in args if np.ndim(x)]
    if len({x.shape for x in arrays}) != 1 or not arrays[0].size:
        return None
    flat = [np.resize(x.reshape(-1), (7, 30 + x.size)) if np.ndim(x) else x for x in args]
    return [
        mg.tensor(x, requires_grad=name in op.rules and x.dtype.kind in "fc") if np.ndim(x) else x
        for name, x in zip(op.arrays, flat, strict=False)
    ]


def enlarged_sample(name, dtype):
    """(arguments, parameters) of a sample that can be made larger."""
    for sample in specs[name].samples(np.random.default_rng(1), np.dtype(dtype)):
        args = enlarged(getattr(registry, name), sample.args)
        if args is not None:
            return args, sample.params
    pytest.skip("its samples are of several shapes or dtypes")


def let_blocks_take(size, monkeypatch):
    """Let ufuncs of arrays of this size or more run in blocks, where an op's general runs."""
    for op in registry:
        for variant in listed(op):
            if variant.name == "blocks" and hasattr(op.forward, "least"):
                monkeypatch.setattr(variant, "least", size)
                monkeypatch.setattr(op.forward, "least", size)
