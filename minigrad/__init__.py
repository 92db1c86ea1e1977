"""minigrad: an eager automatic-differentiation engine on NumPy and CuPy.

    >>> import minigrad as mg
    >>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])

exp, sum, conv2d, ...              ops on tensors, by NumPy's names; help(mg.exp) has the formula
nn, optim, data, train             layers, optimizers, data sets, a training loop
func                               grad, vjp, jvp, vmap, jacobian, hessian: functions of functions
linalg, fft, special, stats        by the names of NumPy and SciPy
profile, event_log                 where time and memory go
record_backward, dump_graph        what was recorded, for minigrad-viz
errors                             the errors that only this engine raises
minigrad.testing (import it)       gradcheck and what belongs to it

Read the source in this order: engine (what an op, a node and a tensor are, and how gradients flow
back), ops (the calculus table), tensor_api, func, instrument, nn. ARCHITECTURE.md is the map.
"""

# The order matters where one name stands for two things: `elementwise` is the function that makes
# an op, not the folder in ops/; `mg.sum`, `mg.max` ... are ops, not Python's.
import sys as _sys

import numpy as _np

from .backends.optional import wanted as _wanted

if _wanted("courtesy"):  # first, and the one place that imports it
    from . import courtesy
# these fill places that the engine leaves open; the first before any op is registered
from .custom import reload as _reload, implementations as _implementations
from .modes import around as _around, slow_path as _slow_path
from .ops import *
from . import (
    amp,
    array_api,
    cuda,
    data,
    engine,
    fft,
    func,
    io,
    linalg,
    nn,
    on_gpu,
    ops,
    optim,
    parallel,
    special,
    stats,
    train,
)
from .backends.dtypes import bfloat16
from .backends.pool import get_num_threads, set_num_threads
from .backends.random import generator, manual_seed
from .backends.random import get_state as get_rng_state
from .backends.random import set_state as set_rng_state
from .compiled import accelerate, is_accelerated
from . import errors
from .modes.autocast import autocast
from .backends.caches import cache_stats, clear_caches
from .tensor_api.create import *
from .custom.custom import Function, once_differentiable
from .modes.deterministic import *
from .tensor_api.random_tensors import *
from .modes.scopes import scope
from .custom.extension import extension, extensions
from .modes.hooks import register_multi_grad_hook
from .modes.recording import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .engine.primitive import elementwise, primitive
from .tensor_api.composite import composite
from .modes.saving import is_recomputing
from .tensor_api.help import missing_names_of as _missing_names_of, stand_in as _stand_in
from .modes.session import Session, clear_grads
from .tensor_api.tensor import Tensor
from .modes.anomaly import detect_anomaly
from .tensor_api.derivatives import backward, grad
from .modes.checkpoint import checkpoint, checkpoint_sequential, set_checkpoint_early_stop
from .tensor_api.gradients import GradStore, gradients
from .fusion import fuse
from .modes.saved_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    save_on_disk,
    saved_tensors_hooks,
)
from .tape.tape import Tape
from .replay import compile
from .instrument import DeviceTimes, dump_graph, graph_dict, graph_text, record_backward
from .instrument import event_log, profile
from .instrument.environment import start as _start_instruments
from .io import load, save
from . import distributed
from .version import __version__, show_versions
from .compiled.switch import from_environment as _accelerate_if_asked

if _wanted("fast"):  # the one place that imports it
    from . import fast

bool_, int8, int16, int32, int64 = _np.bool_, _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float16, float32, float64 = _np.float16, _np.float32, _np.float64
complex64, complex128 = _np.complex64, _np.complex128
newaxis, pi, e, inf, nan = None, _np.pi, _np.e, _np.inf, _np.nan


_stand_in(Tensor, [name for name in [*globals(), *linalg.__all__] if name[0] != "_"])
if bfloat16 is None:  # as a dtype= it would silently mean the default one
    del bfloat16

__getattr__ = _missing_names_of(__name__)


_start_instruments()
_accelerate_if_asked()
