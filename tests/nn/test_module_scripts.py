"""Initial values drawn anew, and the names that scripts of PyTorch call modules by."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

RESETTABLE = [
    nn.Linear(3, 2), nn.Bilinear(2, 3, 2), nn.Conv2d(4, 2, 3), nn.ConvTranspose1d(2, 3, 2),
    nn.Embedding(4, 2, padding_idx=1), nn.EmbeddingBag(4, 2), nn.LSTM(2, 3, 2), nn.GRUCell(2, 3),
    nn.PReLU(2, init=0.5), nn.BatchNorm1d(3), nn.InstanceNorm1d(3, affine=True), nn.LayerNorm(3),
    nn.GroupNorm(1, 3), nn.RMSNorm(3),
]  # fmt: skip


@pytest.mark.parametrize("layer", RESETTABLE, ids=lambda layer: type(layer).__name__)
def test_a_layer_is_reset_to_what_a_new_one_holds(layer):
    mg.manual_seed(0)
    layer.reset_parameters()
    first = layer.state_dict()
    for value in layer.state_dict(keep_vars=True).values():
        value.data[...] = 7
    mg.manual_seed(0)
    layer.reset_parameters()
    for path, value in layer.state_dict().items():
        assert (value.numpy() == first[path].numpy()).all() and not (value.numpy() == 7).any()


def test_initial_values_of_a_subclass_are_those_of_its_reset_parameters():
    class Halves(nn.Linear):
        def reset_parameters(self):
            nn.init.constant_(self.weight, 0.5)
            nn.init.zeros_(self.bias)

    assert Halves(2, 1)(mg.ones(2, dtype="float32")).tolist() == [1]


def test_a_batch_norm_forgets_its_batches():
    norm = nn.BatchNorm1d(2)
    norm(mg.tensor(np.arange(6, dtype="float32").reshape(3, 2)))
    norm.reset_running_stats()
    assert [b.tolist() for b in norm.buffers()] == [[0, 0], [1, 1], 0]


def test_modules_and_batches_move_with_the_words_of_a_script():
    net = nn.Linear(2, 1)
    assert net.to("cpu", non_blocking=True).cpu() is net
    assert net.bfloat16().weight.dtype == mg.bfloat16
    x = mg.ones(2, 2)
    assert x.to("cpu", non_blocking=True) is x


def test_a_state_may_be_written_under_a_prefix_beside_another():
    net = nn.Linear(2, 1)
    whole = {"epoch": 3}
    assert net.state_dict(destination=whole, prefix="net.") is whole
    assert list(whole) == ["epoch", "net.weight", "net.bias"]


def test_a_subclass_may_pass_what_it_is_given_on_to_state_dict():
    class Tagged(nn.Linear):
        def state_dict(self, *args, **kwargs):
            return {**super().state_dict(*args, **kwargs), "tag": 1}

    assert list(Tagged(2, 1).state_dict(prefix="a.")) == ["a.weight", "a.bias", "tag"]


def test_keep_vars_gives_the_live_tensors():
    net = nn.Linear(2, 1)
    assert net.state_dict(keep_vars=True)["weight"] is net.weight


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_list_their_weights_layer_by_layer_as_pytorchs(kind):
    layer = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True)
    assert [len(row) for row in layer.all_weights] == [4] * 4
    assert layer.all_weights[3][0] is layer.weight_ih_l1_reverse
    assert layer.mode == {"RNN": "RNN_TANH"}.get(kind, kind)
    assert layer.flatten_parameters() is None


def test_layers_have_the_attributes_that_scripts_of_pytorchs_read():
    assert nn.LSTMCell(2, 3, bias=False).bias is False
    assert nn.MultiheadAttention(8, 2).head_dim == 4
    assert nn.Conv2d(1, 2, 3).output_padding == (0, 0)
    assert nn.ConvTranspose2d(1, 2, 3, stride=2, output_padding=1).output_padding == (1, 1)
