"""Hooks of modules are called in order, may replace what passes, and see PyTorch's gradients."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.errors import HookError


def layer():
    net = nn.Linear(2, 2, bias=False, dtype=np.float64)
    net.weight.data[...] = [[1, 2], [3, 4]]
    return net


def test_hooks_run_in_the_order_of_registration_around_forward():
    net, heard = layer(), []
    net.register_forward_hook(lambda m, args, y: heard.append(("after", y.shape)))
    net.register_forward_pre_hook(lambda m, args: heard.append(("before", len(args))))
    net.register_forward_hook(lambda m, args, y: heard.append(("last", m is net)))
    net(mg.ones(3, 2))
    assert heard == [("before", 1), ("after", (3, 2)), ("last", True)]


def test_hooks_replace_arguments_and_results():
    net = layer()
    net.register_forward_pre_hook(lambda m, args: args[0] * 10)
    net.register_forward_hook(lambda m, args, y: y + 1)
    assert net(mg.ones(1, 2)).tolist() == [[31, 71]]


def test_hooks_with_keywords_see_and_replace_them():
    class Scale(nn.Module):
        def forward(self, x, by=1):
            return x * by

    net, seen = Scale(), []
    net.register_forward_pre_hook(lambda m, a, k: (a, {"by": k["by"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda m, a, k, y: seen.append(k), with_kwargs=True)
    assert net(mg.ones(1), by=2).item() == 3 and seen == [{"by": 3}]


def test_a_removed_hook_is_silent():
    net, heard = layer(), []
    handle = net.register_forward_hook(lambda *_: heard.append(1))
    with net.register_forward_hook(lambda *_: heard.append(2)):
        net(mg.ones(1, 2))
    handle.remove(), handle.remove()
    net(mg.ones(1, 2))
    assert heard == [1, 2]


def test_full_backward_hooks_see_the_gradients_of_inputs_and_results():
    net, seen = layer(), []
    net.register_full_backward_pre_hook(lambda m, out: seen.append(out))
    net.register_full_backward_hook(lambda m, gin, out: seen.append((gin, out)))
    x = mg.ones(1, 2, requires_grad=True)
    h = x * 1.0
    (net(h) * mg.tensor([1.0, 10.0]) + h).sum().backward()
    (pre,), (gin, out) = seen
    assert pre.tolist() == out[0].tolist() == [[1, 10]]
    assert gin[0].tolist() == [[31, 42]]  # of this module's use of h, not of the other one
    assert x.grad.tolist() == [[32, 43]]
    assert net.weight.grad.tolist() == [[1, 1], [10, 10]]


def test_a_double_backward_calls_a_full_backward_hook_only_if_it_passes_the_results():
    loss, seen = nn.MSELoss(), []
    loss.register_full_backward_hook(
        lambda m, gin, out: seen.append((gin[0].item(), out[0].item()))
    )
    x = mg.tensor(3.0, requires_grad=True)
    y = loss(x, mg.tensor(1.0))
    g = mg.grad(y, x, create_graph=True)
    assert seen == [(4.0, 1.0)]
    assert mg.grad(g, x, retain_graph=True).item() == 2.0
    assert seen == [(4.0, 1.0)]  # this gradient went to x through the derivative, not through y
    (10 * y + g).backward()
    assert seen == [(4.0, 1.0), (42.0, 10.0)]


def test_backward_hooks_may_replace_gradients():
    net = layer()
    net.register_full_backward_pre_hook(lambda m, out: (out[0] * 2,))
    net.register_full_backward_hook(lambda m, gin, out: (gin[0] + 1,))
    x = mg.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert x.grad.tolist() == [[9, 13]] and net.weight.grad.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("count", [0, 2])
def test_a_backward_hook_that_returns_another_number_of_gradients_is_refused(count):
    for register, of in (("_hook", "inputs"), ("_pre_hook", "results")):
        linear, x = nn.Linear(3, 2), mg.ones((4, 3), requires_grad=True)
        hook = lambda module, *grads: (grads[0][0],) * count
        getattr(linear, f"register_full_backward{register}")(hook)
        with pytest.raises(HookError, match=f"Linear returned {count} gradients for 1 {of}"):
            linear(x).sum().backward()


def test_a_hook_may_be_put_before_those_there_are():
    linear, order = nn.Linear(3, 2), []
    for name in ("forward_pre", "forward", "full_backward_pre", "full_backward"):
        register = getattr(linear, f"register_{name}_hook")
        register(lambda *_, name=name: order.append(f"{name} last"))
        register(lambda *_, name=name: order.append(f"{name} first"), prepend=True)
    linear(mg.ones((4, 3), requires_grad=True)).sum().backward()
    names = ("forward_pre", "forward", "full_backward_pre", "full_backward")
    assert order == [f"{name} {place}" for name in names for place in ("first", "last")]


def test_inputs_without_a_gradient_are_none_and_several_results_are_seen():
    class Two(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(np.ones(1))

        def forward(self, x, n):
            return x * self.w, x + n

    net, seen = Two(), []
    net.register_full_backward_hook(lambda m, gin, out: seen.append((gin, out)))
    a, b = net(mg.ones(1), 3)
    a.backward()
    (gin, out) = seen.pop()
    assert gin == (None, None) and out[0].tolist() == [1] and out[1] is None
    x = mg.ones(1, requires_grad=True)
    a, b = net(x, 3)
    (a + 2 * b).sum().backward()
    (gin, out) = seen.pop()
    assert gin[0].tolist() == [3] and gin[1] is None and [g.item() for g in out] == [1, 2]


def test_backward_hooks_equal_pytorchs():
    torch = pytest.importorskip("torch")

    def run(lib, make, leaf):
        net, seen = lib.Sequential(make(), lib.Tanh(), make()), []
        for part in net.modules():
            part.register_full_backward_hook(
                lambda m, gin, out: seen.append((type(m).__name__, gin[0], out[0]))
            )
        net(leaf).sum().backward()
        return [(name, np.asarray(a.detach()), np.asarray(b.detach())) for name, a, b in seen]

    def theirs():
        net = torch.nn.Linear(2, 2, bias=False).double()
        net.weight.data[...] = torch.tensor([[1.0, 2], [3, 4]])
        return net

    x = [[0.1, -0.2], [0.3, 0.05]]
    ours = run(nn, layer, mg.tensor(x, requires_grad=True))
    other = run(torch.nn, theirs, torch.tensor(x, dtype=torch.float64, requires_grad=True))
    assert [name for name, *_ in ours] == [name for name, *_ in other]
    for (_, *a), (_, *b) in zip(ours, other, strict=True):
        for g, h in zip(a, b, strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-12)


def test_backward_hooks_are_quiet_without_recording():
    net = layer()
    net.register_full_backward_hook(lambda *_: pytest.fail("no backward ran"))
    with mg.no_grad():
        assert net(mg.ones(1, 2, requires_grad=True)).tolist() == [[3, 7]]


def test_a_copy_has_hooks_of_its_own():
    net, heard = layer(), []
    handle = net.register_forward_hook(lambda m, *_: heard.append(m))
    twin = copy.deepcopy(net)
    handle.remove()
    twin(mg.ones(1, 2)), net(mg.ones(1, 2))
    assert heard == [twin]


@pytest.mark.parametrize("given", [5, (1, 2, 3), (), {}])
def test_a_pre_hook_with_kwargs_that_returns_something_else_is_named(given):
    net = layer()
    net.register_forward_pre_hook(lambda m, args, kwargs: given, with_kwargs=True)
    with pytest.raises(HookError, match=r"pre hook of Linear, .* returns None, or the tuple"):
        net(mg.ones(1, 2))


def test_a_named_tuple_stays_one_behind_a_backward_hook():
    net, seen = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5], div_value=2.0), []
    net.register_full_backward_hook(lambda m, gin, out: seen.append(gin[0].shape))
    x = mg.ones(2, 8, dtype="float32", requires_grad=True)
    net(x, np.array([1, 7])).loss.backward()
    assert seen == [(2, 8)]


def test_a_hook_that_is_no_function_is_refused_where_it_is_registered():
    with pytest.raises(TypeError, match="Linear: a hook is a function .* got 3"):
        layer().register_forward_hook(3)


@pytest.mark.parametrize("kind", ["module", "optimizer"])
def test_a_hook_keeps_nothing_alive_that_is_dropped(kind):
    model = nn.Linear(2, 2)
    if kind == "module":
        owner, handle = model, model.register_forward_hook(print)
    else:
        owner = mg.optim.SGD(model.parameters(), lr=0.1)
        handle = owner.register_step_post_hook(print)
    gone = weakref.ref(owner)
    gc.disable()
    try:
        del owner, model
        assert gone() is None
    finally:
        gc.enable()
    handle.remove()


def test_a_pickled_module_has_its_hook_and_a_handle_outlives_its_module():
    model = nn.Linear(2, 2)
    handle = model.register_forward_hook(print)
    again = pickle.loads(pickle.dumps(model))
    (hook,) = again._hooks
    hook.remove()
    assert again._hooks == () and model._hooks == (handle,)
    del model
    copy.copy(handle).remove()
