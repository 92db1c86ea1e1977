"""What an optimizer keeps of its parameters, at hand by parameter; and its hooks."""

import copy
import pickle
from collections import defaultdict

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

pytestmark = pytest.mark.promise(
    "a damaged state of an optimizer, a schedule or averages is one clear error and changes nothing"
)


class OwnStep(optim.Optimizer):
    """Momentum as scripts for PyTorch write it: a step of its own, tensors in `state`."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @mg.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["buffer"] = mg.zeros_like(p)
                    state["scales"] = np.ones(2)
                state["step"] += 1
                state["buffer"] *= 0.9
                state["buffer"] += p.grad
                p -= group["lr"] * state["buffer"]


def leaves(count=2):
    return [mg.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(count)]


def stepped(optimizer, params, times=1):
    for _ in range(times):
        for i, p in enumerate(params):
            p.grad = mg.tensor([0.1, 0.2, 0.3]) * (i + 1)
        optimizer.step()
    return [p.tolist() for p in params]


def test_the_state_is_found_by_parameter():
    params = leaves()
    optimizer = optim.SGD(params, lr=0.1, momentum=0.9)
    assert optimizer.state[params[0]] == {}
    stepped(optimizer, params)
    assert list(optimizer.state) == params
    np.testing.assert_allclose(optimizer.state[params[1]]["momentum_buffer"], [0.2, 0.4, 0.6])


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad])
def test_a_state_changed_by_hand_holds_from_the_next_step_on(kind):
    (changed, other), (fresh,) = leaves(), leaves(1)
    optimizer = kind([changed, other], lr=0.1)
    stepped(optimizer, [changed, other], times=3)
    del optimizer.state[changed]
    mg.no_grad()(changed.copy_)(fresh)
    assert stepped(optimizer, [changed])[0] == stepped(kind([fresh], lr=0.1), [fresh])[0]


def test_a_state_set_anew_makes_the_optimizer_forget():
    params, fresh = leaves(), leaves()
    optimizer = optim.Adam(params, lr=0.1)
    stepped(optimizer, params, times=3)
    optimizer.state = defaultdict(dict)
    for p, q in zip(params, fresh, strict=True):
        mg.no_grad()(p.copy_)(q)
    assert stepped(optimizer, params) == stepped(optim.Adam(fresh, lr=0.1), fresh)


def test_the_state_of_a_step_of_ones_own_is_saved_and_goes_on():
    params, others = leaves(), leaves()
    optimizer, other = OwnStep(params), OwnStep(others)
    stepped(optimizer, params, times=2)
    other.load_state_dict(optimizer.state_dict())
    assert isinstance(other.state[others[0]]["buffer"], mg.Tensor)
    assert other.state[others[0]]["scales"].shape == (2,)
    for p, q in zip(params, others, strict=True):
        mg.no_grad()(q.copy_)(p)
    assert stepped(optimizer, params, 2) == stepped(other, others, 2)


@pytest.mark.parametrize("kind", ["Adam", "SGD", "LBFGS"])
def test_a_state_of_pytorchs_in_bfloat16_with_a_rate_in_a_tensor_goes_on(kind):
    torch = pytest.importorskip("torch")
    theirs = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    options = {"SGD": {"momentum": 0.5}, "LBFGS": {"max_iter": 2}}.get(kind, {})
    other = getattr(torch.optim, kind)([theirs], lr=torch.tensor(0.125), **options)
    ours = mg.ones(3, dtype=mg.float32, requires_grad=True)
    optimizer = getattr(optim, kind)([ours], **options)

    def step(opt, p):
        def closure():
            opt.zero_grad()
            loss = ((p - 3) ** 2).sum()
            loss.backward()
            return loss

        opt.step(closure)

    step(other, theirs)
    optimizer.load_state_dict(other.state_dict())
    assert type(optimizer.param_groups[0]["lr"]) is float
    mg.no_grad()(ours.copy_)(theirs.detach().float().numpy())
    step(other, theirs), step(optimizer, ours)
    np.testing.assert_allclose(ours.detach(), theirs.detach().float().numpy(), rtol=2e-2)


def test_a_copy_keeps_the_state_of_its_own_parameters():
    params = leaves()
    optimizer = OwnStep(params)
    stepped(optimizer, params)
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        own = copied.param_groups[0]["params"]
        assert [id(p) for p in copied.state] == [id(p) for p in own]
        assert copied.state[own[1]]["buffer"].tolist() == [0.2, 0.4, 0.6]


def test_lbfgs_keeps_its_memory_with_the_first_parameter():
    params = leaves()
    optimizer = optim.LBFGS(params)

    def closure():
        optimizer.zero_grad()
        loss = sum(((p - 5.0) ** 2).sum() for p in params)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert optimizer.state[params[0]]["n_iter"] > 0 and len(optimizer.state) == 1


# -- hooks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [optim.SGD, OwnStep])
def test_hooks_run_before_and_after_each_step(kind):
    params, seen = leaves(), []
    optimizer = kind(params, lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("pre", params[0][0])))
    after = optimizer.register_step_post_hook(
        lambda o, args, kwargs: seen.append(("post", o is optimizer, args, kwargs))
    )
    stepped(optimizer, params)
    after.remove()
    stepped(optimizer, params)
    assert [what[0] for what in seen] == ["pre", "post", "pre"]
    assert seen[0][1].item() == 1 and seen[1][1:] == (True, (optimizer,), {})


def test_a_step_pre_hook_may_replace_the_arguments():
    params = leaves(1)
    optimizer = optim.SGD(params, lr=0.1)
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7.0), {})):
        assert optimizer.step() == 7
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: 3):
        with pytest.raises(RuntimeError, match=r"SGD: a step pre hook returned 3; it returns None"):
            optimizer.step()
    assert optimizer.step() is None


def test_a_step_that_calls_its_bases_is_one_step_to_hooks():
    class Loud(optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    params, seen = leaves(), []
    optimizer = Loud(params, lr=0.1)
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
    stepped(optimizer, params)
    assert seen == ["post"]


@pytest.mark.parametrize("kind", [optim.Adam, optim.LBFGS])
def test_hooks_see_and_replace_what_is_saved_and_loaded(kind):
    optimizer, seen = kind(leaves(), lr=0.1), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "note": 1})
    optimizer.register_state_dict_post_hook(lambda o, state: seen.append([*state]), prepend=True)
    saved = optimizer.state_dict()
    assert saved["note"] == 1 and seen == ["saving", ["state", "param_groups"]]

    def slower(o, state):
        groups = [{**group, "lr": 0.01} for group in state["param_groups"]]
        return {**state, "param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(slower)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(saved)
    assert seen[-1] == 0.01 and saved["param_groups"][0]["lr"] == 0.1


def test_a_copy_has_no_hooks():
    optimizer = optim.SGD(leaves(), lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: None)
    assert copy.deepcopy(optimizer)._hooks == () and pickle.loads(pickle.dumps(optimizer))


def stepped_adam():
    p = mg.tensor([1.0], requires_grad=True)
    p.grad = mg.ones(1)
    optimizer = optim.Adam([p])
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("place", [1, -1])
def test_loading_refuses_the_state_of_a_parameter_that_is_not_there(place):
    optimizer = stepped_adam()
    saved = optimizer.state_dict()
    saved["state"][place] = saved["state"].pop(0)
    with pytest.raises(ValueError, match=f"a state of parameter {place}, and there are 1"):
        optimizer.load_state_dict(saved)


def test_loading_refuses_what_is_no_array():
    optimizer = stepped_adam()
    saved = optimizer.state_dict() | {"state": {0: {"step": 1, "exp_avg": 0.5}}}
    with pytest.raises(TypeError, match="exp_avg of parameter 0 is 0.5, and has to be an array"):
        optimizer.load_state_dict(saved)


@pytest.mark.parametrize("names", [[1, 0], ["bias", "weight"], [140_000_000_000_016, 7]])
def test_a_state_belongs_to_the_parameter_where_the_saved_groups_have_its_name(names):
    a, b = (nn.Parameter(mg.tensor([float(i)])) for i in range(2))
    optimizer = optim.SGD([a, b], momentum=0.9)
    states = [{"momentum_buffer": np.array([value], np.float32)} for value in (3.0, 5.0)]
    groups = [{**optimizer.state_dict()["param_groups"][0], "params": names}]
    optimizer.load_state_dict(
        {"state": dict(zip(reversed(names), reversed(states), strict=True)), "param_groups": groups}
    )
    assert [optimizer.state[p]["momentum_buffer"].item() for p in (a, b)] == [3.0, 5.0]


def test_saved_groups_without_parameters_are_no_state():
    optimizer = optim.SGD([nn.Parameter(mg.ones(1))])
    with pytest.raises(mg.errors.StateError, match="a dictionary with 'params'; got keys"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"lr": 0.1}]})


@pytest.mark.parametrize("state", [[1], 3, {0: 5}, {0: [1]}])
def test_a_damaged_state_is_one_clear_error_and_changes_nothing(state):
    optimizer = stepped_adam()
    before = repr(optimizer.state_dict())
    with pytest.raises(
        ValueError, match=r"Adam\.load_state_dict: the state is damaged, or another"
    ):
        optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    assert repr(optimizer.state_dict()) == before


def test_averages_of_which_one_is_damaged_change_none():
    average = optim.EMA([mg.ones(2, requires_grad=True), mg.ones(1, requires_grad=True)])
    before = repr(average.state_dict())
    state = {"averages": [np.zeros(2), np.array(["x"])], "updates": 3}
    with pytest.raises(ValueError, match=r"EMA\.load_state_dict: the state is damaged"):
        average.load_state_dict(state)
    assert repr(average.state_dict()) == before
