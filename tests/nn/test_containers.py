"""Rows and dictionaries of modules and parameters behave as Python's and are found by walks."""

from collections import OrderedDict

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


def names(module):
    return [name for name, _ in module.named_parameters()]


def test_sequential_indexes_appends_and_counts():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert len(net.append(nn.Linear(3, 1))) == 3
    assert net[-1].out_features == 1
    assert net(mg.ones(4, 2, dtype="float32")).shape == (4, 1)


def test_an_index_is_a_place_and_not_a_name():
    a, b, c, d = (nn.Linear(2, 2) for _ in range(4))
    assert nn.Sequential(a, b, c, d)[::2][1] is c and nn.Sequential(a, b, c)[1:][1] is c
    row = nn.ModuleList([a, b, c, d])
    assert row[1:][0] is b and row[::2][1] is c and row[-1] is d and row[np.int64(2)] is c
    del row[0]
    assert [row[i] for i in range(len(row))] == [b, c, d]
    with pytest.raises(IndexError):
        row[3]


def test_sequential_takes_names():
    net = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU()})
    assert names(net) == ["first.weight", "first.bias"]
    assert net[1] is net.act and net(mg.ones(1, 2, dtype="float32")).shape == (1, 3)


def test_a_named_sequential_is_changed_like_a_list_and_keeps_its_names():
    a, b, c, d = (nn.Linear(2, 2) for _ in range(4))
    net = nn.Sequential({"a": a, "b": b})
    net[1] = c
    assert net.insert(0, d) is net
    assert [*net.named_children()] == [("0", d), ("a", a), ("b", c)]
    assert [*net[1:].named_children()] == [("a", a), ("b", c)]
    assert net.pop(1) is a and [*net.named_children()] == [("0", d), ("b", c)]
    net.append(a)
    del net[0]
    assert [*net.named_children()] == [("b", c), ("1", a)]


def test_a_name_that_is_a_number_is_not_lost():
    a, b = nn.ReLU(), nn.Tanh()
    assert [*nn.Sequential({"1": a}).append(b)] == [a, b]


def test_a_slice_of_a_subclass_needs_no_arguments():
    class Block(nn.Sequential):
        def __init__(self, width=3):
            super().__init__(nn.Linear(2, width), nn.ReLU())

    part = Block(4).eval()[:1]
    assert type(part) is Block and not part.training
    assert len(part) == 1 and part[0].out_features == 4


def test_a_slice_takes_the_states_that_its_modules_had():
    a, b, c = (nn.Linear(1, 1, bias=False) for _ in range(3))
    part = nn.Sequential(a, b, c)[1:]
    assert list(part.state_dict()) == ["1.weight", "2.weight"]  # PyTorch's
    part[0] = a
    assert [*part.append(b).named_children()] == [("1", a), ("2", c), ("3", b)]
    assert [name for name, _ in (part + [nn.ReLU()]).named_children()] == ["0", "1", "2", "3"]
    assert list(nn.ModuleList([a, b, c])[1:].state_dict()) == ["0.weight", "1.weight"]


def test_sequential_refuses_what_is_no_module():
    with pytest.raises(TypeError, match="argument 1 is a function"):
        nn.Sequential(nn.ReLU(), lambda x: x)
    with pytest.raises(TypeError, match="argument 'act' is a function"):
        nn.Sequential({"act": lambda x: x})
    with pytest.raises(KeyError, match="'forward' cannot be a module"):
        nn.Sequential({"forward": nn.ReLU()})


def test_a_module_list_is_a_list():
    a, b, c, d = (nn.Linear(1, i) for i in range(1, 5))
    layers = nn.ModuleList([a, b])
    layers.extend([c])
    layers.insert(0, d)
    assert [*layers] == [d, a, b, c] and len(layers) == 4
    layers[1] = c
    del layers[-1]
    assert [*layers] == [d, c, b] and [*layers[1:]] == [c, b]
    assert names(layers)[0] == "0.weight"
    assert layers.pop() is b and [*(layers + [a, b])] == [d, c, a, b] and len(layers) == 2
    layers += [a]
    layers[:2] = [b]
    assert [*layers] == [b, a] and layers.pop(0) is b


def test_a_module_list_refuses_a_tensor():
    with pytest.raises(TypeError, match="ModuleList takes modules; argument 1 is a Tensor"):
        nn.ModuleList([nn.ReLU(), mg.ones(1)])


def test_a_module_dict_is_a_dictionary():
    a, b = nn.Linear(1, 1), nn.ReLU()
    parts = nn.ModuleDict({"a": a})
    parts["b"] = b
    assert list(parts) == list(parts.keys()) == ["a", "b"] and [*parts.values()] == [a, b]
    assert "a" in parts and parts.pop("a") is a and "a" not in parts and len(parts) == 1
    assert parts.get("b") is b and parts.get("c") is None
    with pytest.raises(KeyError, match=r"has no 'c'; it has \['b'\]"):
        parts["c"]
    with pytest.raises(KeyError, match="'forward' cannot be a key"):
        parts["forward"] = b
    with pytest.raises(TypeError, match=r"ModuleDict\['x'\] must be a Module"):
        parts["x"] = 3
    parts.clear()
    assert not len(parts)


def test_parameter_lists_and_dicts_make_parameters():
    net = nn.Module()
    net.rows = nn.ParameterList([np.ones(2), nn.Parameter(np.zeros(3))])
    net.named = nn.ParameterDict({"scale": np.ones(1)})
    assert names(net) == ["rows.0", "rows.1", "named.scale"]
    (net.rows[0].sum() * net.named["scale"]).sum().backward()
    assert net.named["scale"].grad.item() == 2
    assert list(net.state_dict()) == names(net)


def test_a_sequential_times_a_number_repeats_its_modules():
    a, b = nn.Linear(1, 1), nn.Tanh()
    row = nn.Sequential(a, b)
    assert [*(row * 2)] == [*(2 * row)] == [a, b, a, b] and len(row) == 2
    row *= 3
    assert [*row] == [a, b] * 3 and [*row.state_dict()][-1] == "4.bias"
    x = mg.ones((1, 1), dtype="float32")
    np.testing.assert_array_equal(row(x).detach(), b(a(b(a(b(a(x)))))).detach())
    for times in (0, -1, 1.5):
        with pytest.raises(ValueError, match="repeated 1 or more times"):
            row * times


def test_a_parameter_dict_has_the_methods_of_a_dictionary():
    p = nn.ParameterDict({"a": np.ones(1), "b": np.ones(2)})
    assert list(reversed(p)) == ["b", "a"] and p.setdefault("a", np.ones(9)) is p["a"]
    assert isinstance(p.setdefault("c", np.ones(3)), nn.Parameter)
    both = p | {"d": np.ones(4)}
    assert isinstance(both, nn.ParameterDict) and list(both) == ["a", "b", "c", "d"]
    assert both["a"] is p["a"] and list(p.copy()) == ["a", "b", "c"]
    p |= {"e": np.ones(5)}
    assert p.popitem()[0] == "e" and list(p) == ["a", "b", "c"]
    assert list(nn.ParameterDict.fromkeys("xy", np.zeros(1))) == ["x", "y"]
    with pytest.raises(KeyError, match="the ModuleDict is empty"):
        nn.ModuleDict().popitem()


def test_a_parameter_dict_takes_the_entries_of_a_plain_dictionary_by_their_keys_as_pytorch_does():
    torch = pytest.importorskip("torch")
    entries = {"b": 1.0, "a": 2.0, "C": 3.0}
    for kind in (dict, OrderedDict, lambda entries: [*entries.items()]):
        ours = nn.ParameterDict(kind({key: np.ones(1) for key in entries}))
        theirs = torch.nn.ParameterDict(kind({key: torch.ones(1) for key in entries}))
        assert [*ours] == [*theirs] == [name for name, _ in theirs.named_parameters()]
    ours.update({"z": np.ones(1), "y": np.ones(1)})
    assert [*ours] == [*entries, "y", "z"] == [*ours.copy()]


def test_a_child_of_two_names_is_one_child_and_is_shown_and_saved_under_both():
    net = nn.Module()
    net.a, net.b = nn.Linear(1, 1, bias=False), nn.Tanh()
    net.c = net.a
    assert [*net.named_children()] == [("a", net.a), ("b", net.b)]
    assert [*net.children()] == [net.a, net.b]
    assert list(net.state_dict()) == ["a.weight", "c.weight"] and "(c): Linear" in repr(net)
