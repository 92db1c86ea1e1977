"""What a layer is made with: wrong kinds, wrong names and tensors are answered with what to do."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn

pytestmark = pytest.mark.promise(
    "a class made or used in a wrong way, and a layer given tensors or wrong names, get "
    "an error that names the fix"
)

X = mg.ones((2, 4))


def message(call):
    with pytest.raises(TypeError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [nn.ReLU, nn.Softmax, nn.GELU, nn.LeakyReLU, nn.Sigmoid, nn.Flatten, nn.Dropout, nn.Softplus],
)
def test_a_tensor_given_to_a_class_is_answered_with_the_call_of_a_layer(kind):
    said = message(lambda: kind(X))
    assert said.startswith(kind.__name__)
    assert said.endswith(f"and then called with tensors: nn.{kind.__name__}(...)(x)")


def test_a_loss_called_at_its_class_is_answered_with_the_call_of_a_layer():
    assert message(lambda: nn.MSELoss(X, X)).endswith("nn.MSELoss(...)(x)")
    assert message(lambda: nn.CrossEntropyLoss(X, X)).endswith("nn.CrossEntropyLoss(...)(x)")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nn.Linear((4,), 2), "Linear: in_features must be an integer, got (4,)"),
        (lambda: nn.Linear(4, 2.0), "Linear: out_features must be an integer, got 2.0"),
        (lambda: nn.Linear(True, 2), "Linear: in_features must be an integer, got True"),
        (lambda: nn.LSTM(4, "3"), "LSTM: hidden_size must be an integer, got '3'"),
        (lambda: nn.Conv2d((3,), 4, 3), "Conv2d: in_channels must be an integer, got (3,)"),
        (
            lambda: nn.Conv2d(3, 4, 3.0),
            "Conv2d: kernel_size must be an integer or a tuple of integers, got 3.0",
        ),
    ],
)
def test_a_size_that_is_none_is_named_with_its_layer(call, said):
    assert message(call) == said


def test_sizes_may_be_numpys_numbers_lists_and_tensors_of_one_whole_number():
    assert nn.Linear(np.int64(4), mg.tensor(2)).weight.shape == (2, 4)
    assert nn.LayerNorm([3, 4]).weight.shape == (3, 4)


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nn.Linear(4, 2, use_bias=False), "keyword argument 'use_bias'; here it is bias="),
        (lambda: nn.Conv2d(1, 1, 3, strides=2), "argument 'strides'; here it is stride="),
        (lambda: nn.Softmax(axis=-1), "keyword argument 'axis'; here it is dim="),
        (lambda: nn.Linear(units=4), "'units'; its arguments are in_features, out_features, bias,"),
        (lambda: nn.Linear(bias=False), "Linear: missing a required argument: 'in_features'; its"),
        (lambda: nn.Linear(4, 2)(a=X), "Linear.forward(a=float64 (2, 4)): forward() got"),
        (lambda: nn.Linear(4, 2)(a=X), "here it is x="),
    ],
)
def test_a_name_that_a_layer_has_not_is_answered_with_those_it_has(call, said):
    assert said in message(call)


class Scale(nn.Module):
    def __init__(self, factor: float, power: int = 1):
        self.factor = factor
        self.power = power


def test_annotations_of_other_classes_are_not_checked():
    assert Scale(mg.ones(3), 0.5).factor.shape == (3,)
    assert "Scale: got an unexpected keyword argument 'q'" in message(lambda: Scale(1.0, q=2))


def test_a_base_that_takes_arguments_where_it_is_made_gets_them():
    class Counted:
        def __new__(cls, factor):
            made = super().__new__(cls)
            made.seen = factor
            return made

    class Both(Scale, Counted):
        pass

    assert Both(3.0).seen == 3.0


def test_an_init_may_take_arguments_of_any_name():
    class Open(nn.Module):
        def __init__(self, **options):
            self.options = options

    assert Open(cls=3, kind=4).options == {"cls": 3, "kind": 4}


def test_the_signature_of_a_layer_is_read_once(monkeypatch):
    Scale(1.0, 2)
    monkeypatch.setattr(inspect, "signature", lambda *args, **kwargs: pytest.fail("read again"))
    assert Scale(2.0, power=3).power == 3


def test_copies_are_made_without_arguments():
    layer = nn.Linear(4, 2)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert twin.weight.tolist() == layer.weight.tolist()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nn.Conv2d(1, 1, 3, stride=0), "Conv2d: stride must be an int ≥ 1"),
        (lambda: nn.Conv2d(1, 1, (3,)), "Conv2d: kernel_size must be an int ≥ 1, or 2 of them"),
        (lambda: nn.Conv1d(1, 1, 3, padding="sane"), "Conv1d: padding must be numbers, 'same'"),
        (lambda: nn.Conv1d(1, 1, 3, 2, "same"), "Conv1d: padding 'same' needs stride 1"),
        (lambda: nn.ConvTranspose1d(1, 1, 3, dilation=0), "ConvTranspose1d: dilation must be an"),
        (lambda: nn.MultiheadAttention(0, 1), "num_heads=1 must divide embed_dim=0, both 1 or mo"),
        (lambda: nn.LocalResponseNorm(0), "LocalResponseNorm: size must be 1 or more, got 0"),
        (lambda: nn.Dropout(None), "Dropout: p is a probability from 0 to 1, got None"),
        (lambda: F.channel_shuffle(mg.ones(2, 4, 3), 0), "groups=0 must be 1 or more and divide"),
        (lambda: F.channel_shuffle(mg.ones(4), 2), r"x must be \(n, c, \*space\), got shape"),
    ],
)
def test_a_layer_with_which_nothing_could_be_computed_is_not_made(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nn.PixelShuffle(2)(mg.ones((1, 3, 2, 2))), "PixelShuffle: upscale_factor² = 2²"),
        (lambda: nn.PixelUnshuffle(2)(mg.ones((1, 3, 2))), "must be 1 or more and divide height"),
        (lambda: nn.PixelShuffle(0)(mg.ones((1, 3, 2, 2))), "must be 1 or more and divide the num"),
        (lambda: nn.PixelShuffle(2)(X), r"x must be images .*, got shape \(2, 4\)"),
    ],
)
def test_images_that_cannot_be_shuffled_are_named_with_the_factor(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_a_list_of_one_module_is_a_list_all_the_same():
    said = message(lambda: nn.ModuleList(nn.Linear(2, 2)))
    assert said.startswith("ModuleList takes a list of modules: ModuleList([a, b]), got Linear(")
    assert len(nn.ModuleList(nn.Sequential(nn.ReLU(), nn.Tanh()))) == 2


@pytest.mark.parametrize(
    "layer",
    [
        nn.LayerNorm(4, bias=False),
        nn.GroupNorm(2, 4, bias=False),
        nn.BatchNorm1d(4, bias=False),
        nn.GRUCell(4, 2, bias=False),
    ],
)
def test_the_looks_of_a_layer_say_that_it_has_no_bias(layer):
    assert repr(layer).endswith(", bias=False)")


def test_the_looks_of_a_cell_say_its_nonlinearity():
    assert repr(nn.RNNCell(4, 2, nonlinearity="relu")) == "RNNCell(4, 2, nonlinearity=relu)"
    assert repr(nn.RNNCell(4, 2)) == "RNNCell(4, 2)"


def test_a_function_among_modules_is_answered_with_what_calls_it():
    said = message(lambda: nn.Sequential(nn.Linear(2, 2), mg.relu))
    assert "argument 1 is a Primitive; relu is a function, which a layer such as nn.ReLU()" in said


@pytest.mark.parametrize(
    "make",
    [
        lambda n: nn.Conv2d(1, 2, n(3), stride=n(2), padding=n(1), dilation=n(1)),
        lambda n: nn.Conv2d(1, 2, (n(3), n(2))),
        lambda n: nn.ConvTranspose2d(1, 2, n(3), n(2), n(1), n(1)),
        lambda n: nn.ZeroPad2d(n(2)),
        lambda n: nn.AdaptiveAvgPool2d(n(2)),
        lambda n: nn.LayerNorm(n(4)),
        lambda n: nn.RMSNorm(n(4)),
    ],
)
def test_whole_numbers_of_numpys_are_sizes_as_pythons_are(make):
    x = mg.ones((2, 1, 4, 4))
    layer, same = make(np.int64), make(int)
    assert repr(layer) == repr(same) and layer(x).shape == same(x).shape


def test_what_a_forward_of_any_options_raises_is_left_as_it_is():
    class Loose(nn.Module):
        def forward(self, x, **options):
            raise TypeError("inside")

    assert message(lambda: Loose()(X, mode="a")) == "inside"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.Conv2d(None, 4, 3), "Conv2d: in_channels must be an integer, got None"),
        (lambda: nn.LSTM(3, None), "LSTM: hidden_size must be an integer, got None"),
        (lambda: nn.GroupNorm(None, 4), "GroupNorm: num_groups must be an integer, got None"),
        (lambda: nn.MaxPool2d(None), "MaxPool2d: kernel_size must be an integer or a tuple of int"),
    ],
)
def test_none_where_a_size_belongs_is_refused_by_name(make, said):
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value).startswith(said)


def test_none_is_taken_where_it_means_something():
    assert nn.BatchNorm1d(3, momentum=None).momentum is None
    assert nn.MaxPool1d(2, stride=None).stride == nn.MaxPool1d(2).stride
    nn.Embedding(3, 2, padding_idx=None)
