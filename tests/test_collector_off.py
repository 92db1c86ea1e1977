"""With the cyclic collector off, steps that repeat leave nothing behind for it."""

import gc

import numpy as np
import pytest

import minigrad as mg
from minigrad import func

x = mg.tensor([1.0, 2.0])
w = mg.tensor([1.0, 2.0], requires_grad=True)


def f(a):
    return mg.tanh(a) * a


TRANSFORMS = {
    "vmap": lambda: func.vmap(f)(x),
    "jvp": lambda: func.jvp(f, (x,), (x,)),
    "vjp": lambda: func.vjp(f, x)[1](x),
    "linearize": lambda: func.linearize(f, x)[1](x),
    "jacrev": lambda: func.jacrev(f)(x),
    "jacfwd": lambda: func.jacfwd(f)(x),
    "hessian": lambda: func.hessian(lambda a: f(a).sum())(x),
    "vmap of grad": lambda: func.vmap(func.grad(f))(x),
    "root": lambda: func.root(lambda y: y * y - x, x),
}


def profiled():
    with mg.profile(lines=True, memory=True):
        f(w).sum().backward()
    w.grad = None


def logged(path):
    with mg.event_log(path / "log.jsonl", memory=True):
        f(w).sum().backward()
    w.grad = None


def saved(path, suffix):
    state = {"a": x, "more": {f"w{i}": mg.ones(i + 1) for i in range(20)}}
    mg.save(state, path / f"state{suffix}")
    mg.load(path / f"state{suffix}")


def left_by(step) -> int:
    """How many objects ten steps leave to the collector, once caches are filled."""
    for _ in range(3):
        step()
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            step()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_leaves_nothing(name):
    assert left_by(TRANSFORMS[name]) == 0


def test_a_profile_leaves_nothing():
    assert left_by(profiled) == 0


def test_an_event_log_leaves_nothing(tmp_path):
    assert left_by(lambda: logged(tmp_path)) == 0


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_saving_and_loading_leave_nothing(tmp_path, suffix):
    assert left_by(lambda: saved(tmp_path, suffix)) == 0


@pytest.mark.parametrize("mode", [mg.detect_anomaly, mg.Tape, mg.no_grad])
def test_a_mode_leaves_nothing(mode):
    def step():
        with mode():
            f(w)

    assert left_by(step) == 0


def test_two_vjps_that_live_at_once_do_not_share_a_level():
    """A class of a level serves again only when nothing of the earlier run refers to it."""
    vjp_fns = [func.vjp(lambda a, k=k: f(a) * k, x)[1] for k in (1.0, 2.0, 3.0)]
    (once,) = func.vjp(f, x)[1](x)
    for k, vjp_fn in zip((1.0, 2.0, 3.0), vjp_fns, strict=True):
        np.testing.assert_allclose(vjp_fn(x)[0].numpy(), k * once.numpy())
