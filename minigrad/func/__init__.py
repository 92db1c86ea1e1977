"""mg.func: transforms of functions. They nest in any order; levels.py says how."""

from . import batch_rules
from .batching import VmapWarning, vmap
from .forward import jvp
from .reverse import grad, value_and_grad, vjp

batch_rules.install()

__all__ = ["VmapWarning", "grad", "jvp", "value_and_grad", "vjp", "vmap"]
