"""The engines that the benchmarks compare: each as a namespace with PyTorch's names.

Layers of engines that have none are those of `plain_layers.py`. A name that an engine has not is
missing from its namespace, which says why; the workloads that need it are left out.
`step(loss, leaves, g)` makes one step of forward and backward, which returns the gradients.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import plain_layers
from workloads import step

_NAMES = "tanh relu conv2d max_pool2d avg_pool2d cross_entropy gelu softmax layer_norm".split()


class Missing(AttributeError):
    """Why an engine has not what a workload needs."""


class Engine(SimpleNamespace):
    """An engine's names, and in `why` the reasons for those that are not there."""

    why: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        raise Missing(self.why.get(name, f"it has no {name}"))


_FUNCTIONS_ONLY = "it differentiates functions; the workload differentiates recorded tensors"


def minigrad(threads: int) -> Engine:
    import minigrad as mg
    from minigrad import data, nn, optim

    mg.set_num_threads(threads)
    return Engine(
        **{name: getattr(mg, name) for name in _NAMES}, nn=nn, step=step, grad=mg.grad,
        leaf=lambda v: mg.tensor(v, requires_grad=True), constant=mg.tensor, Adam=optim.Adam,
        attention=mg.scaled_dot_product_attention, DataLoader=data.DataLoader,
        TensorDataset=data.TensorDataset,
    )  # fmt: skip


def minigrad_tuned(threads: int) -> Engine:
    """With the process tuned: the C library's heap, processors of threads."""
    import minigrad as mg

    mg.accelerate(compiled=False)
    return minigrad(threads)


def minigrad_compiled(threads: int) -> Engine:
    """With large ops as loops compiled by numba; the process as "minigrad" has it."""
    import minigrad as mg

    mg.accelerate(process=False)
    return minigrad(threads)


def minigrad_tape(threads: int) -> Engine:
    """The step recorded once and replayed: static shapes, no graph built."""
    import minigrad as mg

    def replayed(loss: Callable, leaves: list, g: Any = None) -> Callable:
        with mg.Tape() as tape:
            y = loss(*leaves)
        seeds = {} if g is None else {"grad_outputs": g}
        program = tape.compile(y, leaves, wrt=leaves, copy=False, **seeds)
        return lambda: program(*leaves)[1]

    f = minigrad(threads)
    del f.Adam, f.TensorDataset, f.grad
    f.step = replayed
    f.why = {
        "Adam": "a compiled tape is a forward and a backward, not an optimizer's step",
        "TensorDataset": "loading data is not on a tape",
        "grad": "a compiled tape has one backward, none through the backward",
    }
    return f


def torch(threads: int) -> Engine:
    torch: Any = import_module("torch")
    data: Any = import_module("torch.utils.data")
    torch.set_num_threads(threads)
    functional = torch.nn.functional
    names = {name: getattr(functional, name) for name in _NAMES} | {"tanh": torch.tanh}
    return Engine(
        **names, nn=torch.nn, step=step, grad=torch.autograd.grad,
        leaf=lambda v: torch.tensor(v, requires_grad=True), constant=torch.tensor,
        Adam=torch.optim.Adam, attention=functional.scaled_dot_product_attention,
        DataLoader=data.DataLoader, TensorDataset=data.TensorDataset,
    )  # fmt: skip


def autograd(threads: int) -> Engine:
    anp: Any = import_module("autograd.numpy")
    make_vjp: Any = import_module("autograd").make_vjp
    value: Any = import_module("autograd.tracer").getval
    erf: Any = import_module("autograd.scipy.special").erf

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        def run() -> tuple:
            pull, y = make_vjp(lambda xs: loss(*xs))(tuple(leaves))
            return pull(np.ones_like(y) if g is None else g)

        return run

    def centred(x: Any) -> Any:
        """Less its maximum, which is a constant to softmax's derivative."""
        return x - value(x).max(-1, keepdims=True)

    def softmax(x: Any) -> Any:
        e = anp.exp(centred(x))
        return e / anp.sum(e, axis=-1, keepdims=True)

    def cross_entropy(x: Any, target: Any) -> Any:
        x = centred(x)
        logs = x - anp.log(anp.sum(anp.exp(x), axis=-1, keepdims=True))
        chosen = np.eye(x.shape[-1], dtype=x.dtype)[target]
        return anp.sum(logs * chosen) * (-1 / len(target))

    return _with_layers(Engine(
        numpy=anp, step=made, leaf=np.array, constant=np.array, tanh=anp.tanh,
        relu=lambda x: x * (x > 0),  # its maximum's derivative is float64
        gelu=lambda x: x * 0.5 * (1 + erf(x * 2**-0.5)), softmax=softmax, split=anp.split,
        cross_entropy=cross_entropy, conv2d=partial(plain_layers.conv2d, anp),
        max_pool2d=partial(plain_layers.max_pool2d, anp),
        why={
            "grad": _FUNCTIONS_ONLY,
            "Adam": "its optimizers (autograd.misc) are whole loops, not steps",
            "TensorDataset": "it has no loader of data",
        },
    ))  # fmt: skip


def mygrad(threads: int) -> Engine:
    my: Any = import_module("mygrad")
    nnet: Any = import_module("mygrad.nnet")
    my.turn_memory_guarding_off()

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        def run() -> list:
            for leaf in leaves:
                leaf.null_grad()
            loss(*leaves).backward(g)
            return [leaf.grad for leaf in leaves]

        return run

    def conv2d(x: Any, w: Any, b: Any, padding: int) -> Any:
        return nnet.conv_nd(x, w, stride=1, padding=padding) + b.reshape((-1, 1, 1))

    return _with_layers(Engine(
        numpy=my, step=made, leaf=my.tensor, constant=np.array, tanh=my.tanh, relu=nnet.relu,
        softmax=nnet.softmax, split=lambda x, n: [x[i : i + 1] for i in range(n)],
        cross_entropy=nnet.softmax_crossentropy, conv2d=conv2d,
        max_pool2d=lambda x, size: nnet.max_pool(x, (size, size), size),
        why={
            "gelu": "it has no erf",
            "grad": "it has first derivatives only",
            "Adam": "it has no optimizers",
            "TensorDataset": "it has no loader of data",
        },
    ))  # fmt: skip


def jax(threads: int) -> Engine:
    """Compiled by XLA: jit of the whole step."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        @jax.jit
        def pulled(g: Any, *xs: Any) -> Any:
            y, pull = jax.vjp(loss, *xs)
            return y, pull(jnp.ones_like(y) if g is None else g)

        # g is an argument: of a constant XLA computes an embedding's gradient once, in compiling.
        return lambda: jax.block_until_ready(pulled(g, *leaves))[1]

    def cross_entropy(x: Any, target: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), target[:, None], axis=-1).mean()

    def conv2d(x: Any, w: Any, b: Any, padding: int) -> Any:
        y = jax.lax.conv_general_dilated(x, w, (1, 1), [(padding, padding)] * 2)
        return y + b.reshape((-1, 1, 1))

    return _with_layers(Engine(
        numpy=jnp, step=made, leaf=jnp.array, constant=jnp.array, tanh=jnp.tanh,
        relu=jax.nn.relu, gelu=lambda x: jax.nn.gelu(x, approximate=False),
        softmax=jax.nn.softmax, split=jnp.split, cross_entropy=cross_entropy, conv2d=conv2d,
        # On a CPU twice as fast as lax.reduce_window.
        max_pool2d=partial(plain_layers.max_pool2d, jnp),
        why={
            "grad": _FUNCTIONS_ONLY,
            "Adam": "its optimizers are another package's (optax)",
            "TensorDataset": "it has no loader of data",
        },
    ))  # fmt: skip


def tinygrad(threads: int) -> Engine:
    Tensor: Any = import_module("tinygrad").Tensor

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        def run() -> list:
            y = loss(*leaves)
            gradients = (y if g is None else (y * g).sum()).gradient(*leaves)
            Tensor.realize(*gradients)
            return gradients

        return run

    return Engine(
        step=made, tanh=Tensor.tanh, leaf=lambda v: Tensor(v).realize(), constant=Tensor,
        gelu=lambda x: x * 0.5 * (1 + (x * 2**-0.5).erf()),
        why={"nn": "its layers are not written here"},
    )  # fmt: skip


def _with_layers(f: Engine) -> Engine:
    """f with layers and attention from its own functions."""
    f.nn = plain_layers.layers(f)
    f.attention = partial(plain_layers.attention, f)
    return f


ENGINES: dict[str, Callable[[int], Engine]] = {
    "minigrad": minigrad,
    "minigrad tuned": minigrad_tuned,
    "minigrad compiled": minigrad_compiled,
    "minigrad tape": minigrad_tape,
    "PyTorch": torch,
    "autograd": autograd,
    "MyGrad": mygrad,
    "JAX jit": jax,
    "tinygrad": tinygrad,
}
