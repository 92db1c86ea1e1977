"""A module finds what it holds, names it, saves and loads it."""

import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.engine import events


class Net(nn.Module):
    def __init__(self):
        self.features = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.head = nn.Linear(3, 2, bias=False)
        self.register_buffer("mean", mg.zeros(4, dtype="float32"))
        self.register_buffer("cache", mg.zeros(1), persistent=False)

    def forward(self, x):
        return self.head(self.features(x - self.mean))


class Tied(nn.Module):
    def __init__(self):
        self.one = nn.Linear(2, 2, bias=False)
        self.two = nn.Linear(2, 2, bias=False)
        self.two.weight = self.one.weight


@pytest.fixture
def heard():
    """The scope of every forward op that runs while the test does."""
    scopes = []

    def listener(event):
        if event[0] == "forward":
            scopes.append(mg.engine.modes.state.scope)

    events.listen(listener)
    yield scopes
    events.unlisten(listener)


def test_parameters_are_found_below_in_order_of_definition():
    names = [name for name, _ in Net().named_parameters()]
    assert names == ["features.0.weight", "features.0.bias", "head.weight"]


def test_modules_are_listed_parents_first():
    assert [path for path, _ in Net().named_modules()] == [
        "", "features", "features.0", "features.1", "head",
    ]  # fmt: skip


def test_children_are_the_direct_ones():
    assert [type(child) for child in Net().children()] == [nn.Sequential, nn.Linear]


def test_a_parameter_used_twice_is_listed_once_and_saved_under_both_names():
    tied = Tied()
    assert [name for name, _ in tied.named_parameters()] == ["one.weight"]
    assert list(tied.state_dict()) == ["one.weight", "two.weight"]


def test_a_module_used_twice_is_saved_under_both_paths_as_pytorchs_is():
    torch = pytest.importorskip("torch")

    def used_twice(library):
        layer = library.Linear(2, 2)
        return library.Sequential(layer, library.ReLU(), layer)

    ours, theirs = used_twice(nn), used_twice(torch.nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    assert np.array_equal(ours[2].weight.data, theirs[0].weight.detach().numpy())


def test_a_lazy_module_used_twice_becomes_its_layer_once():
    trained, layer = nn.Linear(3, 3), nn.LazyLinear(3)
    net = nn.Sequential(layer, layer)
    net.load_state_dict(nn.Sequential(trained, trained).state_dict())
    assert net[0] is net[1] and np.array_equal(net[1].weight.data, trained.weight.data)


def test_a_part_that_knows_its_whole_is_saved_once():
    net = nn.Linear(1, 1)
    net.part = nn.Linear(1, 1)
    net.part.whole = net
    assert list(net.state_dict()) == ["weight", "bias", "part.weight", "part.bias"]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_pytorchs_tensors_are_loaded(dtype):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(2, 2).to(getattr(torch, dtype))
    ours = nn.Linear(2, 2).to(dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    expected = theirs.weight.detach().float().numpy()
    assert np.array_equal(ours.weight.data.astype(np.float32), expected)


def test_only_what_a_module_holds_itself_is_listed_when_asked():
    net = nn.BatchNorm1d(2)
    net.part = nn.BatchNorm1d(3)
    assert [name for name, _ in net.named_parameters(recurse=False)] == ["weight", "bias"]
    assert len(list(net.parameters(recurse=False))) == 2 < len(list(net.parameters()))
    assert len(list(net.buffers(recurse=False))) == 3 < len(list(net.buffers()))


def test_parameters_know_their_path_in_the_outermost_module():
    assert [p.name for p in Net().parameters()] == [path for path, _ in Net().named_parameters()]


def test_a_slice_of_a_sequential_leaves_names_alone():
    net = Net()
    part = net.features[:1]
    assert len(part) == 1 and part[0] is net.features[0]
    assert part[0].weight.name == "features.0.weight"


def test_ops_on_parameters_give_plain_tensors():
    p = nn.Parameter(np.ones(3, np.float32))
    assert type(p * 2) is mg.Tensor and type(p) is nn.Parameter
    assert p.requires_grad and p.is_leaf and p.is_parameter


def test_modules_in_a_plain_list_are_refused():
    net = nn.Module()
    with pytest.raises(TypeError, match=r"Module\.layers: modules in a plain list .* nn\.Sequent"):
        net.layers = [nn.ReLU()]


def test_what_is_no_parameter_does_not_take_the_place_of_one():
    layer = nn.Linear(2, 2)
    for value in (layer.weight * 2, np.ones((2, 2)), nn.ReLU(), [1.0], 3.0, "weight"):
        with pytest.raises(
            TypeError, match=r"Linear\.weight is a parameter, and a .*nn\.Parameter\(v"
        ):
            layer.weight = value
    layer.weight = nn.Parameter(mg.ones(2, 2))
    layer.bias = None
    assert list(layer.state_dict()) == ["weight"]


def test_a_module_is_registered_under_a_name_made_in_code():
    net = nn.Module()
    net.add_module("0", nn.Linear(2, 2))
    net.register_module("1", nn.Tanh())
    assert [name for name, _ in net.named_children()] == ["0", "1"]


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)


def test_train_and_eval_reach_every_module():
    net = Net().eval()
    assert not any(module.training for module in net.modules())
    assert all(module.training for module in net.train().modules())


def test_zero_grad_forgets_or_zeroes():
    net = Net()
    net(mg.ones(1, 4, dtype="float32")).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all((p.grad.numpy() == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_frozen_parameters_receive_no_gradient():
    net = Net()
    net.features.requires_grad_(False)
    net(mg.ones(1, 4, dtype="float32")).sum().backward()
    assert net.features[0].weight.grad is None and net.head.weight.grad is not None


def test_a_state_dict_is_a_copy_with_persistent_buffers():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["mean", "features.0.weight", "features.0.bias", "head.weight"]
    before = state["head.weight"].numpy().copy()
    net.head.weight.data[...] = 7
    assert np.array_equal(state["head.weight"].numpy(), before)


def test_a_buffer_may_be_deleted_registered_anew_or_become_a_parameter():
    module = nn.Linear(1, 1)
    for name in "abc":
        module.register_buffer(name, mg.zeros(1), persistent=False)
    del module.a
    module.register_buffer("b", mg.ones(1))
    module.c = nn.Parameter(mg.ones(1))
    assert [name for name, _ in module.named_buffers()] == ["b"]
    assert list(module.state_dict()) == ["weight", "bias", "c", "b"]


@pytest.mark.parametrize("name", ["", "a.b", "forward", "training", 3])
def test_a_name_made_in_code_must_be_one_to_find_things_by(name):
    module = nn.Linear(1, 1)
    for register, value in (
        (module.register_buffer, mg.ones(1)),
        (module.register_module, nn.ReLU()),
        (module.register_parameter, nn.Parameter(mg.ones(1))),
    ):
        with pytest.raises(KeyError, match="cannot be a .*: choose a string with no"):
            register(name, value)


def test_a_loaded_state_gives_the_same_results():
    mg.manual_seed(0)  # all of its three ReLUs may be dead, in both nets
    one, two = Net(), Net()
    x = mg.ones(2, 4, dtype="float32")
    assert not np.array_equal(one(x).detach().numpy(), two(x).detach().numpy())
    assert two.load_state_dict(one.state_dict()) == ([], [])
    assert np.array_equal(one(x).detach().numpy(), two(x).detach().numpy())


def test_loading_lists_every_fault_and_writes_nothing():
    net = Net()
    before = net.state_dict()
    state = net.state_dict()
    state["features.0.bias"] = mg.zeros(9, dtype="float32")
    state["extra"] = state.pop("head.weight")
    state["features.0.weight"] = mg.zeros(3, 4, dtype="float32")
    with pytest.raises(ValueError) as caught:
        net.load_state_dict(state)
    for fault in [r"features.0.bias: float32 (9,) given, float32 (3,) needed",
                  "missing: head.weight", "unexpected: extra", "strict=False"]:  # fmt: skip
        assert fault in str(caught.value)
    after = net.state_dict()
    assert all(np.array_equal(before[path].numpy(), after[path].numpy()) for path in before)


def test_loading_refuses_to_drop_imaginary_parts():
    net = nn.Linear(1, 1, bias=False)
    with pytest.raises(ValueError, match="weight: complex64"):
        net.load_state_dict({"weight": np.array([[1j]], np.complex64)})


def test_loading_without_strict_tells_what_did_not_match():
    net = Net()
    state = net.state_dict()
    state["extra"] = state.pop("head.weight")
    unmatched = net.load_state_dict(state, strict=False)
    assert unmatched == (["head.weight"], ["extra"])
    assert unmatched.missing_keys == ["head.weight"] and unmatched.unexpected_keys == ["extra"]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_values_names_and_requires_grad(clone):
    net = Net()
    twin = clone(net)
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        assert type(q) is nn.Parameter and q.requires_grad and q.name == p.name
        assert np.array_equal(p.detach().numpy(), q.detach().numpy())
        assert not np.shares_memory(p.data, q.data)


def test_scopes_are_attribute_names_under_the_class_name(heard):
    Net()(mg.ones(1, 4, dtype="float32"))
    assert heard == ["Net", "Net/features/0", "Net/features/1", "Net/head"]


def test_entries_of_uncalled_containers_have_the_containers_name_in_their_scope(heard):
    class Translator(nn.Module):
        def __init__(self):
            self.encoder = nn.ModuleList([nn.Linear(4, 4)])
            self.encoder.append(nn.Linear(4, 4))
            self.heads = nn.ModuleDict({"tag": nn.ModuleList([nn.Linear(4, 4)])})

        def forward(self, x):
            for layer in self.encoder:
                x = layer(x)
            return self.heads["tag"][0](x)

    Translator()(mg.ones(1, 4, dtype="float32"))
    assert heard == ["Translator/encoder.0", "Translator/encoder.1", "Translator/heads.tag.0"]


def test_a_module_list_with_a_forward_opens_a_scope_around_its_entries(heard):
    class Row(nn.ModuleList):
        def forward(self, x):
            for layer in self:
                x = layer(x)
            return x

    class Outer(nn.Module):
        def __init__(self):
            self.row = Row([nn.Linear(4, 4)])

        def forward(self, x):
            return self.row(x)

    Outer()(mg.ones(1, 4, dtype="float32"))
    assert heard == ["Outer/row/0"]


def test_no_scope_is_left_behind_by_an_error(heard):
    with pytest.raises(Exception):  # noqa: B017 - whatever the op says of the wrong shape
        Net()(mg.ones(1, 5, dtype="float32"))
    mg.ones(1) + 1
    assert heard[-1] == ""


def test_parts_are_found_by_their_paths():
    net = Net()
    assert net.get_submodule("features.0") is net.features[0] and net.get_submodule("") is net
    assert net.get_parameter("head.weight") is net.head.weight
    with pytest.raises(KeyError, match="Net has nothing at 'tail'"):
        net.get_submodule("tail")


def test_apply_reaches_children_before_their_parents():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert sorted(seen) == ["Linear", "Linear", "Net", "ReLU", "Sequential"] and seen[-1] == "Net"
    assert seen.index("ReLU") < seen.index("Sequential")


def test_apply_goes_from_the_first_child_to_the_last():
    seen = []
    a, b, c = nn.Linear(1, 1), nn.Tanh(), nn.ReLU()
    net = nn.Sequential(a, nn.Sequential(b, a), c)
    net.apply(seen.append)
    assert seen == [a, b, net[1], c, net]


def test_what_is_registered_does_not_take_the_place_of_another_kind():
    layer = nn.BatchNorm1d(2)
    with pytest.raises(KeyError, match="BatchNorm1d.weight is a Parameter now, which a module"):
        layer.add_module("weight", nn.Tanh())
    with pytest.raises(KeyError, match="running_mean is a Tensor now, which a parameter would"):
        layer.register_parameter("running_mean", nn.Parameter(mg.ones(2)))
    del layer.weight
    layer.add_module("weight", nn.Tanh())


def test_to_a_dtype_keeps_parameters_the_same_objects():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    parameters = list(net.parameters())
    optimizer = mg.optim.SGD(parameters)
    net(mg.ones(3, 2, dtype="float32")).sum().backward()
    assert net.to(np.float64) is net and net.double() is net
    assert all(p is q for p, q in zip(net.parameters(), parameters, strict=True))
    assert {p.dtype.name for p in parameters} == {p.grad.dtype.name for p in parameters}
    assert net[1].running_mean.dtype == np.float64
    assert net[1].num_batches_tracked.dtype == np.int64
    net(mg.ones(3, 2)).sum().backward()
    assert parameters[0].grad.dtype == np.float64
    optimizer.step()
    assert net.to("cpu", dtype="float16").half()[0].weight.dtype == np.float16


def test_modules_nested_beyond_pythons_limit_are_an_error_that_says_what_to_do():
    class Around(nn.Module):
        def __init__(self, inner):
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    deep = nn.Linear(2, 2)
    for _ in range(1000):
        deep = Around(deep)
    with pytest.raises(RecursionError, match=r"Around: .* nn\.Sequential\(\*layers\), or raise"):
        deep(mg.ones(1, 2))
    assert len(deep.state_dict()) == 2 and len(list(deep.modules())) == 1001


def test_arguments_of_a_modules_methods_have_pytorchs_names():
    module, seen = nn.Module(), []
    module.register_buffer("mean", tensor=mg.ones(2), persistent=False)
    module.register_parameter("weight", param=nn.Parameter(mg.ones(2)))
    module.add_module("inner", module=nn.Identity())
    inner = module.get_submodule(target="inner")
    inner.register_forward_hook(hook=lambda *call: seen.append("after"))
    inner.register_forward_pre_hook(hook=lambda *call: seen.append("before"))
    inner.register_full_backward_hook(hook=lambda *call: seen.append("gradients"))
    inner.register_full_backward_pre_hook(hook=lambda *call: seen.append("back"))
    x = module.get_parameter(target="weight") * module.get_buffer(target="mean")
    inner(x).sum().backward()
    assert seen == ["before", "after", "back", "gradients"]
    module.add_module("twice", inner)
    assert len([*module.modules()]) == 2 and len([*module.modules(remove_duplicate=False)]) == 3
    optimizer = mg.optim.SGD([module.weight], lr=0.1)
    optimizer.add_param_group(param_group={"params": [mg.ones(1, requires_grad=True)], "lr": 0.2})
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]
