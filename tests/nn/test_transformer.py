"""Encoder, decoder and the whole transformer: PyTorch's results and gradients on its weights."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

rng = np.random.default_rng(0)


def pair(make):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs, ours = make(torch.nn, torch.float64), make(nn, np.float64)
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.3)
    ours.load_state_dict({path: p.detach().numpy() for path, p in theirs.state_dict().items()})
    return ours, theirs, torch


def check(ours, theirs, torch, inputs, **masks):
    mine = [mg.tensor(x, requires_grad=True) for x in inputs]
    peer = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = ours(*mine, **masks)
    z = theirs(*peer, **{k: torch.tensor(m) for k, m in masks.items()})
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), 1e-8, 1e-10)
    g = rng.standard_normal(y.shape)
    y.backward(mg.tensor(g)), z.backward(torch.tensor(g))
    pairs = zip([*mine, *ours.parameters()], [*peer, *theirs.parameters()], strict=True)
    for p, q in pairs:
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-7, 1e-9)


FORMS = [{}, {"norm_first": True, "activation": "gelu"}, {"batch_first": True, "bias": False}]


@pytest.mark.parametrize("options", FORMS)
def test_the_decoder_is_pytorchs(options):
    def make(lib, dtype):
        layer = lib.TransformerDecoderLayer(8, 2, 16, 0.0, **options, dtype=dtype)
        return lib.TransformerDecoder(layer, 2, lib.LayerNorm(8, dtype=dtype))

    causal = np.triu(np.ones((3, 3), bool), 1)
    n = 3 if options.get("batch_first") else 4
    padding = np.arange(n) >= np.array([[n - 1], [n], [n - 2]])[: 4 if n == 3 else 3, :]
    tgt = rng.standard_normal((3, 3, 8))
    memory = rng.standard_normal((3, 3, 8) if n == 3 else (4, 3, 8))
    masks = {"tgt_mask": causal, "memory_key_padding_mask": padding}
    check(*pair(make), [tgt, memory], **masks)


@pytest.mark.parametrize("options", FORMS)
def test_the_encoder_is_pytorchs(options):
    def make(lib, dtype):
        layer = lib.TransformerEncoderLayer(8, 2, 16, 0.0, **options, dtype=dtype)
        return lib.TransformerEncoder(layer, 2)

    check(*pair(make), [rng.standard_normal((4, 4, 8))], mask=np.triu(np.ones((4, 4), bool), 1))


def test_the_whole_is_pytorchs():
    def make(lib, dtype):
        return lib.Transformer(8, 2, 1, 2, 16, 0.0, dtype=dtype)

    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=np.float64).numpy()
    inputs = [rng.standard_normal((5, 2, 8)), rng.standard_normal((3, 2, 8))]
    check(*pair(make), inputs, tgt_mask=mask)


def test_layers_of_a_stack_are_copies_with_names_of_their_own():
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1, 8), 2)
    one, two = stack.layers
    assert one.linear1.weight is not two.linear1.weight
    assert two.linear1.weight.name == "layers.1.linear1.weight"


def test_another_activation_is_refused():
    with pytest.raises(ValueError, match="'relu', 'gelu' or a function, got 'sin'"):
        nn.TransformerDecoderLayer(4, 1, activation="sin")


def test_the_arguments_for_pytorchs_nested_tensors_have_no_effect():
    layer = nn.TransformerEncoderLayer(4, 1, 8, dropout=0.0)
    x = mg.ones((3, 2, 4), dtype="float32")
    plain = nn.TransformerEncoder(layer, 2)
    told = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False, mask_check=False)
    np.testing.assert_array_equal(plain(x).detach(), told(x).detach())


def test_a_given_encoder_is_taken_even_if_it_is_empty():
    class Same(nn.Sequential):
        def forward(self, src, *masks):
            return src

    encoder = Same()
    assert nn.Transformer(8, 2, 1, 1, 16, custom_encoder=encoder).encoder is encoder
