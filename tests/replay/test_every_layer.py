"""Every layer of mg.nn in a compiled step on the host: one program, unless it looks at numbers."""

import importlib.util
import pathlib

import numpy as np
import pytest

import minigrad as mg

spec = importlib.util.spec_from_file_location(
    "layers_of_tests", pathlib.Path(__file__).parents[1] / "cuda" / "test_modules.py"
)  # the tests are no package
layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layers)

# What these do depends on the numbers: a check of them, or another way where squares overflow.
LOOKING = set(
    "AdaptiveLogSoftmaxWithLoss BCELoss CosineEmbeddingLoss CosineSimilarity GaussianNLLLoss "
    "LocalResponseNorm LPPool1d LPPool2d LPPool3d".split()
)
MAX_NORM = {"Embedding, options", "EmbeddingBag, weights"}  # writes into its table


def trained(name, decorate):
    """(the gradients of each call, the step) of a layer whose inputs are products with a leaf."""
    make, arrays = layers.LAYERS[name]
    mg.manual_seed(0)
    layer, w = make(), mg.ones(1).detach().requires_grad_()
    given = [mg.tensor(x) for x in arrays]

    def step():
        layer.zero_grad()
        w.grad = None
        made = layer(*[x * w if x.dtype.kind == "f" else x for x in given])
        made = [y for y in mg.func.tree_leaves(made) if isinstance(y, mg.Tensor)]
        loss = sum(y.sum() for y in made if y.requires_grad)
        loss.backward()
        return loss

    step, found = decorate(step), []
    for _ in range(4):
        loss = step()
        leaves = [loss.detach(), w.grad, *[p.grad for p in layer.parameters()]]
        found.append([None if g is None else g.numpy().copy() for g in leaves])
    return found, step


@pytest.mark.parametrize("name", layers.LAYERS)
def test_a_compiled_layer_gives_the_bits_of_the_plain_one(name):
    expected, _ = trained(name, lambda fn: fn)
    found, step = trained(name, mg.compile)
    # With dropout the numbers of a call choose between two ways to sum, of which a program has one.
    off = 1e-12 if name.startswith("Transformer") else 0
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=0, atol=off)
    (store,) = step.stores.values()
    assert store.replays or name.partition(",")[0] in LOOKING or name in MAX_NORM
