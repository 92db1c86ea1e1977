from .core.tensor import Tensor
from .engine import api
from .ops import elementwise, reduce
