"""A batch norm fused into the layer before it: the same results, PyTorch's weights, refusals."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval

pytestmark = pytest.mark.promise("a batch norm fused into a layer changes no result")

RNG = np.random.default_rng(0)


def trained(bn):
    """The norm with the statistics and weights of a training, in eval()."""
    for x in (bn.running_mean, bn.running_var, *bn.parameters()):
        x.data[...] = RNG.uniform(0.5, 2, x.shape)
    return bn.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    "make, norm, shape",
    [
        (lambda **options: nn.Conv1d(4, 6, 3, groups=2, **options), nn.BatchNorm1d, (2, 4, 7)),
        (lambda **options: nn.Conv2d(4, 6, 3, padding=1, **options), nn.BatchNorm2d, (2, 4, 5, 6)),
        (lambda **options: nn.ConvTranspose2d(4, 6, 3, **options), nn.BatchNorm2d, (2, 4, 5, 6)),
        (
            lambda **options: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, **options),
            nn.BatchNorm2d,
            (2, 4, 5, 6),
        ),
        (lambda **options: nn.Conv3d(4, 6, 2, **options), nn.BatchNorm3d, (2, 4, 3, 3, 3)),
    ],
)
def test_one_convolution_computes_what_it_and_the_norm_did(make, norm, shape, affine, bias):
    conv, bn = make(bias=bias, dtype=np.float64).eval(), trained(norm(6, affine=affine))
    bn.to(np.float64)
    x = mg.tensor(RNG.standard_normal(shape))
    fused = fuse_conv_bn_eval(conv, bn)
    np.testing.assert_allclose(fused(x).data, bn(conv(x)).data, rtol=1e-10, atol=1e-12)
    assert fused.weight.is_leaf and fused.bias.is_leaf and fused.weight is not conv.weight


def test_one_linear_layer_computes_what_it_and_the_norm_did():
    linear, bn = nn.Linear(3, 5).eval(), trained(nn.BatchNorm1d(5))
    x = mg.randn(7, 3, dtype=np.float32)
    fused = fuse_linear_bn_eval(linear, bn)
    np.testing.assert_allclose(fused(x).data, bn(linear(x)).data, rtol=1e-5, atol=1e-6)
    assert fused.weight.dtype == np.float32


def test_fused_weights_are_pytorchs():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    w, bias, mean, var = [RNG.uniform(0.5, 2, n) for n in ((6, 4, 3, 3), 6, 6, 6)]

    def fused(library):
        t = library.tensor
        statistics = t(mean), t(var), 1e-5, None, None
        return library.nn.utils.fuse_conv_bn_weights(t(w), t(bias), *statistics)

    ours, theirs = fused(mg), fused(torch)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.data, b.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "conv, bn, said",
    [
        (nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), r"both layers must be in eval\(\)"),
        (nn.Conv2d(2, 3, 1).eval(), nn.BatchNorm2d(4).eval(), "has 3 outputs, the batch norm 4 f"),
        (
            nn.Conv2d(2, 3, 1).eval(),
            nn.BatchNorm2d(3, track_running_stats=False).eval(),
            "keeps no running statistics",
        ),
    ],
)
def test_what_cannot_be_fused_is_refused(conv, bn, said):
    with pytest.raises(ValueError, match=f"fuse_conv_bn_eval: .*{said}"):
        fuse_conv_bn_eval(conv, bn)
