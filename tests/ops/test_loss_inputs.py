"""Losses of inputs that are not the usual floats: complex ones, integers, 16 bits, numbers."""

import numpy as np
import pytest

import minigrad as mg

REDUCTIONS = ["mean", "sum", "none"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["mse", "huber", "bce", "bce_with_logits", "kl_div", "poisson_nll",
                                  "soft_margin"])  # fmt: skip
def test_losses_that_would_be_complex_are_refused(name, reduction):
    with pytest.raises(TypeError, match=f"{name}: a loss is a real number, and of these .*complex"):
        getattr(mg, name)(mg.tensor([0.5 + 0j]), mg.tensor([1 + 0j]), reduction=reduction)
    if name == "kl_div":
        with pytest.raises(TypeError, match="a loss is a real number"):
            mg.kl_div(mg.tensor([0.5 + 0j]), mg.tensor([1 + 0j]), reduction="batchmean")


def test_a_weighted_mean_of_complex_losses_is_refused():
    with pytest.raises(TypeError, match="mse: a loss is a real number"):
        mg.mse(mg.tensor([1 + 2j]), mg.tensor([2 + 0j]), weight=[1.0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool, np.int64])
@pytest.mark.parametrize("loss", [mg.l1, mg.mse, mg.huber])
def test_differences_of_integers_do_not_wrap_round(loss, dtype):
    x, target = np.array([1, 0, 100], dtype), np.array([3, 1, -100]).astype(dtype)
    expected = loss(x.astype(float), target.astype(float), reduction="none")
    np.testing.assert_array_equal(loss(x, target, reduction="none"), expected)


def test_an_unknown_reduction_of_kl_div_is_answered_with_all_that_it_has():
    with pytest.raises(ValueError, match="kl_div: reduction must be .*, 'none' or 'batchmean'"):
        mg.kl_div(mg.tensor([0.5]), mg.tensor([0.5]), reduction="total")


def test_a_variance_that_is_a_number_of_pythons_widens_no_loss():
    x = np.ones(3, np.float32)
    assert mg.gaussian_nll(x, x, 0.5).dtype == np.float32


@pytest.mark.parametrize("target", [np.float16, np.int64])
def test_the_poisson_loss_of_a_float16_rate_of_0_is_finite(target):
    x, target = np.zeros(1, np.float16), np.ones(1, target)
    y = mg.poisson_nll(x, target, log_input=False)
    np.testing.assert_allclose(y, -np.log(1e-8), rtol=1e-3)


@pytest.mark.parametrize(
    "loss", [mg.multilabel_soft_margin, lambda x, target: mg.gaussian_nll(x, target, 1.0)]
)
def test_other_losses_that_would_be_complex_are_refused(loss):
    with pytest.raises(TypeError, match="a loss is a real number, and of these .*complex"):
        loss(mg.tensor([1 + 2j]), mg.tensor([1.0]))


N1, N = mg.ones(4, 1), mg.ones(4)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("gaussian_nll", lambda x, target: mg.gaussian_nll(x, target, 1.0)),
        ("poisson_nll", mg.poisson_nll),
        ("margin_ranking", lambda x, target: mg.margin_ranking(x, target, 1.0)),
        ("HingeEmbeddingLoss", mg.nn.functional.hinge_embedding_loss),
    ],
)
def test_a_column_beside_a_row_is_no_table_of_losses(name, loss):
    for x, target in ((N1, N), (N, N1)):
        with pytest.raises(ValueError, match=f"{name}: .* would broadcast to a loss of each pair"):
            loss(x, target)
    assert loss(mg.tensor(1.0), N).shape == loss(N, mg.tensor(1.0)).shape == ()
