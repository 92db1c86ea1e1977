"""Packed sequences: PyTorch's rows, and recurrent layers that take and return them."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.nn.utils import rnn

rng = np.random.default_rng(0)
X = rng.standard_normal((5, 3, 4)).astype("f4")
SORTED, MIXED = np.array([5, 3, 1]), np.array([2, 5, 3])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [SORTED, MIXED])
def test_rows_sizes_and_the_way_back_are_pytorchs(lengths, batch_first):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = X.swapaxes(0, 1).copy() if batch_first else X
    options = {"batch_first": batch_first, "enforce_sorted": lengths is SORTED}
    ours = rnn.pack_padded_sequence(mg.tensor(x), lengths, **options)
    theirs = torch.nn.utils.rnn.pack_padded_sequence(
        torch.tensor(x), torch.tensor(lengths), **options
    )
    np.testing.assert_array_equal(ours.data.numpy(), theirs.data.numpy())
    np.testing.assert_array_equal(ours.batch_sizes.numpy(), theirs.batch_sizes.numpy())
    if lengths is not SORTED:
        np.testing.assert_array_equal(ours.sorted_indices, theirs.sorted_indices)
        np.testing.assert_array_equal(ours.unsorted_indices, theirs.unsorted_indices)
    ways = {"batch_first": batch_first, "padding_value": -1.0, "total_length": 6}
    y, n = rnn.pad_packed_sequence(ours, **ways)
    expected, counts = torch.nn.utils.rnn.pad_packed_sequence(theirs, **ways)
    np.testing.assert_array_equal(y.numpy(), expected.numpy())
    np.testing.assert_array_equal(n.numpy(), counts.numpy())


@pytest.mark.parametrize("lengths", [SORTED, MIXED])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_layers_take_and_return_them_as_pytorch(name, lengths):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = getattr(torch.nn, name)(4, 3, num_layers=2, bidirectional=True)
    ours = getattr(nn, name)(4, 3, num_layers=2, bidirectional=True)
    ours.load_state_dict({key: p.detach().numpy() for key, p in theirs.state_dict().items()})
    x, t = mg.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    sort = lengths is SORTED
    y, last = ours(rnn.pack_padded_sequence(x, lengths, enforce_sorted=sort))
    expected, final = theirs(
        torch.nn.utils.rnn.pack_padded_sequence(t, torch.tensor(lengths), enforce_sorted=sort)
    )
    assert isinstance(y, rnn.PackedSequence)
    np.testing.assert_allclose(y.data.detach().numpy(), expected.data.detach().numpy(), atol=1e-6)
    for a, b in zip(
        last if name == "LSTM" else [last], final if name == "LSTM" else [final], strict=True
    ):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-6)
    g = rng.standard_normal(y.data.shape).astype("f4")
    (y.data * g).sum().backward()
    (expected.data * torch.tensor(g)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), atol=1e-6)


def test_lists_of_sequences_are_padded_packed_and_cut_again():
    parts = [mg.tensor(X[:n, 0], requires_grad=True) for n in (2, 4, 1)]
    padded = rnn.pad_sequence(parts, batch_first=True, padding_value=9.0)
    assert padded.shape == (3, 4, 4) and (padded[2, 1:] == 9).all()
    for part, again in zip(parts, rnn.unpad_sequence(padded, [2, 4, 1], True), strict=True):
        np.testing.assert_array_equal(again.detach(), part.detach())
    rnn.pack_sequence(parts, enforce_sorted=False).data.sum().backward()
    assert all((part.grad == 1).all() for part in parts)


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match=r"lengths must be 3 integers from 1 to 5 .* got \[6 1 1\]"
    ):
        rnn.pack_padded_sequence(X, [6, 1, 1])
    with pytest.raises(ValueError, match="rise; sort the batch, longest first, or"):
        rnn.pack_padded_sequence(X, MIXED)
    packed = rnn.pack_padded_sequence(X, SORTED)
    with pytest.raises(ValueError, match="total_length=3, but the longest sequence has 5 steps"):
        rnn.pad_packed_sequence(packed, total_length=3)


def test_a_packed_batch_is_unpacked_in_its_own_order_and_gradients_go_back():
    parts = [mg.tensor(X[:n, 0], requires_grad=True) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(iter(parts), enforce_sorted=False)
    for part, again in zip(parts, rnn.unpack_sequence(packed), strict=True):
        np.testing.assert_array_equal(again.detach(), part.detach())
        (again * 2).sum().backward(retain_graph=True)
        assert (part.grad == 2).all()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_sequences_are_padded_on_either_side_as_pytorch_does(side, batch_first):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    parts = [X[:n, 0] for n in (2, 4, 0)]
    how = {"batch_first": batch_first, "padding_value": 7.0, "padding_side": side}
    ours = rnn.pad_sequence([mg.tensor(x) for x in parts], **how)
    theirs = torch.nn.utils.rnn.pad_sequence([torch.tensor(x) for x in parts], **how)
    np.testing.assert_array_equal(ours, theirs.numpy())


def test_the_rows_of_one_tensor_are_sequences_of_one_length():
    np.testing.assert_array_equal(rnn.pad_sequence(mg.tensor(X), True), X)


def test_sequences_that_do_not_lie_side_by_side_are_refused():
    with pytest.raises(ValueError, match=r"differ in the first axis alone, .* \(2, 3\), \(3, 2\)"):
        rnn.pad_sequence([mg.ones((2, 3)), mg.ones((3, 2))])
    with pytest.raises(ValueError, match="needs at least one sequence"):
        rnn.pack_sequence([])
    with pytest.raises(ValueError, match="padding_side='up'; choose 'right' or 'left'"):
        rnn.pad_sequence([mg.ones(2)], padding_side="up")


def test_a_permutation_is_inverted_and_a_batch_made_by_hand_inverts_its_own():
    np.testing.assert_array_equal(rnn.invert_permutation(mg.tensor([2, 0, 1])), [1, 2, 0])
    assert rnn.invert_permutation(None) is None
    packed = rnn.pack_padded_sequence(X, MIXED, enforce_sorted=False)
    by_hand = rnn.PackedSequence(packed.data, packed.batch_sizes, packed.sorted_indices)
    np.testing.assert_array_equal(by_hand.unsorted_indices, packed.unsorted_indices)
    np.testing.assert_array_equal(by_hand.lengths(), MIXED)


def test_a_packed_batch_takes_another_dtype_and_keeps_its_numbers():
    packed = rnn.pack_padded_sequence(X, MIXED, enforce_sorted=False)
    for twice in (packed.to(np.float64), packed.double(), packed.half().to(mg.float64).cpu()):
        assert isinstance(twice, rnn.PackedSequence) and twice.data.dtype == np.float64
        assert twice.batch_sizes is packed.batch_sizes and not twice.is_cuda
    np.testing.assert_array_equal(packed.double().float().data, packed.data)


def test_a_batch_without_sequences_is_not_packed():
    with pytest.raises(ValueError, match=r"one sequence at least; got float64 \(3, 0, 2\)"):
        nn.utils.rnn.pack_padded_sequence(mg.ones(3, 0, 2), [])


def test_lengths_are_whole_numbers():
    with pytest.raises(ValueError, match="lengths must be 2 integers from 1 to 3"):
        nn.utils.rnn.pack_padded_sequence(mg.ones(3, 2, 2), [2.5, 1.0])


def test_a_padded_batch_is_told_that_it_is_not_packed():
    with pytest.raises(TypeError, match="pad_packed_sequence: takes a PackedSequence"):
        rnn.pad_packed_sequence(mg.tensor(X))
