"""Every layer and loss of mg.nn on a device as on the host.

Each runs on the stand-in of CuPy, which refuses NumPy's arrays, and where there is a GPU on that.
Layers that draw random numbers are in eval mode here: a device has a generator of its own.
"""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

both = pytest.mark.parametrize("where", ["fake", "gpu"])


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(high, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape)


def signs(*shape):
    return np.where(numbers(*shape, seed=3) > 0, 1, -1)


def shares(*shape):
    return np.abs(numbers(*shape, seed=4)) % 0.8 + 0.1


IMAGES, LINES, BLOCKS = numbers(2, 4, 6, 6), numbers(2, 4, 8), numbers(2, 4, 4, 4, 4)
ROWS, TARGET_ROWS, CLASSES = numbers(5, 4), numbers(5, 4, seed=1), whole(4, 5)
SEQUENCE, SEQUENCE_ALSO = numbers(3, 5, 8), numbers(3, 4, 8, seed=1)
LOG_SHARES = np.log(shares(7, 2, 4) / 4)


def pooled(x, dims):
    """What a max-unpooling takes: maxima and where they were."""
    pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
    return [y.numpy() for y in pool(mg.tensor(x))]


# name: (how the layer is made, its arguments)
LAYERS = {
    "AdaptiveLogSoftmaxWithLoss": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8], div_value=2.0),
        [SEQUENCE[:, 0], whole(12, 3)],
    ),
    "BCELoss": (nn.BCELoss, [shares(5, 4), shares(5, 4)]),
    "BCEWithLogitsLoss": (lambda: nn.BCEWithLogitsLoss(pos_weight=mg.tensor([2.0, 1, 1, 3])),
                          [ROWS, shares(5, 4)]),
    "Bilinear": (lambda: nn.Bilinear(4, 4, 3), [ROWS, TARGET_ROWS]),
    "CTCLoss": (nn.CTCLoss, [LOG_SHARES, whole(3, 2, 3) + 1, np.array([7, 6]), np.array([3, 2])]),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), [IMAGES]),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, [ROWS, TARGET_ROWS, signs(5)]),
    "CosineSimilarity": (nn.CosineSimilarity, [ROWS, TARGET_ROWS]),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(mg.tensor([1.0, 2, 3, 1]), label_smoothing=0.1,
                                                     ignore_index=1), [ROWS, CLASSES]),
    "Embedding": (lambda: nn.Embedding(4, 3, padding_idx=1), [CLASSES]),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(4, 3, mode="max"), [whole(4, 5, 2)]),
    "EmbeddingBag, offsets": (
        lambda: nn.EmbeddingBag(4, 3, mode="mean", padding_idx=1, scale_grad_by_freq=True),
        [CLASSES, np.array([0, 3])],
    ),
    "EmbeddingBag, weights": (
        lambda: nn.EmbeddingBag(4, 3, mode="sum", max_norm=1.0, include_last_offset=True),
        [CLASSES, np.array([0, 3, 3, 5]), shares(5)],
    ),
    "Embedding, options": (
        lambda: nn.Embedding(4, 3, max_norm=0.5, scale_grad_by_freq=True),
        [CLASSES],
    ),
    "Conv2d, reflect": (lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"), [IMAGES]),
    "Flatten": (nn.Flatten, [IMAGES]),
    "Fold": (lambda: nn.Fold((4, 4), 2), [numbers(2, 12, 9)]),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(
        2, output_size=3, _random_samples=mg.full((2, 4, 2), 0.3)), [IMAGES]),
    "FractionalMaxPool3d": (lambda: nn.FractionalMaxPool3d(
        2, output_size=2, _random_samples=mg.full((2, 4, 3), 0.3)), [BLOCKS]),
    "GRU": (lambda: nn.GRU(8, 6, 2, batch_first=True, bidirectional=True), [SEQUENCE]),
    "GRUCell": (lambda: nn.GRUCell(4, 3), [ROWS]),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, [ROWS, TARGET_ROWS, shares(5, 4)]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), [IMAGES]),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, [ROWS, signs(5, 4)]),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), [ROWS, shares(5, 4)]),
    "LSTM": (lambda: nn.LSTM(8, 6, 2, batch_first=True, proj_size=3), [SEQUENCE]),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), [ROWS]),
    "LayerNorm": (lambda: nn.LayerNorm((4, 8)), [LINES]),
    "LazyLinear": (lambda: nn.LazyLinear(3), [ROWS]),
    "Linear": (lambda: nn.Linear(4, 3), [ROWS]),
    "LinearCrossEntropyLoss": (lambda: nn.LinearCrossEntropyLoss(4, 4, bias=True), [ROWS, CLASSES]),
    "LinearCrossEntropyLoss, smoothed": (
        lambda: nn.LinearCrossEntropyLoss(4, 4, label_smoothing=0.1, ignore_index=1),
        [ROWS, CLASSES]),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), [IMAGES]),
    "MarginRankingLoss": (nn.MarginRankingLoss, [ROWS, TARGET_ROWS, signs(5, 4)]),
    "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss,
                             [ROWS, np.tile([1, 3, -1, 0], (5, 1))]),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, [ROWS, 1 * (signs(5, 4) > 0)]),
    "MultiMarginLoss": (nn.MultiMarginLoss, [ROWS, CLASSES]),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True),
                           [SEQUENCE, SEQUENCE, SEQUENCE]),
    "NLLLoss": (nn.NLLLoss, [ROWS, CLASSES]),
    "PReLU": (lambda: nn.PReLU(4), [IMAGES]),
    "PairwiseDistance": (nn.PairwiseDistance, [ROWS, TARGET_ROWS]),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), [IMAGES]),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), [IMAGES]),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, [ROWS, shares(5, 4)]),
    "RMSNorm": (lambda: nn.RMSNorm(8), [LINES]),
    "RNN": (lambda: nn.RNN(8, 6, batch_first=True), [SEQUENCE]),
    "RNNCell": (lambda: nn.RNNCell(4, 3), [ROWS]),
    "SoftMarginLoss": (nn.SoftMarginLoss, [ROWS, signs(5, 4)]),
    "Softmax2d": (nn.Softmax2d, [IMAGES]),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), [ROWS]),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
                    [SEQUENCE, SEQUENCE_ALSO]),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(
        nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2), [SEQUENCE, SEQUENCE_ALSO]),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
                                [SEQUENCE, SEQUENCE_ALSO]),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), [SEQUENCE]),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
                                [SEQUENCE]),
    "TripletMarginLoss": (nn.TripletMarginLoss, [ROWS, TARGET_ROWS, numbers(5, 4, seed=2)]),
    "TripletMarginWithDistanceLoss": (nn.TripletMarginWithDistanceLoss,
                                      [ROWS, TARGET_ROWS, numbers(5, 4, seed=2)]),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), [ROWS]),
    "Unfold": (lambda: nn.Unfold(3, padding=1), [IMAGES]),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), [IMAGES]),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), [IMAGES]),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), [IMAGES]),
}  # fmt: skip
OF_DIMS = {1: LINES, 2: IMAGES, 3: BLOCKS}
for dims, x in OF_DIMS.items():
    of = {name: getattr(nn, f"{name}{dims}d") for name in (
        "AdaptiveAvgPool", "AdaptiveMaxPool", "AvgPool", "BatchNorm", "CircularPad", "ConstantPad",
        "Conv", "ConvTranspose", "Dropout", "InstanceNorm", "LPPool", "LazyBatchNorm", "LazyConv",
        "LazyConvTranspose", "LazyInstanceNorm", "MaxPool", "MaxUnpool", "ReflectionPad",
        "ReplicationPad", "ZeroPad")}  # fmt: skip
    LAYERS |= {
        f"AdaptiveAvgPool{dims}d": (lambda of=of: of["AdaptiveAvgPool"](2), [x]),
        f"AdaptiveMaxPool{dims}d": (lambda of=of: of["AdaptiveMaxPool"](2), [x]),
        f"AvgPool{dims}d": (lambda of=of: of["AvgPool"](2), [x]),
        f"BatchNorm{dims}d": (lambda of=of: of["BatchNorm"](4).train(), [x]),
        f"Conv{dims}d": (lambda of=of: of["Conv"](4, 6, 3, padding=1, groups=2), [x]),
        f"ConvTranspose{dims}d": (lambda of=of: of["ConvTranspose"](4, 3, 2, stride=2), [x]),
        f"InstanceNorm{dims}d": (lambda of=of: of["InstanceNorm"](4, affine=True), [x]),
        f"LPPool{dims}d": (lambda of=of: of["LPPool"](2, 2), [x]),
        f"LazyBatchNorm{dims}d": (of["LazyBatchNorm"], [x]),
        f"LazyConv{dims}d": (lambda of=of: of["LazyConv"](3, 3), [x]),
        f"LazyConvTranspose{dims}d": (lambda of=of: of["LazyConvTranspose"](3, 2), [x]),
        f"LazyInstanceNorm{dims}d": (of["LazyInstanceNorm"], [x]),
        f"MaxPool{dims}d": (lambda of=of: of["MaxPool"](2), [x]),
        f"MaxUnpool{dims}d": (lambda of=of: of["MaxUnpool"](2), pooled(x, dims)),
        f"Dropout{dims}d": (of["Dropout"], [x]),
        f"ConstantPad{dims}d": (lambda of=of: of["ConstantPad"](1, 0.5), [x]),
        **{f"{kind}Pad{dims}d": (lambda of=of, kind=kind: of[f"{kind}Pad"](1), [x])
           for kind in ("Circular", "Reflection", "Replication", "Zero")},
    }  # fmt: skip
SIMPLE = (
    "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid "
    "LogSoftmax Mish ReLU ReLU6 RReLU SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink "
    "Softsign Tanh Tanhshrink AlphaDropout Dropout "
    "FeatureAlphaDropout"
).split()
LAYERS |= {name: (getattr(nn, name), [IMAGES]) for name in SIMPLE}
LAYERS |= {
    name: (getattr(nn, name), [ROWS, TARGET_ROWS])
    for name in ("HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss")
}
CONTAINERS = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"}


def test_every_layer_of_the_library_is_in_the_table():
    classes = inspect.getmembers(nn, inspect.isclass)
    known = {
        name for name, c in classes if issubclass(c, nn.Module) and c.__module__[:9] == "minigrad."
    }
    assert known - CONTAINERS == {name.partition(",")[0] for name in LAYERS}


def results_of(make, arrays, device):
    """[results, gradients of the floating arguments, of the parameters, buffers], on the host."""
    mg.manual_seed(0)
    layer = make()
    layer = layer if layer.training and "Norm" in type(layer).__name__ else layer.eval()
    layer = layer.to(device=device)
    given = [mg.tensor(x, device=device, requires_grad=x.dtype.kind == "f") for x in arrays]
    result = layer(*given)
    results = [y for y in mg.func.tree_leaves(result) if isinstance(y, mg.Tensor)]
    floating = [y for y in results if y.requires_grad]
    if floating:
        mg.backward(floating, [mg.ones_like(y) / (i + 1.0) for i, y in enumerate(floating)])
    leaves = [*[x for x in given if x.requires_grad], *layer.parameters()]
    found = [*results, *[leaf.grad for leaf in leaves], *layer.buffers()]
    assert all(y.device.startswith(device) for y in found if y is not None)
    return [None if y is None else y.to("cpu").numpy() for y in found]


@both
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_on_a_device_what_it_gives_on_the_host(name, where, request):
    make, arrays = LAYERS[name]
    expected = results_of(make, arrays, "cpu")
    request.getfixturevalue(where)
    found = results_of(make, arrays, "cuda")
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
