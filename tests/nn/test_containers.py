"""Rows and dictionaries of modules and parameters behave as Python's and are found by walks."""

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


def test_sequential_takes_names():
    net = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU()})
    assert names(net) == ["first.weight", "first.bias"]
    assert net[1] is net.act and net(mg.ones(1, 2, dtype="float32")).shape == (1, 3)


def test_sequential_refuses_what_is_no_module():
    with pytest.raises(TypeError, match="argument 1 is a function"):
        nn.Sequential(nn.ReLU(), lambda x: x)


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


def test_a_module_list_refuses_a_tensor():
    with pytest.raises(TypeError, match="ModuleList takes modules; argument 1 is a Tensor"):
        nn.ModuleList([nn.ReLU(), mg.ones(1)])


def test_a_module_dict_is_a_dictionary():
    a, b = nn.Linear(1, 1), nn.ReLU()
    parts = nn.ModuleDict({"a": a})
    parts["b"] = b
    assert list(parts) == list(parts.keys()) == ["a", "b"] and [*parts.values()] == [a, b]
    assert "a" in parts and parts.pop("a") is a and "a" not in parts and len(parts) == 1
    with pytest.raises(KeyError, match=r"has no 'c'; it has \['b'\]"):
        parts["c"]
    with pytest.raises(KeyError, match="'forward' cannot be a key"):
        parts["forward"] = b
    with pytest.raises(TypeError, match=r"ModuleDict\['x'\] is to be a Module"):
        parts["x"] = 3


def test_parameter_lists_and_dicts_make_parameters():
    net = nn.Module()
    net.rows = nn.ParameterList([np.ones(2), nn.Parameter(np.zeros(3))])
    net.named = nn.ParameterDict({"scale": np.ones(1)})
    assert names(net) == ["rows.0", "rows.1", "named.scale"]
    (net.rows[0].sum() * net.named["scale"]).sum().backward()
    assert net.named["scale"].grad.item() == 2
    assert list(net.state_dict()) == names(net)
