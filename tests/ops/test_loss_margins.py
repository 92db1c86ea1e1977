"""Losses of margins under vmap: targets of each example's own."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, jvp, vmap

RNG = np.random.default_rng(0)
X = mg.tensor(RNG.standard_normal((3, 2, 4)))
LABELS = [
    [[1, 3, -1, 0], [0, -1, 2, 2]],
    [[2, -1, 0, 0], [0, 1, 2, 3]],
    [[-1, 2, 2, 2], [3, 0, 1, -1]],
]
LOSSES = {
    "multi_margin": (mg.multi_margin, mg.tensor([[1, 0], [3, 3], [2, 0]])),
    "multi_margin squared": (
        lambda x, t: mg.multi_margin(x, t, p=2, weight=mg.tensor([1.0, 2.0, 3.0, 4.0])),
        mg.tensor([[1, 0], [3, 3], [2, 0]]),
    ),
    "multilabel_margin": (mg.multilabel_margin, mg.tensor(LABELS)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_each_example_may_have_targets_of_its_own(name):
    loss, targets = LOSSES[name]
    along = lambda x, t: jvp(lambda x: loss(x, t), (x,), (x,))[1]
    for f in (loss, grad(loss), along):
        alone = [f(x, t) for x, t in zip(X, targets, strict=True)]
        np.testing.assert_allclose(vmap(f)(X, targets), mg.stack(alone), rtol=1e-12)
        of_one = [f(X[0], t) for t in targets]
        np.testing.assert_allclose(vmap(f, (None, 0))(X[0], targets), mg.stack(of_one), rtol=1e-12)
    rows = vmap(vmap(loss))(X[:, :, None], targets.reshape(3, 2, 1, *targets.shape[2:]))
    assert rows.shape == (3, 2)
    np.testing.assert_allclose(rows.mean(axis=1), vmap(loss)(X, targets), rtol=1e-12)


@pytest.mark.parametrize(
    ("target", "weight", "said"),
    [
        (np.ones((2, 1), int), None, r"target must be 2 class indices .* got int64 \(2, 1\)"),
        (np.ones((0, 2), int), None, r"target must be 2 class indices .* got int64 \(0, 2\)"),
        (np.ones(2, int), np.ones(4), r"weight must have shape \(3,\), got \(4,\)"),
    ],
)
def test_a_target_or_weight_of_another_shape_is_refused(target, weight, said):
    with pytest.raises(ValueError, match=f"multi_margin: {said}"):
        mg.multi_margin(mg.ones(2, 3), target, weight=weight)
