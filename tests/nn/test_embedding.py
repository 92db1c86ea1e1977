"""Embeddings and bags of them: PyTorch's values and gradients."""

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn

rng = np.random.default_rng(0)


def pair(name, *args, **options):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = getattr(torch.nn, name)(*args, **options, dtype=torch.float64)
    ours = getattr(nn, name)(*args, **options, dtype=np.float64)
    ours.load_state_dict({path: p.detach().numpy() for path, p in theirs.state_dict().items()})
    return ours, theirs, torch


def check(ours, theirs, torch, *inputs, **options):
    y = ours(*[mg.tensor(x) for x in inputs], **options)
    z = theirs(
        *[torch.tensor(x) for x in inputs], **{k: torch.tensor(v) for k, v in options.items()}
    )
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-12)
    g = rng.standard_normal(y.shape)
    y.backward(mg.tensor(g)), z.backward(torch.tensor(g))
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(ours.weight.data, theirs.weight.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"padding_idx": 1}, {"padding_idx": -1}, {"max_norm": 1.0}]
)
def test_rows_and_gradients_equal_pytorchs(options):
    check(*pair("Embedding", 5, 3, **options), np.array([[1, 4, 1], [0, 2, 2]]))


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"max_norm": 1.0}])
def test_gradients_scaled_by_frequency_equal_pytorchs(options):
    made = pair("Embedding", 5, 3, **options, scale_grad_by_freq=True)
    check(*made, np.array([[1, 4, 1], [0, 2, 2]]))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}])
def test_the_frequency_in_bags_is_that_of_all_indices(mode, options):
    # not compared with PyTorch, which divides some rows by the count of another one
    indices, offsets = np.array([1, 2, 5, 0, 3, 1, 1]), np.array([0, 2, 2, 3])
    grads = []
    for scaled in (False, True):
        weight = mg.ones(6, 3, requires_grad=True)
        y = F.embedding_bag(
            indices, weight, offsets, mode=mode, scale_grad_by_freq=scaled, **options
        )
        (y**2).sum().backward()
        grads.append(weight.grad.numpy())
    np.testing.assert_allclose(grads[1] * [[1], [3], [1], [1], [1], [1]], grads[0], rtol=1e-12)


def test_scaled_gradients_count_each_example_of_a_batch_alone():
    def loss(weight, indices):
        return F.embedding(indices, weight, scale_grad_by_freq=True).sum()

    grads = mg.func.vmap(mg.func.grad(loss), (None, 0))(mg.ones(3, 1), mg.tensor([[0, 0], [0, 1]]))
    assert grads[..., 0].tolist() == [[1, 0, 0], [1, 1, 0]]


def test_sparse_changes_nothing():
    made = pair("Embedding", 5, 3)
    check(
        nn.Embedding.from_pretrained(made[0].weight.copy(), False, sparse=True), *made[1:], [1, 1]
    )
    assert nn.EmbeddingBag(4, 3, sparse=True)(mg.tensor([[0, 1]])).shape == (1, 3)


def test_functional_tables_draw_no_random_numbers():
    state = mg.get_rng_state()
    F.embedding_bag(mg.tensor([[0, 1]]), mg.ones(4, 3))
    assert mg.get_rng_state() == state


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}])
def test_bags_equal_pytorchs(mode, options):
    made = pair("EmbeddingBag", 6, 3, mode=mode, **options)
    check(*made, np.array([[1, 2, 5], [0, 2, 2]]))
    made = pair("EmbeddingBag", 6, 3, mode=mode, **options)
    check(*made, np.array([1, 2, 5, 0, 3]), np.array([0, 2, 2, 3]))


def test_weighted_bags_equal_pytorchs():
    made = pair("EmbeddingBag", 6, 3, mode="sum", include_last_offset=True)
    indices, offsets = np.array([1, 2, 5, 0]), np.array([0, 1, 4])
    check(*made, indices, offsets, per_sample_weights=rng.random(4))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 0}])
def test_the_last_bag_ends_at_the_last_offset_in_every_mode(mode, options):
    table = mg.tensor([[0.0], [1.0], [2.0], [3.0]])
    bags = nn.EmbeddingBag(4, 1, mode=mode, include_last_offset=True, _weight=table, **options)
    assert bags(mg.tensor([1, 2, 3]), mg.tensor([0, 1, 2])).tolist() == [[1], [2]]
    assert bags(mg.tensor([1, 2, 3]), mg.tensor([0, 1, 1])).tolist() == [[1], [0]]


def test_weighted_bags_that_are_all_empty_are_zeros():
    bags = nn.EmbeddingBag(4, 3, mode="sum")
    y = bags(mg.zeros(0, dtype=int), mg.tensor([0, 0]), per_sample_weights=mg.zeros(0))
    assert y.tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize(("indices", "error"), [([9], IndexError), ([0.5], TypeError)])
def test_wrong_indices_are_told_alike_with_a_largest_norm(indices, error):
    told = []
    for max_norm in (None, 1.0):
        with pytest.raises(error, match=r"take\(x: float32 \(4, 3\)") as caught:
            nn.Embedding(4, 3, max_norm=max_norm)(mg.tensor(indices))
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_a_given_table_takes_the_options_of_its_class():
    table = mg.tensor([[3.0, 4.0], [0.0, 1.0]])
    layer = nn.Embedding.from_pretrained(table.copy(), max_norm=1.0)
    np.testing.assert_allclose(layer(mg.tensor([0])).tolist(), [[0.6, 0.8]], rtol=1e-6)
    bags = nn.EmbeddingBag.from_pretrained(table, mode="sum")
    assert bags(mg.tensor([[0, 1]])).tolist() == [[3, 5]]


def test_the_row_for_padding_starts_at_zero():
    assert not nn.Embedding(4, 3, padding_idx=-1).weight.data[3].any()


def test_a_given_table_is_frozen_unless_told_otherwise():
    table = mg.tensor([[1.0, 2], [3, 4]])
    layer = nn.Embedding.from_pretrained(table)
    assert layer(mg.tensor([1])).tolist() == [[3, 4]] and not layer.weight.requires_grad
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Embedding(4, 3, padding_idx=4), "padding_idx=4 is not a row of a table of 4"),
        (lambda: mg.embedding([0], mg.ones(4, 3), 7), "padding_idx=7 is not a row of weight"),
        (lambda: nn.EmbeddingBag(4, 3, mode="min"), "'sum', 'mean' or 'max', got 'min'"),
        (
            lambda: nn.EmbeddingBag(4, 3, scale_grad_by_freq=True, mode="max"),
            "scale_grad_by_freq needs mode='sum' or 'mean'",
        ),
        (lambda: nn.EmbeddingBag(4, 3)(mg.tensor([1, 2])), "with offsets"),
        (lambda: nn.EmbeddingBag(4, 3)(mg.tensor([1, 2]), mg.tensor([1])), "start at 0"),
        (
            lambda: nn.EmbeddingBag(4, 3, include_last_offset=True)(
                mg.tensor([1, 2]), mg.tensor([0, 3])
            ),
            r"end within the 2 indices, got \[0, 3\]",
        ),
        (
            lambda: nn.EmbeddingBag(4, 3, include_last_offset=True)(
                mg.tensor([1, 2]), mg.zeros(0, dtype=int)
            ),
            r"offsets are \(bags \+ 1,\), one at least",
        ),
        (
            lambda: nn.EmbeddingBag(4, 3, mode="sum")(
                mg.tensor([[1, 2]]), per_sample_weights=mg.ones(3)
            ),
            r"indices' shape \(1, 2\), got float64 \(3,\)",
        ),
        (
            lambda: nn.Embedding(4, 3, _weight=mg.ones(5, 3)),
            r"a table \(4, 3\) is wanted, the one given is float64 \(5, 3\)",
        ),
        (lambda: nn.Embedding.from_pretrained(mg.ones(5)), "a table has two axes"),
    ],
)
def test_wrong_calls_say_what_is_needed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_bags_rows_are_divided_by_their_own_counts_in_any_order_of_indices():
    bag = nn.EmbeddingBag(4, 1, mode="sum", scale_grad_by_freq=True)
    bag(mg.tensor([2, 0, 2, 3]), mg.tensor([0, 1])).sum().backward()
    assert bag.weight.grad.tolist() == [[1], [0], [1], [1]]


def test_a_table_shows_the_options_it_was_given():
    shown = repr(nn.Embedding(3, 2, 1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True))
    assert shown == (
        "Embedding(3, 2, padding_idx=1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True)"
    )
    assert repr(nn.Embedding(3, 2)) == "Embedding(3, 2)"


def test_a_table_for_bags_has_rows():
    with pytest.raises(ValueError, match=r"embedding_bag: weight must be \(rows, width\), got"):
        F.embedding_bag(mg.tensor([1, 2]), mg.ones(5), mg.tensor([0]))


def test_rows_whose_squares_overflow_float16_are_cut_and_not_zeroed():
    table = mg.full((3, 16), 100.0, dtype="float16")  # a norm of 400, a sum of squares of 160,000
    rows = nn.Embedding(3, 16, max_norm=1.0, _weight=table)(np.array([0]))
    np.testing.assert_allclose(rows.detach().numpy(), 0.25, rtol=1e-3)


def test_a_given_table_may_be_a_list():
    assert nn.Embedding.from_pretrained([[1.0, 2.0]])(np.array([0])).tolist() == [[1, 2]]
