"""minigrad: an eager automatic-differentiation engine on NumPy and CuPy.

    >>> import minigrad as mg
    >>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])

Read the source in this order: core (what an op, a node and a tensor are), ops (the calculus
table), engine (how gradients flow back), func, instrument, nn.
"""

from .backends.random import generator, manual_seed
from .core import errors
from .core.create import *
from .core.events import scope
from .core.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .core.primitive import composite, elementwise, primitive
from .core.tensor import Tensor
from .engine.api import backward, grad
from .ops import *
from . import func

__version__ = "0.1.0"
