"""Hooks around a module's state, states that are assigned, and modules put in another's place."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


def net():
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1)))


def test_hooks_before_a_state_dict_see_where_their_module_is():
    model, seen = net(), []
    model[1].register_state_dict_pre_hook(lambda *args: seen.append(args))
    model.state_dict()
    model.state_dict(prefix="model.", keep_vars=True)
    assert seen == [(model[1], "1.", False), (model[1], "model.1.", True)]


def test_a_hook_after_a_state_dict_changes_it():
    model = net()

    @model[1].register_state_dict_post_hook
    def rename(module, state, prefix, local_metadata):
        assert local_metadata.get("version") is None
        state[f"{prefix}head"] = state.pop(f"{prefix}0.weight")

    assert [*model.state_dict(prefix="m.")] == ["m.0.weight", "m.0.bias", "m.1.0.bias", "m.1.head"]


def test_a_hook_before_loading_renames_paths_of_a_copy():
    model, old = net(), net().state_dict()
    old["1.head"] = old.pop("1.0.weight")

    def rename(module, state, prefix, local_metadata, strict, missing, unexpected, errors):
        assert strict and not missing and not unexpected and not errors
        state[f"{prefix}0.weight"] = state.pop(f"{prefix}head")

    model[1].register_load_state_dict_pre_hook(rename)
    assert model.load_state_dict(old) == ([], [])
    assert (model[1][0].weight.numpy() == old["1.head"].numpy()).all()
    assert "1.head" in old


def test_what_a_hook_before_loading_finds_wrong_is_an_error_and_nothing_is_written():
    model = net()
    model.register_load_state_dict_pre_hook(lambda *args: args[-1].append("too old"))
    before = model.state_dict()
    with pytest.raises(ValueError, match="too old"):
        model.load_state_dict(net().state_dict())
    assert all((before[k].numpy() == v.numpy()).all() for k, v in model.state_dict().items())


def test_hooks_after_loading_run_from_below_and_may_strike_what_did_not_match():
    model, order = net(), []
    state = model.state_dict()
    del state["1.0.bias"]
    model.register_load_state_dict_post_hook(lambda module, keys: order.append(module))

    @model[1].register_load_state_dict_post_hook
    def forgive(module, keys):
        order.append(module)
        keys.missing_keys.remove("1.0.bias")

    assert model.load_state_dict(state) == ([], [])
    assert order == [model[1], model]
    del state["0.bias"]
    with pytest.raises(ValueError, match=r"missing: 0\.bias$"):
        model.load_state_dict(state)


def test_a_hook_of_a_state_that_was_removed_is_not_called():
    model = net()
    model.register_state_dict_pre_hook(lambda *args: 1 / 0).remove()
    model.register_load_state_dict_post_hook(lambda *args: 1 / 0).remove()
    model.load_state_dict(model.state_dict())


def test_an_assigned_state_brings_its_arrays_and_dtypes_and_the_parameters_stay():
    model = nn.BatchNorm1d(2)
    weight, state = model.weight, nn.BatchNorm1d(2).double().state_dict()
    model(mg.ones((3, 2), dtype="float32")).sum().backward()
    model.load_state_dict(state, assign=True)
    assert model.weight is weight and weight.requires_grad and weight.grad is None
    assert weight.data is state["weight"].data and model.running_mean.dtype == np.float64
    model(mg.ones((3, 2), dtype="float64")).sum().backward()
    assert weight.grad.dtype == np.float64


def test_an_assigned_state_has_the_shapes_and_parameters_that_can_have_a_gradient():
    model = nn.Linear(1, 1, bias=False)
    for wrong in (np.ones((1, 2)), np.ones((1, 1), int)):
        with pytest.raises(ValueError, match="weight: .* given, float32"):
            model.load_state_dict({"weight": wrong}, assign=True)


def test_a_module_is_put_at_a_path():
    model, new = net(), nn.ReLU()
    model.set_submodule("1.0", new, strict=True)
    model.set_submodule("1.1", new)
    model[1].head = None
    model.set_submodule("1.head", new)
    assert model[1][0] is model[1][1] is model.get_submodule("1.head") is new
    for path in ("1.5", "nowhere.0"):
        with pytest.raises(AttributeError, match="has nothing at"):
            model.set_submodule(path, new, strict=True)
    for path, module in (("", new), ("1", "relu")):
        with pytest.raises(TypeError, match="needs a path and a module"):
            model.set_submodule(path, module)


def test_modules_and_what_they_hold_may_be_walked_by_every_path():
    shared = nn.BatchNorm1d(1)
    model = nn.ModuleDict({"a": shared, "b": shared})
    every = {"remove_duplicate": False}
    assert [path for path, _ in model.named_modules(**every)] == ["", "a", "b"]
    assert [path for path, _ in model.named_parameters(**every)] == [
        "a.weight", "a.bias", "b.weight", "b.bias"
    ]  # fmt: skip
    assert len([*model.named_buffers(**every)]) == 2 * len([*model.named_buffers()]) == 6


def test_modules_of_a_memo_are_passed_over():
    model = net()
    memo = {model[1]}
    assert [path for path, _ in model.named_modules(memo, "net")] == ["net", "net.0"]
    assert memo == {model, model[0], model[1]}


def test_type_makes_integers_floats_too():
    model = nn.BatchNorm1d(2).type("float64")
    assert {x.dtype for x in model.state_dict().values()} == {np.dtype("float64")}


def test_a_module_may_be_moved_without_its_values():
    model = nn.Linear(2, 1)
    assert model.to_empty(device="cpu") is model and model.weight.shape == (1, 2)


def test_a_hook_that_is_always_called_sees_a_forward_that_raised():
    model, seen = nn.Linear(2, 1), []
    model.register_forward_hook(lambda *args: seen.append("never"))
    model.register_forward_hook(lambda module, args, y: seen.append(y), always_call=True)
    with pytest.raises(Exception, match="linear"):
        model(mg.ones((1, 5), dtype="float32"))
    assert seen == [None]
    model(mg.ones((1, 2), dtype="float32"))
    assert seen[1] == "never" and seen[2].shape == (1, 1)


def test_an_error_of_a_hook_that_is_always_called_does_not_hide_the_forwards():
    model, calls = nn.Linear(2, 1), []

    def fails(*args):
        calls.append(args)
        raise KeyError("hook")

    model.register_forward_hook(fails, always_call=True)
    with pytest.warns(UserWarning, match="KeyError"), pytest.raises(Exception, match="linear"):
        model(mg.ones((1, 5), dtype="float32"))
    with warnings.catch_warnings(), pytest.raises(KeyError):
        warnings.simplefilter("error")
        model(mg.ones((1, 2), dtype="float32"))
    assert len(calls) == 2
