"""The options of mg.grad that PyTorch's scripts give it."""

import numpy as np
import pytest

import minigrad as mg


def leaves():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    return x, mg.tensor([[3.0]], dtype="float16", requires_grad=True)


def test_an_unused_input_gets_zeros_of_its_kind_when_asked():
    x, w = leaves()
    gx, gw = mg.grad((x * x).sum(), iter([x, w]), materialize_grads=True)
    assert gx.tolist() == [2, 4]
    assert gw.tolist() == [[0]] and gw.dtype == np.float16


def test_the_only_value_of_only_inputs_is_true():
    x, _ = leaves()
    assert mg.grad((x * x).sum(), x, only_inputs=True).tolist() == [2, 4]
    with pytest.raises(ValueError, match=r"only_inputs=False .* that is outputs.backward\(\)"):
        mg.grad((x * x).sum(), x, only_inputs=False)


def test_batched_cotangents_are_a_map_and_the_error_says_so():
    x, _ = leaves()
    with pytest.raises(NotImplementedError, match=r"mg.func.vmap\(lambda g"):
        mg.grad(x * x, x, mg.eye(2), is_grads_batched=True)
    _, vjp_fn = mg.func.vjp(lambda x: x * x, x)
    assert mg.func.vmap(vjp_fn)(mg.eye(2, dtype=x.dtype))[0].tolist() == [[2, 0], [0, 4]]


@pytest.mark.parametrize("option", [{"workers": 2}, {"min_work": 0}])
def test_options_of_several_threads_are_refused_by_engines_of_one(option):
    x = mg.tensor([1.0], requires_grad=True)
    for run in (
        lambda: x.sum().backward(**option),
        lambda: mg.grad(x.sum(), x, **option),
        lambda: mg.gradients(x.sum(), **option),
    ):
        with pytest.raises(ValueError, match="'serial' runs in one thread: pass engine='parallel'"):
            run()
    with mg.Tape() as tape:
        y = x.sum()
    with pytest.raises(ValueError, match="runs in one thread"):
        mg.grad(y, x, engine=tape, **option)
