import numpy as np

from ..core.primitive import linear
from ..core.registry import op


@linear(numpy=np.sum)
def sum(x, axis=None, dtype=None, keepdims=False):
    return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


@sum.vjp("x")
def sum_dx(g, x_shape, axis, keepdims):
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return op.broadcast_to(g, shape=x_shape)


@linear(numpy=np.broadcast_to)
def broadcast_to(x, shape):
    return np.broadcast_to(x, shape)


from ..core.primitive import multilinear


@multilinear(numpy=np.matmul)
def matmul(a, b):
    return a @ b


@matmul.vjp("a")
def da(g, b):
    return g @ b.swapaxes(-1, -2)


@matmul.vjp("b")
def db(g, a):
    return a.swapaxes(-1, -2) @ g
