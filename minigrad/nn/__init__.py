"""Modules and layers: parameters, their names, and how they are initialised."""

from ..tensor_api.help import missing_names_of as _missing_names_of
from . import functional, init, utils
from .activation import *
from .adaptive_softmax import AdaptiveLogSoftmaxWithLoss
from .attention import MultiheadAttention
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from .embedding import Embedding, EmbeddingBag
from .fold import Fold, Unfold
from .lazy import *
from .linear import Bilinear, Identity, Linear
from .loss import *
from .module import Module
from .norm import *
from .padding import *
from .parameter import Buffer, Parameter, UninitializedParameter
from .pool import *
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .shape import (
    ChannelShuffle,
    Flatten,
    PixelShuffle,
    PixelUnshuffle,
    Unflatten,
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)
from .similarity import CosineSimilarity, PairwiseDistance
from .transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    name
    for name, value in vars().items()
    if name in ("functional", "init", "utils")
    or (isinstance(value, type) and issubclass(value, Module))
] + ["Buffer", "Parameter", "UninitializedParameter"]

__getattr__ = _missing_names_of(__name__)
