"""Whatever of the user's code raises, at whichever of its calls: gradients are whole or untouched,
every mode is what it was, and the next run has the right bits.
"""

import contextlib
import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import events, modes

pytestmark = pytest.mark.promise(
    "wherever the user's code raises, in every engine, gradients are whole or untouched. "
    "Modes, levels and listeners are as before, and the next run's bits right"
)

ENGINES = {
    "serial": {"engine": "serial"},
    "parallel": {"engine": "parallel", "workers": 2, "min_work": 0},
    "tape": {"engine": "tape"},
}
KINDS = [ValueError, KeyboardInterrupt, MemoryError, SystemExit]


class Fuse:
    """Counts the calls of the user's code, and ends the one of a given number in an error."""

    def __init__(self):
        self.calls, self.at, self.kind = 0, 0, None
        self.lock = threading.Lock()  # the parallel engine calls from several threads

    def set(self, at=0, kind=None):
        self.calls, self.at, self.kind = 0, at, kind

    def __call__(self, value=None):
        with self.lock:
            self.calls += 1
            burnt = self.calls == self.at
        if burnt:
            raise self.kind("burnt")
        return value


fuse = Fuse()


@mg.primitive(name="scaled_by_a_fuse")
def scaled(x, w):
    fuse()
    return x * w


@scaled.vjp("x")
def scaled_dx(g, w):
    return fuse(g * w)


@scaled.vjp("w")
def scaled_dw(g, x):
    return fuse(g * x)


class Cubed(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return fuse(x**3)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return fuse(g * 3 * x**2)


def leaves():
    rng = np.random.default_rng(0)
    return [mg.tensor(rng.standard_normal((3, 3)), requires_grad=True) for _ in range(3)]


def forward(params):
    """A loss through rules, a Function, hooks, packed arrays and a checkpoint of the user's."""
    a, b, c = params
    with mg.saved_tensors_hooks(lambda t: fuse(t.numpy().copy()), lambda t: fuse(mg.tensor(t))):
        h = scaled(np.tanh(a @ b), c)
    h.register_hook(lambda g: fuse(g * 2))
    h = mg.checkpoint(lambda h: fuse(np.sin(h @ b)), h)
    with mg.no_grad():
        fuse()
    return Cubed.apply(h).sum() + (a * c).sum()


def recording(options):
    return mg.Tape() if options.get("engine") == "tape" else contextlib.nullcontext()


def whole(params, options):
    for p in params:
        p.grad = None
    with recording(options) as _tape:
        loss = forward(params)
    loss.backward(**options)
    return [p.grad.numpy().tobytes() for p in params]


def at_rest():
    """The modes of this thread, and who listens to ops."""
    modes.state.set({})
    return modes.state.all(), events.listeners, mg.is_grad_enabled()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_at_any_call_of_the_users_code_leaves_gradients_whole_or_untouched(engine, kind):
    options, params = ENGINES[engine], leaves()
    fuse.set()
    right, calls, before = whole(params, options), fuse.calls, at_rest()
    assert calls > 10
    for at in range(1, calls + 1):
        for p in params:
            p.grad = mg.ones(3, 3)
        ones, backwards = mg.ones(3, 3).numpy().astype(params[0].dtype), False
        fuse.set(at, kind)
        with pytest.raises(kind, match="burnt"):
            with recording(options) as _tape:
                loss = forward(params)
            backwards = True
            loss.backward(**options)
        assert at_rest() == before, at
        for p, bits in zip(params, right, strict=True):
            added = (np.frombuffer(bits).reshape(3, 3) + 1).tobytes() if backwards else None
            assert p.grad.numpy().tobytes() in (ones.tobytes(), added), at
        fuse.set()
        assert whole(params, options) == right, at


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_graph_that_was_kept_can_be_gone_back_through_after_an_error_at_any_call(kind):
    params = leaves()
    fuse.set()
    right = whole(params, {})
    loss = forward(params)
    fuse.set()
    mg.grad(loss, params, retain_graph=True)
    for at in range(1, fuse.calls + 1):
        fuse.set(at, kind)
        with pytest.raises(kind, match="burnt"):
            mg.grad(loss, params, retain_graph=True)
        fuse.set()
        again = mg.grad(loss, params, retain_graph=True)
        assert [g.numpy().tobytes() for g in again] == right, at


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "hessian"])
def test_an_error_at_any_call_inside_a_transform_leaves_no_level_behind(transform, kind):
    x = mg.tensor(np.linspace(0.1, 0.9, 3))

    def f(x):
        return fuse((np.tanh(fuse(x)) ** 2).sum())

    run = {
        "grad": lambda: mg.func.grad(f)(x),
        "jvp": lambda: mg.func.jvp(f, (x,), (x,))[1],
        "vmap": lambda: mg.func.vmap(f)(np.stack([x, x])),
        "hessian": lambda: mg.func.hessian(f)(x),
    }[transform]
    fuse.set()
    right, calls, before = run().numpy().tobytes(), fuse.calls, at_rest()
    for at in range(1, calls + 1):
        fuse.set(at, kind)
        with pytest.raises(kind, match="burnt"):
            run()
        assert at_rest() == before
        fuse.set()
        assert run().numpy().tobytes() == right


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_at_any_call_inside_a_profile_or_a_log_leaves_nobody_listening(kind, tmp_path):
    params = leaves()
    fuse.set()
    right, calls, before = whole(params, {}), fuse.calls, at_rest()
    for at in range(1, calls + 1, 3):
        fuse.set(at, kind)
        with pytest.raises(kind), mg.profile(), mg.event_log(tmp_path / "log.jsonl", memory=True):
            whole(params, {})
        assert at_rest() == before
        assert [file.name for file in tmp_path.iterdir()] == ["log.jsonl"]
        fuse.set()
        assert whole(params, {}) == right
