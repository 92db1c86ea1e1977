"""Classes of layers, optimizers and contexts that are used in a wrong way."""

import functools

import pytest

import minigrad as mg
from minigrad import nn, optim

pytestmark = pytest.mark.promise(
    "a class made or used in a wrong way, and a layer given tensors or wrong names, get "
    "an error that names the fix"
)

X = mg.ones(2, 3)
P = mg.ones(2, requires_grad=True)


def message(call):
    with pytest.raises(TypeError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    "context",
    [mg.no_grad, mg.enable_grad, mg.inference_mode, mg.detect_anomaly, mg.profile, mg.Tape,
     mg.autocast, mg.record_backward],
)  # fmt: skip
def test_a_context_without_its_parentheses_is_told_to_have_them(context):
    def block():
        with context:
            pass

    assert message(block).endswith(f"write `with {context.__name__}():`")


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: nn.Linear(3, 4, biass=False),
            "Linear: got an unexpected keyword argument 'biass'; its arg",
        ),
        (lambda: nn.Conv2d(3, 4), "Conv2d: missing a required argument: 'kernel_size'; its"),
        (lambda: optim.SGD([P], learning_rate=1), "here it is lr="),
        (lambda: optim.lr_scheduler.StepLR(optim.SGD([P])), "are optimizer, step_size, gamma"),
    ],
)
def test_a_wrong_argument_is_named_beside_those_there_are(call, said):
    assert said in message(call)


def test_what_wraps_a_constructor_may_take_arguments_of_its_own():
    def logged(init):
        @functools.wraps(init)
        def run(self, *args, verbose=False, **kwargs):
            init(self, *args, **kwargs)

        return run

    class Net(nn.Module):
        @logged
        def __init__(self, width):
            self.layer = nn.Linear(width, 1)

    assert Net(2, verbose=True).layer.in_features == 2
    optim.SGD([P], lr=0.1, foreach=True)


def test_a_weight_among_the_arguments_is_no_mistake():
    nn.CrossEntropyLoss(mg.ones(3))
    nn.BCEWithLogitsLoss(pos_weight=mg.ones(3))

    class Scaled(nn.Module):
        def __init__(self, scale=1.0):
            self.register_buffer("scale", scale)

    assert Scaled(mg.ones(3)).scale.shape == (3,)
