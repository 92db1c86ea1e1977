"""vmap over the reductions, shape and index ops is the loop, in values and gradients."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import vmap
from minigrad.testing.case import Context
from minigrad.testing.function import as_array, results
from minigrad.testing.run import load_samples
from minigrad.testing.spec import specs

load_samples()
FAMILIES = {"reduce", "shape", "broadcasting", "index"}
# how many elements the result has differs from example to example, or vmap has no form for it
WITHOUT = {"argwhere", "nonzero", "flatnonzero", "unique", "unique_all"}
# the index is a static parameter of these, the same for all examples
FIXED_INDEX = {
    "index_put", "masked_select", "index_add", "scatter", "scatter_add", "compress", "delete",
    "extract", "index_copy", "index_fill", "index_reduce", "insert", "masked_scatter",
    "scatter_reduce",
}  # fmt: skip
NAMES = sorted(
    spec.name
    for spec in specs.values()
    if FAMILIES & set(spec.module.split(".")) and spec.name not in WITHOUT
)


def batches(name, args):
    """Sets of arguments to batch: the floating ones, each alone, and all with the indices."""
    floating = [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    arrays = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]
    chosen = [floating, *[[i] for i in floating if len(floating) > 1]]
    if arrays != floating and name not in FIXED_INDEX:
        chosen += [arrays, [i for i in arrays if i not in floating]]
    return [positions for positions in chosen if positions]


def three_of(x):
    """Three examples: x and two rearrangements of its values."""
    return np.stack([x, np.flip(x), np.roll(x, 1)])


def called(spec, sample, positions, xs):
    args = list(sample.args)
    for position, x in zip(positions, xs, strict=True):
        args[position] = x
    return tuple(results(spec.call(*args, **sample.params)))


def leaves(arrays):
    return [mg.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]


@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_the_loop(name):
    spec, compared = specs[name], 0
    for sample in Context().samples(spec, "float64"):
        for positions in batches(name, sample.args):
            stacked = [three_of(sample.args[i]) for i in positions]
            compared += compare(spec, sample, positions, stacked)
    assert compared


def compare(spec, sample, positions, stacked):
    """Values and gradients of the batch against those of each example."""
    rng = np.random.default_rng(0)
    whole = leaves(stacked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no op here runs once for each example
        warnings.simplefilter("ignore", RuntimeWarning)
        ys = vmap(lambda *xs: called(spec, sample, positions, xs))(*whole)
    ws = [rng.standard_normal(y.shape) for y in ys]
    gs = pulled(ys, whole, ws)
    for k in range(3):
        singles = leaves([x[k] for x in stacked])
        expected = called(spec, sample, positions, singles)
        for y, one in zip(ys, expected, strict=True):
            np.testing.assert_allclose(y.numpy()[k], as_array(one), rtol=1e-12)
        for g, one in zip(gs, pulled(expected, singles, [w[k] for w in ws]), strict=True):
            np.testing.assert_allclose(g.numpy()[k], one.numpy(), rtol=1e-10, atol=1e-13)
    return len(ys)


def pulled(ys, xs, ws):
    pairs = [(y, w) for y, w in zip(ys, ws, strict=True) if getattr(y, "requires_grad", False)]
    xs = [x for x in xs if x.requires_grad]
    if not pairs:
        return []
    return mg.grad([y for y, _ in pairs], xs, [w for _, w in pairs])
