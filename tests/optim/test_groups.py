"""What groups of parameters are made of: names, entries of the script's own, options."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim


def leaf(value=1.0):
    return mg.tensor([value], requires_grad=True)


def test_named_parameters_are_stepped_and_their_names_kept_in_the_group_and_the_state():
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    before = model.weight.numpy().copy()
    model(mg.ones((1, 2), dtype="float32")).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(model.weight.numpy(), before - 0.1, rtol=1e-6)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_each_group_may_name_its_parameters():
    a, b = leaf(), leaf()
    optimizer = optim.Adam([{"params": [("a", a)], "lr": 1}, {"params": [("b", b)]}])
    assert [group["param_names"] for group in optimizer.param_groups] == [["a"], ["b"]]
    assert [group["params"] for group in optimizer.param_groups] == [[a], [b]]


def test_names_are_given_to_all_parameters_or_to_none():
    with pytest.raises(TypeError, match=r"1 of 2 parameters are \(name, parameter\) pairs"):
        optim.SGD([("a", leaf()), leaf()])
    with pytest.raises(ValueError, match="either all groups are of"):
        optim.SGD([{"params": [("a", leaf())]}, {"params": [leaf()]}])


def test_what_a_group_has_besides_options_is_kept_saved_and_loaded(tmp_path):
    groups = lambda: [{"params": [leaf()], "name": "head", "lr_scale": 0.5}, {"params": [leaf()]}]
    optimizer = optim.AdamW(groups())
    assert optimizer.param_groups[0]["name"] == "head" and "name" not in optimizer.param_groups[1]
    optimizer.param_groups[0]["lr_scale"] = 0.25
    mg.save(optimizer.state_dict(), tmp_path / "state.npz")
    other = optim.AdamW(groups())
    other.load_state_dict(mg.load(tmp_path / "state.npz"))
    assert other.param_groups[0]["lr_scale"] == 0.25 and other.param_groups[0]["name"] == "head"


def test_steps_that_gradients_are_to_flow_through_are_refused_with_what_to_write():
    optim.SGD([leaf()], differentiable=False)
    with pytest.raises(TypeError, match="a step writes in place.*create_graph=True"):
        optim.SGD([leaf()], differentiable=True)
