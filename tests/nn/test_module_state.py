"""State that is not a tensor, and what is found by its path."""

import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


class Counter(nn.Module):
    """A layer that counts its calls in a plain attribute."""

    def __init__(self):
        self.inner = nn.Linear(2, 2)
        self.calls, self.names = 0, ["a"]

    def get_extra_state(self):
        return {"calls": self.calls, "names": self.names}

    def set_extra_state(self, state):
        self.calls, self.names = state["calls"], state["names"]

    def forward(self, x):
        self.calls += 1
        return self.inner(x)


def used(calls=3):
    net = nn.Sequential(Counter(), nn.Linear(2, 1))
    for _ in range(calls):
        net(mg.ones(1, 2))
    return net


def test_extra_state_is_saved_beside_the_tensors_and_loaded():
    net, other = used(), used(0)
    state = net.state_dict()
    expected = ["0._extra_state", "0.inner.bias", "0.inner.weight", "1.bias", "1.weight"]
    assert sorted(state) == expected and state["0._extra_state"] == {"calls": 3, "names": ["a"]}
    assert other.load_state_dict(state) == ([], [])
    assert other[0].calls == 3 and np.array_equal(other[1].weight, net[1].weight)


def test_names_and_order_of_extra_state_are_pytorchs():
    torch = pytest.importorskip("torch")

    class Theirs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        get_extra_state, set_extra_state = lambda self: 5, lambda self, state: None

    expected = torch.nn.Sequential(Theirs(), torch.nn.Linear(2, 1))
    assert list(used().state_dict(prefix="p.")) == list(expected.state_dict(prefix="p."))


def test_a_modules_parameters_are_saved_before_its_buffers():
    model = nn.Module()
    model.register_buffer("mask", mg.zeros(1))
    model.register_buffer("passing", mg.zeros(1), persistent=False)
    model.layer = nn.Linear(1, 1, bias=False)
    model.scale = nn.Parameter(mg.ones(1))
    assert list(model.state_dict()) == ["scale", "mask", "layer.weight"]
    norm = nn.utils.weight_norm(nn.BatchNorm1d(2, track_running_stats=False))
    norm.register_buffer("seen", mg.zeros(1))
    norm.bias = nn.Parameter(mg.ones(2))
    assert list(norm.state_dict())[-1] == "seen"


def test_extra_state_goes_into_a_file_and_back(tmp_path):
    net, other = used(), used(0)
    for name in ("state.npz", "state.safetensors"):
        mg.save(net.state_dict(), tmp_path / name)
        other.load_state_dict(mg.load(tmp_path / name))
        assert other[0].calls == 3
        other[0].calls = 0


def test_extra_state_is_missing_or_unexpected_as_tensors_are():
    net, plain = used(), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    state = net.state_dict()
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match="missing: 0._extra_state"):  # as in PyTorch
        net.load_state_dict(state)
    assert net.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    state = {**plain.state_dict(), "0._extra_state": 1}
    with pytest.raises(ValueError, match="unexpected: 0._extra_state"):
        plain.load_state_dict(state)


def test_nothing_is_handed_over_where_a_tensor_does_not_fit():
    net = used()
    state = {**used(7).state_dict(), "1.bias": np.zeros(5, np.float32)}
    with pytest.raises(ValueError, match=r"1.bias: float32 \(5,\) given"):
        net.load_state_dict(state)
    assert net[0].calls == 3


def test_half_of_the_pair_is_an_error_that_names_the_other():
    class Half(nn.Module):
        def get_extra_state(self):
            return 1

    net = Half()
    with pytest.raises(NotImplementedError, match="Half has a get_extra_state and no set_extra"):
        net.load_state_dict(net.state_dict())


# -- paths -------------------------------------------------------------------------------------


def test_a_parameter_with_two_paths_is_found_by_both():
    net = nn.Module()
    net.encoder = nn.Embedding(5, 3)
    net.decoder = nn.Linear(3, 5)
    net.decoder.weight = net.encoder.weight
    net.again = net.decoder
    for path in ("encoder.weight", "decoder.weight", "again.weight"):
        assert net.get_parameter(path) is net.encoder.weight
    assert net.get_submodule("again") is net.decoder


def test_buffers_are_found_by_their_paths():
    net = nn.Sequential(nn.BatchNorm1d(3))
    assert net.get_buffer("0.running_mean") is net[0].running_mean
    net[0].scratch = mg.ones(2)
    for path in ("0.scratch", "0.weight", "0.running_mean.x", "1.running_mean", "", "0"):
        with pytest.raises(AttributeError, match="Sequential has nothing at .*; its buffers are"):
            net.get_buffer(path)


@pytest.mark.parametrize("error", [AttributeError, KeyError])
def test_a_wrong_path_is_pytorchs_error_too(error):
    net = copy.deepcopy(used())
    with pytest.raises(error, match=r"nothing at '0.outer'; its modules are \['0', '0.inner'"):
        net.get_submodule("0.outer")
    with pytest.raises(error, match="nothing at '0.inner'; its parameters are"):
        net.get_parameter("0.inner")


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [
        ("register_parameter", mg.ones(3), r"N.x is a parameter: .* got float64 \(3,\), a Tensor"),
        ("register_buffer", 3, "N.x is a buffer: it can be None or a Tensor, got 3, a int"),
        ("register_buffer", np.ones(3), r"ndarray, which .* mg.tensor\(value\) makes one"),
        ("add_module", abs, "N.x is a module: .* derives from nn.Module"),
    ],
)
def test_what_is_registered_as_something_is_that_or_none(register, value, message):
    class N(nn.Module):
        pass

    module = N()
    with pytest.raises(TypeError, match=message):
        getattr(module, register)("x", value)
    assert not hasattr(module, "x")
    getattr(module, register)("x", None)


def test_a_buffer_stays_a_tensor_or_none():
    module = nn.BatchNorm1d(2)
    with pytest.raises(TypeError, match="BatchNorm1d.running_mean is a buffer"):
        module.running_mean = 0.5
    assert module.running_mean.tolist() == [0, 0]
    module.running_mean = None
    module.running_mean = mg.ones(2)
    assert "running_mean" in module.state_dict()


def test_a_module_in_the_place_of_a_buffer_is_a_module():
    module = nn.BatchNorm1d(2, affine=False)
    module.running_mean = nn.Linear(1, 1, bias=False)
    assert list(module.state_dict()) == [
        "running_var",
        "num_batches_tracked",
        "running_mean.weight",
    ]
    assert [name for name, _ in module.named_buffers()] == ["running_var", "num_batches_tracked"]


@pytest.mark.parametrize("dtype", [mg.int64, "int8", bool])
def test_a_module_is_not_moved_to_a_dtype_that_cuts_off_its_values(dtype):
    module = nn.Linear(2, 2)
    before = module.weight.tolist()
    with pytest.raises(TypeError, match=r"Linear.to\(.*\): parameters are floating or complex"):
        module.to(dtype)
    assert module.weight.tolist() == before and module.weight.dtype == mg.float32


def test_what_is_used_in_two_places_comes_by_both_paths_where_that_is_asked_for():
    class Tied(nn.Module):
        def __init__(self):
            self.a = nn.BatchNorm1d(2, affine=False)
            self.b = self.a
            self.w = nn.Linear(2, 2, bias=False)
            self.v = nn.Linear(2, 2, bias=False)
            self.v.weight = self.w.weight

    net = Tied()
    names = lambda walk: [name for name, _ in walk]
    assert names(net.named_modules(prefix="n", remove_duplicate=False)) == [
        "n",
        "n.a",
        "n.b",
        "n.w",
        "n.v",
    ]
    assert names(net.named_parameters()) == ["w.weight"]
    both = {"w.weight", "v.weight"}
    assert {*names(net.named_parameters(remove_duplicate=False))} == both
    assert len(names(net.named_buffers())) == 3
    everything = {*names(net.named_buffers(remove_duplicate=False))} | both
    assert everything == {*net.state_dict()}


def test_assigned_arrays_that_cannot_be_written_into_are_copied(tmp_path):
    np.save(tmp_path / "weight.npy", np.ones((2, 3), np.float32))
    weight = np.load(tmp_path / "weight.npy", mmap_mode="r")
    layer = nn.Linear(3, 2)
    bias = np.broadcast_to(np.float32(1), 2)
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    layer(mg.ones(1, 3, dtype=mg.float32)).sum().backward()
    mg.optim.SGD(layer.parameters(), lr=0.5).step()
    assert layer.weight.tolist() == [[0.5] * 3] * 2 and layer.bias.tolist() == [0.5, 0.5]
    assert (weight == 1).all()


def test_assigned_arrays_of_another_library_become_numpy_s():
    class Foreign:
        """As JAX's: no NumPy array, with a dtype and a shape, that says what is in it."""

        shape, dtype = (2, 3), np.dtype(np.float32)

        def __array__(self, dtype=None, copy=None):
            return np.ones(self.shape, self.dtype)

    layer = nn.Linear(3, 2, bias=False)
    layer.load_state_dict({"weight": Foreign()}, assign=True)
    assert type(layer.weight.data) is np.ndarray and layer.weight.tolist() == [[1.0] * 3] * 2


def test_a_buffer_set_as_an_attribute_is_registered():
    class Net(nn.Module):
        def __init__(self):
            self.mean = nn.Buffer(mg.zeros(2))
            self.mask = nn.Buffer(np.ones(2), persistent=False)

    net = Net()
    assert [name for name, _ in net.named_buffers()] == ["mean", "mask"]
    assert list(net.state_dict()) == ["mean"] and not list(net.parameters())
    net.mask = nn.Buffer(mg.ones(3))  # what is set later counts
    assert list(net.state_dict()) == ["mean", "mask"]
    net.mean = mg.ones(2)  # a buffer stays one
    assert net.state_dict()["mean"].tolist() == [1, 1] and net.half().mean.dtype == np.float16
    with pytest.raises(TypeError, match=r"Net\.mean is a buffer"):
        net.mean = np.ones(2)


def test_a_buffer_takes_the_place_of_no_parameter():
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="is a parameter"):
        layer.weight = nn.Buffer(mg.ones(2, 2))


def test_a_buffer_is_a_tensor_without_gradient_that_survives_a_copy():
    data = np.arange(3.0)
    buffer = nn.Buffer(data, persistent=False)
    assert isinstance(buffer, mg.Tensor) and not buffer.requires_grad
    assert np.shares_memory(buffer.numpy(), data) and type(buffer * 2) is mg.Tensor
    for copied in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert type(copied) is nn.Buffer and copied.tolist() == [0, 1, 2]
        assert copied.persistent is False
    assert nn.Buffer().shape == (0,) and nn.Buffer().persistent


def test_a_copied_module_keeps_its_buffers():
    module = nn.Module()
    module.scale = nn.Buffer(mg.ones(1))
    twin = copy.deepcopy(module)
    twin.scale += 1
    assert twin.state_dict()["scale"].tolist() == [2] and module.scale.tolist() == [1]
