"""mg.Tensor: the methods of a tensor beyond its array, its node and its gradient."""

import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..backends.device import array_module, of_a_gpu, to_host
from ..backends.dtypes import is_differentiable
from ..engine import graph, modes
from ..engine.errors import describe
from ..engine.graph import Leaf, Node, TensorBase, raw, wrap
from ..engine.registry import engine, op
from ..modes.hooks import TensorHooks
from .help import MissingName, stand_in
from .inplace import InPlace, set_values
from .numpy_protocol import array_function, array_ufunc, no_mask, warn_of_storing
from .setters import as_data, gradients_of, of_numbers, require_gradient, values_of
from .show import tensor_bundle, tensor_html, tensor_text

# The end of the error where a plain array would drop a derivative in silence.
NO_GRAD_OF_RESULTS = (
    "the .grad of a result, here of {}, stays None: a backward fills that of leaves. Ask for it by "
    "x.retain_grad() before the backward, or take mg.grad(loss, x). A parameter after w = w - step "
    "is such a result; `with mg.no_grad(): w -= step` keeps it a leaf"
)
NO_PLAIN_ARRAY = (
    "Say x.detach() for the values. mg.stack([...]) makes a tensor of tensors, mg.hstack([...]) "
    "what np.r_[...] would and mg.column_stack([...]) what np.c_[...] would."
)


class Tensor(InPlace, TensorHooks, TensorBase):
    """`mg.tensor(data)` makes one from data; ops make the others.

    data   the array (NumPy's or CuPy's); the engine does not see `x.data[index] = v`
    node   the graph node that made it; the Leaf of a leaf that requires a gradient; else None
    grad   for a leaf, the sum of the gradients of all backwards so far: a Tensor, or None
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = False):
        data = values_of(data) if isinstance(data, Tensor) else data
        # CuPy's asarray would copy to the current GPU
        self._data = of_numbers(np.asarray(data) if array_module(data) is np else of_a_gpu(data))
        self.node = None
        self._grad = None
        self.requires_grad = requires_grad

    # -- what it is --------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """The array that holds the elements; inside a transform the tensor of the level below.

        It may be set, to an array or to a tensor (whose array is taken): a new value without
        history, as in `w.data = w.data - step`. `w.data *= 2` ends in such an assignment of the
        same array, and counts as a write in place. Inside a transform that is a write under
        no_grad: x keeps its history or tangent, its shape and its dtype.
        """
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        if modes.state.pending is not None:
            modes.state.pending.end("x.data is set")
        if self.level or getattr(value, "level", 0):
            set_values(self, value)
        else:
            self._data = as_data(self, value._data if isinstance(value, Tensor) else value)

    @property
    def ndim(self) -> int:
        """How many axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """How many elements."""
        return self._data.size

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self._data.nbytes

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._data.itemsize

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient can be asked for it; may be switched on for a leaf, and off."""
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if not isinstance(wanted, bool | int | np.bool_) or wanted not in (0, 1):
            got = f"got {describe(wanted)}; a tensor of a shape is mg.empty(shape)"
            raise TypeError(f"requires_grad is True or False, {got}")  # of Tensor(2, 3)
        if modes.state.pending is not None and wanted is not (self.node is not None):
            modes.state.pending.end("requires_grad is switched")
        if self.node is not None and self.node.__class__ is not Leaf:
            if not wanted:
                raise RuntimeError(
                    f"this tensor is the result of {self.node!r}; requires_grad can be switched "
                    "off only on leaves. Use y.detach() for the value without its history."
                )
        elif not wanted:
            if self.node is not None:
                _freeze(self.node)
            self.node = None
        elif not is_differentiable(self.dtype):
            raise TypeError(
                f"a tensor of dtype {self.dtype} cannot require a gradient; derivatives need a "
                "floating or complex dtype, e.g. mg.tensor(x, dtype=mg.float32, requires_grad=True)"
            )
        elif self.node is None:
            self.node = _leaf_of(self)
            if modes.state.session is not None and not self.level:
                modes.state.session.track(self)  # `with session:` new leaves join it

    @property
    def session(self) -> Any:
        """The open mg.Session of this leaf, or of those it was computed from; None without one."""
        return engine.session_of(self)

    @property
    def grad(self) -> "Tensor | None":
        """For a leaf, the sum of the gradients of all backwards so far; None before the first.

        It may be set: to None, or to a tensor or an array (copied) of x's shape, dtype and device.
        Anything else is a TypeError or ValueError at once, not in the next backward.
        """
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warnings.warn(NO_GRAD_OF_RESULTS.format(self.node), stacklevel=2)
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        self._grad = value if value is None else _as_gradient(self, value)

    @grad.deleter
    def grad(self) -> None:
        self._grad = None  # `del x.grad` of scripts for PyTorch

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set requires_grad and return the tensor itself."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor; None for a leaf."""
        return None if self.is_leaf else self.node

    def __repr__(self) -> str:
        return tensor_text(self)

    def _repr_html_(self) -> str:
        return tensor_html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return tensor_bundle(self)

    def __format__(self, spec: str) -> str:
        """f"{loss:.3f}" formats the one value of a 0-d tensor; f"{x}" is its text."""
        if not spec:
            return str(self)
        if self.ndim:
            raise TypeError(
                f"the format {spec!r} is for one number, and this tensor has shape {self.shape}; "
                "reduce it first, or use np.array2string(x.detach().numpy(), precision=...)"
            )
        return format(self.item(), spec)

    def __dir__(self) -> list[str]:
        """The tensor's names, without the stand-ins for PyTorch's (foreign_names.py)."""
        return [x for x in super().__dir__() if not isinstance(vars(Tensor).get(x), MissingName)]

    # -- out of the graph --------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The data as a NumPy array that shares memory; read-only while the tensor is tracked.

        Of a tensor on a GPU it is a copy.
        """
        array = to_host(self._data)
        if self.requires_grad:
            array = array.view()
            array.flags.writeable = False
        return array

    def _on_host(self) -> Any:
        """The data in host memory: from a GPU a copy, which is counted."""
        return self._data if array_module(self._data) is np else to_host(self._data)

    def item(self) -> Any:
        """The one element, as a Python number."""
        return _as_python(self, lambda array: array.item())

    def tolist(self) -> Any:
        """The elements as Python numbers, in nested lists."""
        return self._on_host().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad and modes.state.recording:
            raise TypeError(
                "NumPy asks for a plain array, which would drop this tensor's history in silence. "
                + NO_PLAIN_ARRAY
            )
        if dtype is not None and np.dtype(dtype).kind == "O":
            raise TypeError("an object array of tensors is never made; use a list, or mg.stack")
        return np.array(self._on_host(), dtype=dtype, copy=copy)

    __array_ufunc__ = array_ufunc
    __array_function__ = array_function
    _mask = property(no_mask)

    def __bool__(self) -> bool:
        return _as_python(self, bool)

    def __int__(self) -> int:
        return _as_python(self, int)

    def __float__(self) -> float:
        if self.requires_grad and modes.state.recording:
            warn_of_storing(sys._getframe(1))
        return _as_python(self, float)

    def __complex__(self) -> complex:
        return _as_python(self, complex)

    def __index__(self) -> int:
        return self._on_host().__index__()

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("a 0-d tensor has no length; x.item() gives its value")
        return self.shape[0]

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("a 0-d tensor cannot be iterated over; x.item() gives its value")
        if self.node is not None:  # one node for all rows: a node each has a gradient of x's size
            return iter(op.unstack(self))
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        """Whether any element equals the value, as NumPy and PyTorch answer `value in x`."""
        return bool(op.any(self == value))

    def __hash__(self) -> int:
        return id(self)  # == compares elements, so identity is what a dict can use

    def __reduce__(self) -> tuple:
        """Pickle and copies: data, requires_grad, grad, own attributes; no hooks, no history."""
        made = type(self), self._data, self.requires_grad, self._grad
        return _restore, made, getattr(self, "__dict__", None)

    # -- exchange with other libraries ---------------------------------------------------------

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """minigrad.array_api, the functions of the Python array API standard."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(
                f"version {api_version!r} of the array API standard is not implemented; "
                "2024.12 and the versions before it are"
            )
        return engine.array_namespace

    def to_device(self, device: str, /, *, stream: Any = None) -> "Tensor":
        """The array API's spelling of x.to(device)."""
        if stream is not None:
            raise ValueError("to_device: stream= is not supported; enter the stream with CuPy")
        return op.to(self, device)

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The data for another library by DLPack, shared unless copy=True: torch.from_dlpack(x).

        BufferError for a tensor that requires a gradient, whose history would be lost in silence.
        """
        if self.node is not None or self.level:
            raise BufferError(
                "this tensor requires a gradient, which DLPack cannot carry; pass x.detach()"
            )
        return self._data.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kind, number) of the device: (1, 0) is the CPU, (2, i) GPU i."""
        return raw(self).__dlpack_device__()


stand_in(Tensor)
graph.made = Tensor


_frozen: dict[int, tuple[weakref.ref, Leaf]] = {}  # by id of the tensor, while it is frozen


def _freeze(leaf: Leaf) -> None:
    """Keep the Leaf of a tensor that stops requiring a gradient, for when it requires one again.

    Its hooks (for example those of data-parallel training) are then in force again, and graphs
    recorded before still reach the tensor.
    """
    tensor = leaf.tensor()
    key = id(tensor)
    _frozen[key] = weakref.ref(tensor, lambda _: _frozen.pop(key, None)), leaf


def _leaf_of(tensor: Any) -> Leaf:
    """The leaf that the tensor had before it was frozen, where it still fits; else a new one."""
    _, leaf = _frozen.pop(id(tensor), (None, None))
    if leaf is not None and (leaf.shape, leaf.dtype) == (tensor.shape, tensor.dtype):
        return leaf
    return Leaf(tensor)


_REDUCE = "reduce it to one, x.sum() or x.mean(), take one, x[i].item(), or all, x.tolist()"
_CHOOSE = (
    "`a < x < b` is (a < x) & (x < b), a choice for each element mg.where(condition, a, b), "
    "`x in tensors` any(x is t for t in tensors)"
)


def _as_python(x: Tensor, convert: Callable) -> Any:
    """The one element of x as a Python number, by convert; if there are more, an error."""
    array = x._on_host()
    try:
        return convert(array)
    except (TypeError, ValueError) as error:
        if array.size == 1 and array.ndim == 0:
            raise  # int(nan) and the like: Python's own error says it
        instead = _CHOOSE if convert is bool else _REDUCE
        said = f"a tensor {describe(x)} as one Python number: {error}; {instead}"
        raise type(error)(said) from None


def _as_gradient(x: Tensor, value: Any) -> Tensor:
    """The value that a user sets x.grad to, as a tensor that fits x; else an error that says what
    fits."""
    if not isinstance(value, Tensor):
        if array_module(value) is np and not isinstance(value, np.ndarray | np.generic):
            said = f"x.grad = {describe(value)}, a {type(value).__name__}: {gradients_of(x)}"
            raise TypeError(said)
        value = wrap(array_module(value).array(value))
    if value is x:
        raise ValueError("x.grad = x: a tensor is not its own gradient; use x.detach().copy()")
    require_gradient(x, value)
    return value


def _restore(kind: type, data: Any, requires_grad: bool, grad: Any) -> Tensor:
    tensor = Tensor.__new__(kind)
    tensor._data, tensor.node, tensor._grad = data, None, grad
    tensor.requires_grad = requires_grad
    return tensor
