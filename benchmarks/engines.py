"""The engines that the benchmarks compare: each as a namespace with PyTorch's names.

What an engine has not (layers, an optimizer) is missing from its namespace, and the workloads that
need it are left out. `step(loss, leaves, g)` makes one step of forward and backward.
"""

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
from workloads import step

_NAMES = "tanh relu conv2d max_pool2d avg_pool2d cross_entropy gelu softmax layer_norm".split()


def minigrad(threads: int) -> SimpleNamespace:
    import minigrad as mg
    from minigrad import data, nn, optim

    mg.set_num_threads(threads)
    return SimpleNamespace(
        **{name: getattr(mg, name) for name in _NAMES}, nn=nn, step=step, grad=mg.grad,
        leaf=lambda v: mg.tensor(v, requires_grad=True), constant=mg.tensor, Adam=optim.Adam,
        attention=mg.scaled_dot_product_attention, DataLoader=data.DataLoader,
        TensorDataset=data.TensorDataset,
    )  # fmt: skip


def minigrad_compiled(threads: int) -> SimpleNamespace:
    """With large ops as loops compiled by numba (mg.accelerate)."""
    import minigrad as mg

    mg.accelerate()
    return minigrad(threads)


def minigrad_tape(threads: int) -> SimpleNamespace:
    """The step recorded once and replayed: static shapes, no graph built."""
    import minigrad as mg

    def replayed(loss: Callable, leaves: list, g: Any = None) -> Callable:
        with mg.Tape() as tape:
            y = loss(*leaves)
        seeds = {} if g is None else {"grad_outputs": g}
        program = tape.compile(y, leaves, wrt=leaves, copy=False, **seeds)
        return lambda: program(*leaves)

    f = minigrad(threads)
    del f.nn, f.Adam, f.DataLoader, f.grad
    f.step = replayed
    return f


def torch(threads: int) -> SimpleNamespace:
    torch: Any = import_module("torch")
    data: Any = import_module("torch.utils.data")
    torch.set_num_threads(threads)
    functional = torch.nn.functional
    names = {name: getattr(functional, name) for name in _NAMES} | {"tanh": torch.tanh}
    return SimpleNamespace(
        **names, nn=torch.nn, step=step, grad=torch.autograd.grad,
        leaf=lambda v: torch.tensor(v, requires_grad=True), constant=torch.tensor,
        Adam=torch.optim.Adam, attention=functional.scaled_dot_product_attention,
        DataLoader=data.DataLoader, TensorDataset=data.TensorDataset,
    )  # fmt: skip


def autograd(threads: int) -> SimpleNamespace:
    anp: Any = import_module("autograd.numpy")
    grad: Any = import_module("autograd").grad
    erf: Any = import_module("autograd.scipy.special").erf

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        gradient = grad(lambda xs: _scalar(loss(*xs), g, anp.sum))
        return lambda: gradient(tuple(leaves))

    return SimpleNamespace(
        step=made, tanh=anp.tanh, leaf=np.array, constant=np.array,
        gelu=lambda x: x * 0.5 * (1 + erf(x * 2**-0.5)),
    )  # fmt: skip


def mygrad(threads: int) -> SimpleNamespace:
    my: Any = import_module("mygrad")
    my.turn_memory_guarding_off()

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        def run() -> None:
            for leaf in leaves:
                leaf.null_grad()
            loss(*leaves).backward(g)

        return run

    return SimpleNamespace(step=made, tanh=my.tanh, leaf=my.tensor, constant=np.array)


def jax(threads: int) -> SimpleNamespace:
    """Compiled by XLA: jit of the whole step."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        def total(xs: tuple) -> Any:
            return _scalar(loss(*xs), g, jnp.sum)

        gradient = jax.jit(jax.grad(total))
        return lambda: jax.block_until_ready(gradient(tuple(leaves)))

    return SimpleNamespace(
        step=made, tanh=jnp.tanh, leaf=jnp.array, constant=jnp.array,
        gelu=lambda x: jax.nn.gelu(x, approximate=False),
    )  # fmt: skip


def tinygrad(threads: int) -> SimpleNamespace:
    Tensor: Any = import_module("tinygrad").Tensor

    def made(loss: Callable, leaves: list, g: Any = None) -> Callable:
        def run() -> None:
            y = _scalar(loss(*leaves), g, Tensor.sum)
            Tensor.realize(*y.gradient(*leaves))

        return run

    return SimpleNamespace(
        step=made, tanh=Tensor.tanh, leaf=lambda v: Tensor(v).realize(), constant=Tensor,
        gelu=lambda x: x * 0.5 * (1 + (x * 2**-0.5).erf()),
    )  # fmt: skip


def _scalar(y: Any, g: Any, total: Callable) -> Any:
    return y if g is None else total(y * g)


ENGINES: dict[str, Callable[[int], SimpleNamespace]] = {
    "minigrad": minigrad,
    "minigrad compiled": minigrad_compiled,
    "minigrad tape": minigrad_tape,
    "PyTorch": torch,
    "autograd": autograd,
    "MyGrad": mygrad,
    "JAX jit": jax,
    "tinygrad": tinygrad,
}
