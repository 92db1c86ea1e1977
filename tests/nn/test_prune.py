"""nn.utils.prune: what is pruned is PyTorch's choice, stays pruned, is learned, saved, removed."""

import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn.utils import prune

pytestmark = pytest.mark.promise(
    "computed parameters learn, are saved, copied and removed; pruned ones stay pruned"
)

rng = np.random.default_rng(0)


def layer_of(w):
    layer = nn.Linear(w.shape[1], w.shape[0], bias=False).double()
    layer.weight = nn.Parameter(mg.tensor(w))
    return layer


def steps_of(library, tensor):
    """Ways to prune a weight (6, 5), one after the other."""
    mask, scores = np.arange(30).reshape(6, 5) % 7 != 0, rng.standard_normal((2, 6, 5))
    return [
        lambda m: library.l1_unstructured(m, "weight", 0.2),
        lambda m: library.ln_structured(m, "weight", 1, 2, 0),
        lambda m: library.l1_unstructured(m, "weight", 2, importance_scores=tensor(scores[0])),
        lambda m: library.identity(m, "weight"),
        lambda m: library.custom_from_mask(m, "weight", tensor(mask)),
        lambda m: library.ln_structured(m, "weight", 0.3, np.inf, -1, tensor(scores[1])),
        lambda m: library.global_unstructured(
            [(m, "weight")], library.L1Unstructured, amount=0.5
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("order", [range(7), [1, 0, 5, 2], [5, 1, 0], [4, 6, 3, 2], [6, 0, 1]])
def test_weights_pruned_again_and_again_are_pytorchs_and_so_are_their_states(order):
    torch = pytest.importorskip("torch")
    import torch.nn.utils.prune as theirs

    w = rng.standard_normal((6, 5))
    a, b = layer_of(w), torch.nn.Linear(5, 6, bias=False).double()
    b.weight = torch.nn.Parameter(torch.tensor(w))
    generator = rng.bit_generator.state
    ours_steps = steps_of(prune, mg.tensor)
    rng.bit_generator.state = generator
    their_steps = steps_of(theirs, torch.tensor)
    for i in order:
        ours_steps[i](a)
        their_steps[i](b)
        np.testing.assert_array_equal(a.weight.detach().numpy(), b.weight.detach().numpy())
    assert [*a.state_dict()] == [*b.state_dict()] == ["weight_orig", "weight_mask"]
    a.load_state_dict(b.state_dict())
    prune.remove(a, "weight")
    theirs.remove(b, "weight")
    np.testing.assert_array_equal(a.weight.detach().numpy(), b.weight.detach().numpy())
    assert [*a.state_dict()] == ["weight"] and not prune.is_pruned(a)


def test_several_parameters_are_pruned_as_one_by_their_values_or_by_scores():
    torch = pytest.importorskip("torch")
    import torch.nn.utils.prune as theirs

    weights = [rng.standard_normal(shape) for shape in ((3, 4), (2, 3), (5, 2))]
    scores = rng.random((2, 3)) * 4
    a = [layer_of(w) for w in weights]
    b = [torch.nn.Linear(*w.shape[::-1], bias=False).double() for w in weights]
    for layer, w in zip(b, weights, strict=True):
        layer.weight = torch.nn.Parameter(torch.tensor(w))
    for amount in (0.3, 5):
        for library, layers, tensor in ((prune, a, mg.tensor), (theirs, b, torch.tensor)):
            library.global_unstructured(
                [(layer, "weight") for layer in layers],
                pruning_method=library.L1Unstructured,
                importance_scores={(layers[1], "weight"): tensor(scores)},
                amount=amount,
            )
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x.weight.detach().numpy(), y.weight.detach().numpy())


@pytest.mark.parametrize(("amount", "gone"), [(0, 0), (0.0, 0), (0.25, 5), (7, 7), (1.0, 20)])
def test_an_amount_of_elements_goes_by_chance_and_none_twice(amount, gone):
    layer = prune.random_unstructured(layer_of(rng.random((4, 5)) + 1), "weight", amount)
    assert (layer.weight == 0).sum() == gone
    if gone == 5:
        prune.random_unstructured(layer, "weight", 1)
        assert (layer.weight == 0).sum() == 6


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_slices_that_go_by_chance_go_whole(dim):
    layer = prune.random_structured(layer_of(rng.random((4, 5)) + 1), "weight", 2, dim)
    stays = layer.weight_mask.numpy().any(axis=1 - dim % 2)
    expected = np.expand_dims(stays, 1 - dim % 2) * np.ones((4, 5))
    np.testing.assert_array_equal(layer.weight_mask, expected)
    assert stays.sum() == len(stays) - 2


def test_what_is_pruned_is_not_learned_and_an_optimizer_knows_the_parameter_throughout():
    layer = layer_of(rng.standard_normal((3, 4)))
    known = layer.weight
    step = optim.SGD(layer.parameters(), 0.1)
    prune.l1_unstructured(layer, "weight", 6)
    assert layer.weight_orig is known
    mask, before = layer.weight_mask.numpy(), known.detach().numpy().copy()
    layer(mg.ones((2, 4))).sum().backward()
    np.testing.assert_array_equal(known.grad, 2 * mask)
    step.step()
    np.testing.assert_allclose(known.detach(), before - 0.2 * mask)
    prune.remove(layer, "weight")
    assert layer.weight is known and (layer.weight == 0).sum() == 6


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_a_recurrent_layer_computes_with_its_pruned_weight(kind):
    layer, x = kind(3, 4), mg.ones((2, 1, 3))
    prune.l1_unstructured(layer, "weight_ih_l0", 0.5)
    y = layer(x)[0]
    y.sum().backward()
    assert layer.weight_ih_l0_orig.grad is not None and prune.is_pruned(nn.Sequential(layer))
    prune.remove(layer, "weight_ih_l0")
    np.testing.assert_array_equal(layer(x)[0].detach(), y.detach())


def test_copies_and_pickles_are_pruned_too_and_changes_to_them_are_theirs():
    layer = prune.l1_unstructured(nn.Linear(4, 3), "weight", 5)
    before = layer.weight.detach().numpy().copy()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(twin.weight.detach(), before)
        prune.remove(twin, "weight")
        assert prune.is_pruned(layer) and not prune.is_pruned(twin)


class EveryOther(prune.BasePruningMethod):
    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask[::2] = 0
        return mask


def test_a_method_of_ones_own_chooses_among_what_is_left():
    layer = nn.Linear(3, 6)
    assert isinstance(EveryOther.apply(layer, "bias"), EveryOther)
    both = EveryOther.apply(layer, "bias")
    assert isinstance(both, prune.PruningContainer) and len(both) == 2
    assert [type(method) for method in both] == [EveryOther, EveryOther]
    np.testing.assert_array_equal(layer.bias_mask, [0, 0, 0, 1, 0, 0])


def test_a_tensor_is_pruned_without_a_module():
    t = mg.tensor([[1.0, -4.0], [3.0, 2.0]])
    method = prune.L1Unstructured(amount=2)
    np.testing.assert_array_equal(method.prune(t), [[0, -4], [3, 0]])
    np.testing.assert_array_equal(method.prune(t, importance_scores=-1 / t), [[1, 0], [0, 2]])


def test_a_method_that_fails_leaves_the_module_as_it_was():
    class Fails(prune.BasePruningMethod):
        def compute_mask(self, t, default_mask):
            raise ArithmeticError("no")

    layer = nn.Linear(3, 2)
    state = {name: x.numpy().copy() for name, x in layer.state_dict().items()}
    with pytest.raises(ArithmeticError):
        Fails.apply(layer, "weight")
    assert type(layer) is nn.Linear and [*layer.state_dict()] == [*state]
    prune.identity(layer, "weight")
    with pytest.raises(ArithmeticError):
        Fails.apply(layer, "weight")
    np.testing.assert_array_equal(layer.weight.detach(), state["weight"])


@pytest.mark.parametrize("n", [2, "fro"])
def test_the_slice_of_the_smallest_euclidean_norm_goes(n):
    layer = layer_of(np.array([[3.0, 3.0], [5.0, 0.0]]))  # of lengths 4.2 and 5, of sums 6 and 5
    prune.ln_structured(layer, "weight", amount=1, n=n, dim=0)
    assert layer.weight.tolist() == [[0, 0], [5, 0]]


@pytest.mark.parametrize(
    ("kind", "call", "said"),
    [
        (
            ValueError,
            lambda m: prune.l1_unstructured(m, "weight", 1.5),
            "a fraction from 0 to 1 or",
        ),
        (ValueError, lambda m: prune.l1_unstructured(m, "weight", -1), "amount=-1 must be"),
        (ValueError, lambda m: prune.l1_unstructured(m, "bias", 3), "more than the 2 there are"),
        (TypeError, lambda m: prune.l1_unstructured(m, "bias", "1"), "amount is a number, got"),
        (ValueError, lambda m: prune.random_structured(m, "bias", 1, 0), "two axes or more"),
        (IndexError, lambda m: prune.ln_structured(m, "weight", 1, 2, 2), "dim=2 is not an axis"),
        (ValueError, lambda m: prune.ln_structured(m, "weight", 1, "nuc", 0), "choose a number"),
        (ValueError, lambda m: prune.identity(m, "w"), r"no parameter 'w' .* \['weight', 'bias'\]"),
        (ValueError, lambda m: prune.custom_from_mask(m, "bias", [1]), r"the shape \(2,\)"),
        (ValueError, lambda m: prune.remove(m, "bias"), "'bias' of Linear is not pruned"),
        (
            ValueError,
            lambda m: prune.l1_unstructured(m, "bias", 1, importance_scores=[1.0]),
            r"L1Unstructured: importance_scores .* must have the shape \(2,\)",
        ),
        (
            TypeError,
            lambda m: prune.global_unstructured([(m, "weight")], prune.LnStructured, amount=1, n=2),
            "LnStructured is structured; elements of several",
        ),
        (
            TypeError,
            lambda m: prune.global_unstructured([m], prune.L1Unstructured, amount=1),
            r"parameters are pairs \(module, name\)",
        ),
        (TypeError, lambda m: prune.PruningContainer(10), "10 is not a BasePruningMethod"),
        (
            AttributeError,
            lambda m: setattr(prune.identity(m, "bias"), "bias", 1),
            "Linear.bias is computed from bias_orig, bias_mask; write into these",
        ),
    ],
)
def test_what_cannot_be_pruned_is_refused(kind, call, said):
    with pytest.raises(kind, match=said):
        call(nn.Linear(3, 2))


def test_a_container_is_for_one_tensor():
    a, b = (EveryOther.apply(nn.Linear(2, 2), name) for name in ("weight", "bias"))
    with pytest.raises(ValueError, match="prunes 'bias', and those here 'weight'"):
        prune.PruningContainer(a, b)
