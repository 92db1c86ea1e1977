"""Depthwise convolution in several blocks of images is a dense convolution, too."""

import pytest

from minigrad.fast.conv import depthwise
from tests.ops import test_conv_depthwise

pytestmark = pytest.mark.promise(
    "blocks give what one piece gives; gelu's last digits; depthwise equals dense, as "
    "products with banded matrices too"
)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, [(0, 2)]])
@pytest.mark.parametrize("dilation", [1, 2])
def test_blocks_of_images_give_a_dense_convolution(dims, stride, padding, dilation, monkeypatch):
    monkeypatch.setattr(depthwise, "BLOCK", 100)
    test_conv_depthwise.test_depthwise_equals_a_dense_convolution(dims, stride, padding, dilation)
