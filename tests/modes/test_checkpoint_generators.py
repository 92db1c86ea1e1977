"""A checkpoint finds the generators that its function can reach, and sets them back for it."""

import functools
import random
import types
from collections import UserDict, namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "a checkpoint sets every generator back that its function can reach. A second run "
    "with other values is an error that names the op; running statistics move once"
)

GLOBAL = np.random.default_rng(0)
settings = types.ModuleType("settings")
settings.rng = np.random.default_rng(1)
settings.inner = types.ModuleType("settings.inner")
settings.inner.rng = random.Random(2)
Pair = namedtuple("Pair", "rng other")


def noise_of(rng):
    """A number from any kind of generator."""
    for name in ("standard_normal", "normal"):
        if hasattr(rng, name):
            return float(getattr(rng, name)())
    return rng.random() if hasattr(rng, "random") else rng.gauss(0, 1)


def by_global(x):
    return x * GLOBAL.normal()


def by_helper(x):
    return by_global(x)


def by_module(x):
    return x * settings.rng.normal()


def by_module_in_module(x):
    return x * settings.inner.rng.gauss(0, 1)


def with_default(x, rng=np.random.default_rng(3)):
    return x * rng.normal()


def with_keyword_default(x, *, rng=np.random.default_rng(4)):
    return x * rng.normal()


def closure(rng):
    def fn(x):
        return x * noise_of(rng)

    return fn


def deep_closure(rng):
    inner = closure(rng)
    return lambda x: [inner(x) for _ in range(1)][0]


def stepping(rng):
    """A generator function that draws at each step."""

    def numbers():
        while True:
            yield noise_of(rng)

    steps = numbers()
    return lambda x: x * next(steps)


class Layer(mg.nn.Module):
    def __init__(self, rng):
        self.rng = rng
        self.weight = mg.nn.Parameter(mg.ones(3))

    def forward(self, x):
        return x * self.weight * noise_of(self.rng)


class Slotted:
    __slots__ = ("rng",)

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, x):
        return x * noise_of(self.rng)


class OfClass:
    rng = np.random.default_rng(5)

    def method(self, x):
        return x * self.rng.normal()

    @classmethod
    def of_class(cls, x):
        return x * cls.rng.normal()

    @staticmethod
    def static(x):
        return x * GLOBAL.normal()

    @property
    def number(self):
        return GLOBAL.normal()

    def by_property(self, x):
        return x * self.number


@dataclass
class Config:
    rng: object
    others: list = field(default_factory=list)


def rng(seed=7):
    return np.random.default_rng(seed)


def bound(fn, *args, **kwargs):
    return lambda x: mg.checkpoint(fn, x, *args, **kwargs)


ARGUMENT = lambda x, r: x * noise_of(r)
PLACES = {
    "argument": lambda: bound(ARGUMENT, rng()),
    "keyword": lambda: bound(lambda x, *, r: x * noise_of(r), r=rng()),
    "list": lambda: bound(lambda x, r: x * noise_of(r[0]["a"]), [{"a": rng()}]),
    "named tuple": lambda: bound(lambda x, r: x * noise_of(r.rng), Pair(rng(), 0)),
    "dataclass": lambda: bound(lambda x, r: x * noise_of(r.rng), Config(rng())),
    "namespace": lambda: bound(lambda x, r: x * noise_of(r.rng), types.SimpleNamespace(rng=rng())),
    "mapping": lambda: bound(lambda x, r: x * noise_of(r["a"]), UserDict(a=rng())),
    "its method": lambda: bound(lambda x, draw: x * draw(), rng().normal),
    "its bit generator": lambda: bound(
        lambda x, bits: x * np.random.Generator(bits).normal(), np.random.PCG64(3)
    ),
    "closure": lambda: bound(closure(rng())),
    "closure of a closure": lambda: bound(deep_closure(rng())),
    "default": lambda: bound(with_default),
    "keyword default": lambda: bound(with_keyword_default),
    "global": lambda: bound(by_global),
    "global of a function that is called": lambda: bound(by_helper),
    "global of a lambda's": lambda: bound(lambda x: [by_global(x) for _ in range(1)][0]),
    "module": lambda: bound(by_module),
    "module in a module": lambda: bound(by_module_in_module),
    "partial": lambda: bound(functools.partial(ARGUMENT, r=rng())),
    "layer": lambda: bound(Layer(rng())),
    "layer in layers": lambda: bound(mg.nn.Sequential(mg.nn.Identity(), Layer(rng()))),
    "layer of a closure": lambda: bound(lambda x, net=Layer(rng()): net(x)),
    "dropout's": lambda: bound(mg.nn.Dropout(0.5, generator=rng())),
    "slots": lambda: bound(Slotted(rng())),
    "method": lambda: bound(OfClass().method),
    "class method": lambda: bound(OfClass.of_class),
    "static method": lambda: bound(OfClass.static),
    "property": lambda: bound(OfClass().by_property),
    "decorated": lambda: bound(functools.wraps(by_global)(lambda x: by_global(x))),
    "cached function": lambda: bound(functools.lru_cache(by_global)),
    "generator function": lambda: bound(stepping(rng())),
}
KINDS = {
    "Generator": rng,
    "MT19937": lambda: np.random.Generator(np.random.MT19937(1)),
    "SFC64": lambda: np.random.Generator(np.random.SFC64(1)),
    "RandomState": lambda: np.random.RandomState(1),
    "random.Random": lambda: random.Random(1),
    "np.random": lambda: np.random,
    "random": lambda: random,
    "mg's": lambda: mg.generator(),
}


def repeats(call):
    """Whether the gradient of Σ(noisy x)² is 2 × noise² x, of the noise that the forward drew."""
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = call(x) * call(x)  # two calls, of which each has numbers of its own
    first = mg.grad(y.sum(), x, retain_graph=True)
    second = mg.grad(y.sum(), x)
    np.testing.assert_allclose(first.numpy(), 2 * y.detach().numpy() / x.detach().numpy())
    return first.tolist() == second.tolist()


@pytest.mark.parametrize("place", [name for name in PLACES if name != "cached function"])
def test_numbers_of_a_generator_are_the_same_wherever_the_function_has_it(place):
    def squared(x, call=PLACES[place]()):
        return call(x)

    assert repeats(squared)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_the_same_for_every_kind_of_generator(kind):
    assert repeats(bound(ARGUMENT, KINDS[kind]()))
    assert repeats(bound(closure(KINDS[kind]())))


def test_numbers_of_a_generator_of_pytorch_are_the_same():
    torch = pytest.importorskip("torch")
    own = torch.Generator()
    own.manual_seed(3)
    assert repeats(bound(lambda x, g: x * float(torch.randn((), generator=g)), own))
    assert repeats(bound(lambda x: x * float(torch.randn(()))))


def test_a_generator_goes_on_after_the_forward_and_is_there_again_after_the_backward():
    plain, own, x = rng(3), rng(3), mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    expected = [plain.normal() for _ in range(4)]
    y = mg.checkpoint(ARGUMENT, x, own)
    later = [own.normal()]
    y.sum().backward()
    later.append(own.normal())
    assert [y[0].item(), *later] == expected[:3]
    assert x.grad.tolist() == [expected[0]] * 3


def test_each_of_two_checkpoints_with_one_generator_gets_its_own_numbers_again():
    own, x = rng(3), mg.tensor([1.0, 1.0], requires_grad=True)
    fn = lambda x: np.sin(x * own.normal(size=2))
    a, b = mg.checkpoint(fn, x), mg.checkpoint(fn, x)
    got = mg.grad((a * b).sum(), x)
    again, x2 = rng(3), mg.tensor([1.0, 1.0], requires_grad=True)
    noise = [again.normal(size=2) for _ in range(2)]
    expected = mg.grad((np.sin(x2 * noise[0]) * np.sin(x2 * noise[1])).sum(), x2)
    assert got.tolist() == expected.tolist()


def test_nested_checkpoints_have_their_numbers_again():
    own, x = rng(3), mg.tensor([1.0, 2.0], requires_grad=True)

    def inner(x):
        return np.sin(x * own.normal(size=2))

    def outer(x):
        return mg.checkpoint(inner, mg.checkpoint(inner, x) * own.normal(size=2))

    got = mg.grad(mg.checkpoint(outer, x).sum(), x)
    own.bit_generator.state = rng(3).bit_generator.state
    x2 = mg.tensor([1.0, 2.0], requires_grad=True)
    assert got.tolist() == mg.grad(inner(inner(x2) * own.normal(size=2)).sum(), x2).tolist()


def test_an_object_that_answers_to_every_name_is_left_in_peace():
    class Proxy:
        def __getattr__(self, name):
            raise AssertionError(f"asked for {name}")

    x, proxy = mg.ones(2, requires_grad=True), Proxy()
    assert mg.grad(mg.checkpoint(lambda x, _: x * x, x, proxy).sum(), x).tolist() == [2, 2]


def test_objects_that_hold_each_other_are_looked_through_once():
    a = Config(rng())
    a.others += [a, [a], {"a": a}]
    assert repeats(bound(lambda x, c: x * noise_of(c.others[0].rng), a))
