"""vmap over products, convolutions, pooling, losses and calculus is the loop; each op runs once."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.func import vmap
from minigrad.testing.case import Context
from minigrad.testing.run import load_samples
from minigrad.testing.spec import specs

load_samples()
FAMILIES = {
    "matmul",
    "einsum",
    "conv",
    "pool",
    "loss_classes",
    "loss_elements",
    "nan",
    "calculus",
    "statistics",
    "layout",
}
# the bins are those of all values together; the index is a static one
WITHOUT = {
    "histogram", "histogram2d", "histogramdd", "bincount", "bin_sums", "class_targets",
    "smoothed_targets",
}  # fmt: skip
NAMES = sorted(
    spec.name
    for spec in specs.values()
    if spec.module.rpartition(".")[2] in FAMILIES and spec.name not in WITHOUT
)


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def three_of(x):
    """Three examples of x's shape, of which the first is x."""
    return np.stack([x, np.flip(x), x * 0.75])


def called(spec, sample, batched, xs):
    args = list(sample.args)
    for i, x in zip(batched, xs, strict=True):
        args[i] = x
    ys = spec.call(*args, **sample.params)
    return tuple(map(mg.as_tensor, ys if isinstance(ys, tuple) else (ys,)))


def gradients(ys, xs):
    ys = [y for y in ys if y.requires_grad]
    weights = [np.cos(np.arange(y.size)).reshape(y.shape) for y in ys]
    return mg.grad(ys, xs, weights, retain_graph=True, allow_unused=True) if ys else []


def compare(spec, sample, batched):
    stacked = [three_of(sample.args[i]) for i in batched]
    whole = [mg.tensor(x, requires_grad=True) for x in stacked]
    with warnings.catch_warnings(action="error"):
        ys = vmap(lambda *xs: called(spec, sample, batched, xs))(*whole)
    for k in range(3):
        xs = [mg.tensor(x[k], requires_grad=True) for x in stacked]
        expected = called(spec, sample, batched, xs)
        picked = tuple(y[k] for y in ys)
        for y, one in zip(picked, expected, strict=True):
            np.testing.assert_allclose(y.numpy(), one.numpy(), rtol=1e-11, atol=1e-13)
        for g, one in zip(gradients(picked, whole), gradients(expected, xs), strict=True):
            if one is not None:
                np.testing.assert_allclose(g.numpy()[k], one.numpy(), rtol=1e-9, atol=1e-12)


def differentiated(spec, args):
    """The positions of arguments that can carry a gradient."""
    entry = getattr(op, spec.name)
    names = getattr(entry, "arrays", ()) if spec.call is entry else ()
    constants = {i for i, name in enumerate(names) if name in entry.constants}
    return [i for i, x in enumerate(args) if is_float(x) and i not in {*constants, *spec.constants}]


@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_the_loop(name):
    spec = specs[name]
    for sample in Context().samples(spec, "float64"):
        floats = differentiated(spec, sample.args)
        for batched in [floats, *([i] for i in floats if len(floats) > 1)]:
            compare(spec, sample, batched)
