"""Convolution layers: what their calls take beside the image."""

import pytest

import minigrad as mg
from minigrad import nn


@pytest.mark.parametrize("size", [(11, 11), (12, 11), [12, 12], (2, 6, 12, 11)])
def test_a_transposed_convolution_takes_the_size_of_its_result(size):
    layer = nn.ConvTranspose2d(4, 6, 3, stride=2)
    y = layer(mg.ones(2, 4, 5, 5), output_size=size)
    assert y.shape == (2, 6, *size[-2:])
    extra = tuple(n - 11 for n in size[-2:])
    same = mg.conv_transpose2d(mg.ones(2, 4, 5, 5), layer.weight, layer.bias, 2, 0, extra)
    assert (y.numpy() == same.numpy()).all()


@pytest.mark.parametrize("size", [(10, 11), (13, 11), (11,), (11, 11, 11), (2, 6, 11, 11, 11), 30])
def test_a_size_that_no_padding_leads_to_says_which_would_do(size):
    with pytest.raises(ValueError, match=r"from \(11, 11\) to \(12, 12\) for x \(2, 4, 5, 5\)"):
        nn.ConvTranspose2d(4, 6, 3, stride=2)(mg.ones(2, 4, 5, 5), output_size=size)


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 5, 5), 1), ((3, 5, 5), 0)])
def test_wrong_channels_name_the_layer_and_its_argument(kind, shape, axis):
    said = rf"{kind.__name__}: x .* has 3 channels \(axis {axis}\), and .* in_channels=4"
    with pytest.raises(ValueError, match=said):
        kind(4, 6, 3)(mg.ones(*shape))
