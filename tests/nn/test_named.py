"""Functions and layers take PyTorch's names of arguments, all of them, beside our own."""

import contextlib
import inspect
import pickle
import re

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn

# What torch.nn.functional calls the arguments, recorded from its signatures (PyTorch 2.11 to 2.15).
FUNCTIONS = {
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d": "input output_size",
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d":
    "input output_size return_indices",
    "affine_grid": "theta size align_corners",
    "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout":
    "input p training inplace",
    "avg_pool1d": "input kernel_size stride padding ceil_mode count_include_pad",
    "avg_pool2d avg_pool3d":
    "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "batch_norm": "input running_mean running_var weight bias training momentum eps",
    "bilinear": "input1 input2 weight bias",
    "binary_cross_entropy multilabel_soft_margin_loss":
    "input target weight size_average reduce reduction",
    "binary_cross_entropy_with_logits":
    "input target weight size_average reduce reduction pos_weight",
    "celu elu": "input alpha inplace",
    "channel_shuffle": "input groups",
    "conv1d conv2d conv3d": "input weight bias stride padding dilation groups",
    "conv_transpose1d conv_transpose2d conv_transpose3d":
    "input weight bias stride padding output_padding groups dilation",
    "cosine_embedding_loss margin_ranking_loss":
    "input1 input2 target margin size_average reduce reduction",
    "cosine_similarity": "x1 x2 dim eps",
    "cross_entropy":
    "input target weight size_average ignore_index reduce reduction label_smoothing",
    "ctc_loss": "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
    "embedding": "input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
    "embedding_bag":
    "input weight offsets max_norm norm_type scale_grad_by_freq mode sparse "
    "per_sample_weights include_last_offset padding_idx",
    "fold": "input output_size kernel_size dilation padding stride",
    "fractional_max_pool2d fractional_max_pool3d":
    "input kernel_size output_size output_ratio return_indices _random_samples",
    "gaussian_nll_loss": "input target var full eps reduction",
    "gelu": "input approximate",
    "glu": "input dim",
    "grid_sample": "input grid mode padding_mode align_corners",
    "group_norm": "input num_groups weight bias eps",
    "gumbel_softmax": "logits tau hard eps dim",
    "hardshrink softshrink": "input lambd",
    "hardsigmoid hardswish mish relu relu6 selu silu": "input inplace",
    "hardtanh": "input min_val max_val inplace",
    "hinge_embedding_loss": "input target margin size_average reduce reduction",
    "huber_loss": "input target reduction delta weight",
    "instance_norm": "input running_mean running_var weight bias use_input_stats momentum eps",
    "interpolate":
    "input size scale_factor mode align_corners recompute_scale_factor antialias",
    "kl_div": "input target size_average reduce reduction log_target",
    "l1_loss mse_loss": "input target size_average reduce reduction weight",
    "layer_norm": "input normalized_shape weight bias eps",
    "leaky_relu": "input negative_slope inplace",
    "linear": "input weight bias",
    "linear_cross_entropy":
    "input linear_weight target linear_bias weight reduction ignore_index label_smoothing "
    "options",
    "local_response_norm": "input size alpha beta k",
    "log_softmax softmax softmin": "input dim _stacklevel dtype",
    "logsigmoid sigmoid softsign tanh tanhshrink": "input",
    "lp_pool1d lp_pool2d lp_pool3d": "input norm_type kernel_size stride ceil_mode",
    "max_pool1d max_pool2d max_pool3d":
    "input kernel_size stride padding dilation ceil_mode return_indices",
    "max_unpool1d max_unpool2d max_unpool3d":
    "input indices kernel_size stride padding output_size",
    "multi_margin_loss": "input target p margin weight size_average reduce reduction",
    "multilabel_margin_loss soft_margin_loss": "input target size_average reduce reduction",
    "nll_loss": "input target weight size_average ignore_index reduce reduction",
    "normalize": "input p dim eps out",
    "one_hot": "tensor num_classes",
    "pad": "input pad mode value",
    "pairwise_distance": "x1 x2 p eps keepdim",
    "pixel_shuffle": "input upscale_factor",
    "pixel_unshuffle": "input downscale_factor",
    "poisson_nll_loss": "input target log_input full size_average eps reduce reduction",
    "prelu": "input weight",
    "rms_norm": "input normalized_shape weight eps",
    "rrelu": "input lower upper training inplace",
    "scaled_dot_product_attention":
    "query key value attn_mask dropout_p is_causal scale enable_gqa",
    "smooth_l1_loss": "input target size_average reduce reduction beta",
    "softplus": "input beta threshold",
    "threshold": "input threshold value inplace",
    "triplet_margin_loss":
    "anchor positive negative margin p eps swap size_average reduce reduction",
    "triplet_margin_with_distance_loss":
    "anchor positive negative distance_function margin swap reduction",
    "unfold": "input kernel_size dilation padding stride",
}  # fmt: skip
# What the forwards of torch.nn's modules call theirs; all other modules take `input`.
LAYERS = {
    "AdaptiveLogSoftmaxWithLoss": "input_ target_",
    "BCELoss BCEWithLogitsLoss CrossEntropyLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss "
    "LinearCrossEntropyLoss MSELoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
    "MultiMarginLoss NLLLoss SmoothL1Loss SoftMarginLoss":
    "input target",
    "Bilinear": "input1 input2",
    "CTCLoss": "log_probs targets input_lengths target_lengths",
    "ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConvTranspose1d LazyConvTranspose2d "
    "LazyConvTranspose3d":
    "input output_size",
    "CosineEmbeddingLoss MarginRankingLoss": "input1 input2 target",
    "CosineSimilarity PairwiseDistance": "x1 x2",
    "EmbeddingBag": "input offsets per_sample_weights",
    "GRU GRUCell LSTM LSTMCell RNN RNNCell": "input hx",
    "GaussianNLLLoss": "input target var",
    "MaxUnpool1d MaxUnpool2d MaxUnpool3d": "input indices output_size",
    "MultiheadAttention":
    "query key value key_padding_mask need_weights attn_mask average_attn_weights is_causal",
    "PoissonNLLLoss": "log_input target",
    "RMSNorm": "x",
    "Transformer":
    "src tgt src_mask tgt_mask memory_mask src_key_padding_mask tgt_key_padding_mask "
    "memory_key_padding_mask src_is_causal tgt_is_causal memory_is_causal",
    "TransformerDecoder TransformerDecoderLayer":
    "tgt memory tgt_mask memory_mask tgt_key_padding_mask memory_key_padding_mask "
    "tgt_is_causal memory_is_causal",
    "TransformerEncoder": "src mask src_key_padding_mask is_causal",
    "TransformerEncoderLayer": "src src_mask src_key_padding_mask is_causal",
    "TripletMarginLoss TripletMarginWithDistanceLoss": "anchor positive negative",
}  # fmt: skip
FUNCTIONS = {name: words.split() for names, words in FUNCTIONS.items() for name in names.split()}
LAYERS = {name: words.split() for names, words in LAYERS.items() for name in names.split()}
# What the layers are made with that need more than nothing, by the beginnings of their names.
MADE_WITH = {
    "AdaptiveLog": (16, 8, [2, 4]), "Adaptive": (1,), "AvgPool": (2,), "BatchNorm": (3,),
    "Bilinear": (3, 3, 2), "ChannelShuffle": (1,), "Circular": (1,), "Constant": (1, 0.0),
    "Conv": (3, 3, 3), "Embedding": (5, 3), "Fold": (4, 2), "FractionalMax": (2, 1),
    "GRU": (3, 3), "GroupNorm": (1, 3), "InstanceNorm": (3,), "LPPool": (2, 2), "LSTM": (3, 3),
    "LayerNorm": (3,), "LazyConv": (3, 3), "LazyLinear": (3,), "Linear": (3, 3), "LocalResp": (2,),
    "MaxPool": (2,), "MaxUnpool": (2,), "Multihead": (4, 2), "Pixel": (2,), "RMSNorm": (3,),
    "RNN": (3, 3), "Ref": (1,), "Rep": (1,), "Threshold": (0.0, 1.0),
    "Transformer": (4, 2, 1, 1, 4), "TransformerDecoder": (nn.TransformerDecoderLayer(4, 2, 4), 1),
    "TransformerDecoderLayer": (4, 2, 4), "TransformerEncoderLayer": (4, 2, 4),
    "TransformerEncoder": (nn.TransformerEncoderLayer(4, 2, 4), 1), "Unflatten": (1, (1, 3)),
    "Unfold": (2,), "Upsampl": (None, 2), "ZeroPad": (1,),
}  # fmt: skip
CONTAINERS = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"}
KINDS = [
    name
    for name in nn.__all__
    if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
    if name not in CONTAINERS
]
RNG = np.random.default_rng(0)
X, Y = (
    mg.tensor(RNG.uniform(0.1, 0.9, (2, 4, 6, 6))),
    mg.tensor(RNG.uniform(0.1, 0.9, (2, 4, 6, 6))),
)
W = mg.tensor(RNG.standard_normal((4, 4, 3, 3)))
PLACES = mg.tensor([[0, 2], [1, 1]])
CALLS = {  # functions whose arguments have other names here, or are of every kind there is
    "conv1d": (X[:, 0], mg.ones(4, 6, 3), None, 1, 1), "conv2d": (X, W, mg.ones(4), 1, 1),
    "conv_transpose2d": (X, W, mg.ones(4), 2, 1, 1), "linear": (X, W[0, 0].T @ mg.ones(3, 6), None),
    "bilinear": (X[0, 0], Y[0, 0], mg.ones(2, 6, 6), mg.ones(2)), "gelu": (X, "tanh"),
    "cosine_similarity": (X, Y, 2), "cosine_embedding_loss": (X[0, 0], Y[0, 0], mg.ones(6), 0.2),
    "margin_ranking_loss": (X, Y, mg.ones(2, 4, 6, 6), 0.2), "softmax": (X, 1), "glu": (X, 1),
    "scaled_dot_product_attention": (X, Y, X, None, 0.0, True, 0.3), "pad": (X, (1, 2), "constant"),
    "embedding": (PLACES, X[0, 0], 0), "embedding_bag": (PLACES, X[0, 0], None),
    "one_hot": (PLACES, 4), "threshold": (X, 0.4, 0.2), "normalize": (X, 3.0, 0), "tanh": (X,),
    "prelu": (X, mg.ones(4)), "layer_norm": (X, (6,), mg.ones(6)), "relu": (X, True),
    "cross_entropy": (X, Y), "kl_div": (X, Y), "dropout": (X, 0.5, False), "unfold": (X, 2),
}  # fmt: skip


def made(name):
    best = max([start for start in MADE_WITH if name.startswith(start)], key=len, default="")
    kind = getattr(nn, name)
    if "Loss" in name and best not in ("AdaptiveLog", "Linear"):
        return kind()
    return kind(*MADE_WITH.get(best, ())) if best != "FractionalMax" else kind(2, output_size=2)


def error_of(call):
    try:
        with np.errstate(all="ignore"):
            call()
    except Exception as error:
        return error


def test_the_record_is_of_every_function():
    assert set(FUNCTIONS) == set(F.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_knows_every_name_that_pytorch_has(name):
    error = error_of(lambda: getattr(F, name)(**dict.fromkeys(FUNCTIONS[name])))
    assert not re.search(r"unexpected keyword|its arguments are|both by|needs \[", str(error))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_by_pytorchs_names_is_the_call_by_position(name):
    words = [word for word in FUNCTIONS[name] if word not in ("size_average", "reduce")]
    named = dict(zip(words, CALLS[name], strict=False))
    y, expected = getattr(F, name)(**named), getattr(F, name)(*CALLS[name])
    assert np.array_equal(y.detach().numpy(), expected.detach().numpy())


@pytest.mark.parametrize(
    "name", [name for name, words in FUNCTIONS.items() if "dim" in words or "keepdim" in words]
)
def test_an_axis_may_be_named_as_numpy_does(name):
    two = name in ("cosine_similarity", "pairwise_distance")
    args = (X, Y) if two else (X,)
    mg.manual_seed(0)
    if name == "pairwise_distance":
        y, expected = (
            F.pairwise_distance(X, Y, keepdims=True),
            F.pairwise_distance(X, Y, keepdim=True),
        )
    else:
        y = getattr(F, name)(*args, axis=1)
        mg.manual_seed(0)
        expected = getattr(F, name)(*args, dim=1)
    assert np.array_equal(y.numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"size_average": False}, "sum"),
        ({"size_average": True}, "mean"),
        ({"reduce": False}, "none"),
        ({"reduce": True, "size_average": False}, "sum"),
        ({"size_average": None, "reduce": None}, "mean"),
    ],
)
def test_what_came_before_reduction_is_read_as_pytorch_reads_it(old, new):
    for loss in (F.mse_loss, F.kl_div):
        assert np.array_equal(loss(X, Y, **old).numpy(), loss(X, Y, reduction=new).numpy())


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.linear(X, input=X),
        lambda: F.linear(X, w=X, weight=X),
        lambda: F.softmax(X, 1, axis=1),
        lambda: F.softmax(X, dim=1, axis=1),
        lambda: F.relu(x=X, input=X),
        lambda: nn.Linear(6, 2)(X, input=X),
        lambda: nn.Linear(6, 2)(x=X, input=X),
    ],
)
def test_an_argument_given_twice_is_refused(call):
    with pytest.raises(TypeError, match="input|multiple|both by|weight|axis"):
        call()


def test_a_function_is_pickled_by_its_name():
    for name in F.__all__:
        fn = getattr(F, name)
        assert pickle.loads(pickle.dumps(fn)) is fn


def test_the_names_are_those_that_pytorch_has_today():
    T = pytest.importorskip("torch").nn
    for name, words in FUNCTIONS.items():
        with contextlib.suppress(ValueError):  # one of C
            own = [*inspect.signature(getattr(T.functional, name)).parameters]
            assert own == words or own == ["args", "kwargs"], name
    for name in KINDS:
        own = [*inspect.signature(getattr(T, name).forward).parameters][1:]
        assert own == LAYERS.get(name, ["input"]), name


@pytest.mark.parametrize("name", KINDS)
def test_a_layer_knows_every_name_that_pytorch_has(name):
    layer, words = made(name), LAYERS.get(name, ["input"])
    error = error_of(lambda: layer(**dict.fromkeys(words)))
    assert not re.search("unexpected keyword|multiple values", str(error))


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("name", [name for name in KINDS if name != "Identity"])
def test_a_layer_names_the_argument_that_is_none(name):
    layer = made(name)
    words = inspect.signature(layer.forward).parameters.values()
    needed = [p.name for p in words if p.default is p.empty]
    with pytest.raises(TypeError, match=rf"^{name}\({needed[0]}: None.*{needed[0]} is None"):
        layer(*[None] * len(needed))


def test_a_layer_is_computed_by_pytorchs_names():
    x, t = mg.rand(3, 4), mg.rand(3, 4)
    linear, attention, lstm = nn.Linear(4, 2), nn.MultiheadAttention(4, 2), nn.LSTM(4, 2)
    x = x.astype(mg.float32)
    assert np.array_equal(linear(input=x).detach(), linear(x).detach())
    assert np.array_equal(lstm(input=x, hx=None)[0].detach(), lstm(x)[0].detach())
    y, expected = attention(query=x, key=x, value=x)[0], attention(x, x, x)[0]
    assert np.array_equal(y.detach(), expected.detach())
    assert nn.MSELoss()(input=x, target=t).item() == nn.MSELoss()(x, t).item()
    assert nn.PoissonNLLLoss()(log_input=x, target=t).item() == nn.PoissonNLLLoss()(x, t).item()


@pytest.mark.layer("courtesy")
def test_an_argument_inside_a_container_is_named_by_the_layer_there():
    with pytest.raises(TypeError, match=r"^Linear\(x: None\): x is None"):
        nn.Sequential(nn.Linear(2, 2))(None)


@pytest.mark.layer("courtesy")
def test_a_module_of_ones_own_keeps_its_words():
    class Own(nn.Module):
        def forward(self, x, **others):
            return others

    class Plain(nn.Module):
        def forward(self, x):
            return x.missing

    assert Own()(1, input=2) == {"input": 2}
    with pytest.raises(TypeError, match="unexpected keyword argument 'input'; here it is x="):
        Plain()(input=1)
    with pytest.raises(AttributeError, match="missing"):
        Plain()(None)


@pytest.mark.layer("courtesy")
def test_the_output_of_a_recurrent_layer_is_no_input():
    pair = nn.LSTM(4, 4)(mg.ones(3, 2, 4, dtype=mg.float32))
    for layer in (nn.Conv1d(3, 3, 1), nn.LSTM(4, 4)):
        with pytest.raises(TypeError, match="x is a tuple that holds tensors: pass one of them"):
            layer(pair)
