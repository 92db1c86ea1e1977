"""A CuPy that computes with NumPy, and is as strict as the real one about what it takes.

`install(monkeypatch)` puts it in place of `cupy` and `cupyx`, so that the code paths of a GPU
run where there is none. What the real library does and NumPy alone would hide:

- a NumPy array, 0-d ones included, beside a device array is a TypeError; np.asarray(x) too
- functions that CuPy 14 lacks are missing, or raise as there
- results are always arrays, never NumPy scalars
- every copy between host and device is counted in `transfers`
- what a missing wait between streams would let go wrong is a fault (stand_in_streams.py)
"""

import sys
import types
from collections import Counter
from typing import Any

import numpy as np
import numpy.lib.stride_tricks
import stand_in_streams as streams

# numpy's functions that CuPy 14.2 has not; the list was read off an installed one.
MISSING = set(
    "asmatrix block bmat einsum_path frompyfunc geomspace getbufsize geterr histogram_bin_edges "
    "insert isnat matvec nanpercentile nanquantile nested_iters polyder polydiv polyint spacing "
    "unstack vecdot vecmat".split()
)
MISSING_LINALG = set("diagonal matrix_norm multi_dot outer svdvals tensordot trace vecdot".split())
MISSING_LINALG |= {"vector_norm"}
_METHODS = ("__call__", "reduce", "accumulate", "outer", "at", "reduceat")
transfers: Counter = Counter()


def _refuse(x: Any, where: str) -> None:
    if isinstance(x, np.ndarray):
        raise TypeError(f"{where}: unsupported type <class 'numpy.ndarray'> beside device arrays")


def _inner(x: Any, where: str) -> Any:
    """x with NumPy arrays in place of device arrays; NumPy arrays themselves are refused."""
    _refuse(x, where)
    if isinstance(x, ndarray):
        streams.used(x._a)
        return x._a
    if type(x) in (list, tuple):
        return type(x)(_inner(v, where) for v in x)
    return x


def _outer(y: Any) -> Any:
    """y with device arrays in place of NumPy arrays and scalars."""
    if isinstance(y, np.ndarray | np.generic):
        return ndarray(np.asarray(y))
    if isinstance(y, tuple):
        fields = [_outer(v) for v in y]
        return tuple(fields) if type(y) is tuple else type(y)(*fields)
    return [_outer(v) for v in y] if isinstance(y, list) else y


def _call(fn: Any, args: tuple, kwargs: dict) -> Any:
    where = getattr(fn, "__name__", str(fn))
    if where in ("stack", "concatenate") and not all(isinstance(x, ndarray) for x in args[0]):
        raise TypeError("Argument 'a' has incorrect type (expected cupy._core.core._ndarray_base)")
    args = tuple(_inner(x, where) for x in args)
    kwargs = {name: _inner(x, where) for name, x in kwargs.items()}
    if where in ("max", "amax", "min", "amin") and "initial" in kwargs:
        raise NotImplementedError("initial= is not supported")
    return _outer(fn(*args, **kwargs))


class ndarray:
    """A device array. Its memory is NumPy's, but only `get` and `item` hand it to the host."""

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, a: Any, dtype: Any = None, memory: Any = None):
        """An array, or, as in CuPy, (shape, dtype), or (shape, dtype, memory)."""
        if dtype is not None:
            a = np.empty(a, dtype) if memory is None else memory.array.reshape(a)
        self._a = a
        streams.made(self._a)

    @property
    def device(self) -> "_Device":
        return _Device(streams.device_of(self._a))

    def _to_host(self) -> None:
        transfers["to host"] += 1
        streams.seen_by_host(self._a)

    def get(self, *_: Any, **__: Any) -> np.ndarray:
        self._to_host()
        return self._a.copy()

    def item(self, *args: Any) -> Any:
        self._to_host()
        return self._a.item(*args)

    def tolist(self) -> Any:
        self._to_host()
        return self._a.tolist()

    def __bool__(self) -> bool:
        self._to_host()
        return bool(self._a)

    def __float__(self) -> float:
        self._to_host()
        return float(self._a)

    def __int__(self) -> int:
        self._to_host()
        return int(self._a)

    def __complex__(self) -> complex:
        self._to_host()
        return complex(self._a)

    def __len__(self) -> int:
        return len(self._a)

    def __iter__(self) -> Any:
        return (ndarray(np.asarray(a)) for a in self._a)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Use `.get()`.")

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if ufunc.__name__ in MISSING or method not in _METHODS:
            return NotImplemented
        if method in ("reduce", "accumulate") and ufunc not in (
            np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or,
        ):  # fmt: skip
            raise NotImplementedError(f"{ufunc.__name__}.{method}")
        if method == "accumulate" and ufunc in (np.maximum, np.minimum):
            raise NotImplementedError(f"{ufunc.__name__}.{method}")
        out = kwargs.pop("out", None)
        fn = getattr(ufunc, method)
        if out is not None:
            out = out[0] if isinstance(out, tuple) else out
            _refuse(out, ufunc.__name__)
            kwargs["out"] = out._a
            streams.used(out._a, written=True)
            args = tuple(_inner(x, ufunc.__name__) for x in args)
            fn(*args, **{k: _inner(v, ufunc.__name__) for k, v in kwargs.items() if k != "out"},
               out=out._a)  # fmt: skip
            return out
        return _call(fn, args, kwargs)

    def __array_function__(self, fn: Any, kinds: Any, args: tuple, kwargs: dict) -> Any:
        if any(kind not in (ndarray, np.ndarray) for kind in kinds):
            return NotImplemented
        module: Any = cupy
        try:
            for part in fn.__module__.split(".")[1:]:
                module = getattr(module, part)
            here = getattr(module, fn.__name__)
        except AttributeError:
            return NotImplemented
        return here(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if all(part is None or part is ... or isinstance(part, int | slice) for part in parts):
            return ndarray(self._a[parts if ... in parts else (*parts, ...)])  # a view is no work
        streams.used(self._a)
        y = self._a[_inner(key, "x[...]")]
        return ndarray(np.asarray(y))

    def __setitem__(self, key: Any, value: Any) -> None:
        streams.used(self._a, written=True)
        self._a[_inner(key, "x[...] =")] = _inner(value, "x[...] =")

    def __getattr__(self, name: str) -> Any:
        if name in ("__array_interface__", "__array_struct__", "ctypes", "__index__"):
            raise AttributeError(name)
        value = getattr(self._a, name)
        if name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"):
            return value
        if callable(value):
            streams.used(self._a)
            return lambda *args, **kwargs: _call(value, args, kwargs)
        return ndarray(value) if isinstance(value, np.ndarray) else value

    @property
    def _c_contiguous(self) -> bool:
        return self._a.flags.c_contiguous

    @property
    def base(self) -> Any:
        return None if self._a.base is None else ndarray(self._a.base)

    @property
    def data(self) -> Any:
        here = streams.device_of(self._a)
        return types.SimpleNamespace(ptr=self._a.ctypes.data, array=self._a, device_id=here)

    @property
    def real(self) -> Any:
        return ndarray(self._a.real)

    @property
    def imag(self) -> Any:
        return ndarray(self._a.imag)

    def __repr__(self) -> str:
        return f"stand-in {self._a!r}"


def _operator(name: str) -> Any:
    def apply(self: ndarray, *others: Any) -> Any:
        for other in others:
            if isinstance(other, np.ndarray):
                raise TypeError(f"unsupported operand for {name}: numpy.ndarray")
            if not isinstance(other, ndarray) and hasattr(other, "__array_ufunc__"):
                if not isinstance(other, np.generic):
                    return NotImplemented  # a tensor's turn
        in_place = name.startswith("__i") and name != "__invert__"
        streams.used(self._a, written=in_place)
        y = getattr(self._a, name)(*[_inner(other, name) for other in others])
        if y is NotImplemented:
            return y
        if in_place:
            return self
        return _outer(y)

    return apply


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul and rand or ror xor rxor lshift rshift iadd isub imul itruediv ipow eq ne lt le gt ge "
    "neg pos abs invert"
).split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))


class _Module(types.ModuleType):
    """A module whose functions are NumPy's, taking and giving device arrays."""

    def __init__(self, name: str, source: Any, missing: set[str], **own: Any):
        super().__init__(name)
        self.__dict__.update(own, _source=source, _missing=missing)

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(self._source, name)
        if isinstance(value, type) or not callable(value):
            return value
        if isinstance(value, np.ufunc):
            return _Ufunc(value)
        return lambda *args, **kwargs: _call(value, args, kwargs)


class _Ufunc:
    def __init__(self, ufunc: np.ufunc):
        self._ufunc = ufunc
        self.__name__ = ufunc.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, ndarray) for x in args):
            return ndarray.__array_ufunc__(args[0], self._ufunc, "__call__", *args, **kwargs)  # type: ignore[arg-type]
        return _call(self._ufunc, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ufunc, name)
        if not callable(method):
            return method
        return lambda *args, **kwargs: _call(method, args, kwargs)


def _asarray(x: Any, dtype: Any = None, copy: bool | None = None, **_: Any) -> ndarray:
    """cupy.asarray and cupy.array: the open way from the host to the device."""
    if isinstance(x, ndarray) and x.device.id != streams.device():  # CuPy copies from there
        streams.used(x._a, copied=True)
        return ndarray(x._a.astype(dtype or x.dtype))
    if isinstance(x, ndarray):
        a = x._a.astype(dtype or x.dtype, copy=bool(copy))
        return x if a is x._a else ndarray(a)
    if isinstance(x, list | tuple) and any(isinstance(v, ndarray) for v in x):
        return ndarray(np.asarray(_inner(x, "asarray"), dtype))
    if isinstance(x, np.ndarray):
        transfers["to device"] += 1
    a = np.array(x, dtype)
    if a.dtype == object:
        raise ValueError("Unsupported dtype object")
    return ndarray(a)


def _array(x: Any, dtype: Any = None, copy: bool = True, **_: Any) -> ndarray:
    return _asarray(x, dtype, copy)


def _get_array_module(*xs: Any) -> Any:
    return cupy if any(isinstance(x, ndarray) for x in xs) else np


def _scatter_add(y: ndarray, key: Any, g: Any) -> None:
    if g.dtype.kind == "c":
        raise TypeError("scatter_add: no complex atomics")
    streams.used(y._a, written=True)
    np.add.at(y._a, _inner(key, "scatter_add"), _inner(g, "scatter_add"))


def _scatter_max(y: ndarray, key: Any, g: Any) -> None:
    streams.used(y._a, written=True)
    np.maximum.at(y._a, _inner(key, "scatter_max"), _inner(g, "scatter_max"))


def _special() -> Any:
    import scipy.special

    missing = set("polygamma_ wrightomega jv yv iv ive kv kve".split())
    return _Module("cupyx.scipy.special", scipy.special, missing)


def _scipy_linalg() -> Any:
    import scipy.linalg

    names = "solve_triangular lu lu_factor lu_solve expm block_diag".split()
    known = types.SimpleNamespace(**{name: getattr(scipy.linalg, name) for name in names})
    return _Module("cupyx.scipy.linalg", known, set())


class _Device:
    def __init__(self, number: int | None = None):
        self.id = streams.device() if number is None else number
        self._before: list[int] = []

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Device) and self.id == other.id

    __hash__ = None  # type: ignore[assignment]

    def __enter__(self) -> "_Device":
        self._before.append(streams.device())
        streams.set_device(self.id)
        return self

    def __exit__(self, *_: Any) -> None:
        streams.set_device(self._before.pop())

    def synchronize(self) -> None:
        streams.wait_for_all()

    def use(self) -> None:
        pass


_cuda = types.SimpleNamespace(
    is_available=lambda: True, Device=_Device, Stream=streams.Stream, Event=streams.Event,
    runtime=types.SimpleNamespace(getDeviceCount=lambda: 1, getDevice=streams.device),
    nvtx=types.SimpleNamespace(RangePush=streams.push, RangePop=streams.pop),
    get_current_stream=streams.current, get_elapsed_time=streams.elapsed,
)  # fmt: skip
cupy: Any = _Module(
    "cupy", np, MISSING, ndarray=ndarray, asarray=_asarray, array=_array, ascontiguousarray=_array,
    asnumpy=lambda x: x.get(), get_array_module=_get_array_module, cuda=_cuda, __version__="0",
)  # fmt: skip
cupy.linalg = _Module("cupy.linalg", np.linalg, MISSING_LINALG)
cupy.fft = _Module("cupy.fft", np.fft, set())
cupy.lib = types.SimpleNamespace(
    stride_tricks=_Module("cupy.lib.stride_tricks", np.lib.stride_tricks, set())
)


def install(monkeypatch: Any) -> Any:
    """Put the stand-in where `import cupy` finds it; returns it."""
    cupyx = types.ModuleType("cupyx")
    cupyx.scatter_add = _scatter_add  # type: ignore[attr-defined]
    cupyx.scatter_max = _scatter_max  # type: ignore[attr-defined]
    cupyx.empty_pinned = np.empty  # type: ignore[attr-defined]
    scipy = types.ModuleType("cupyx.scipy")
    modules = {"cupy": cupy, "cupyx": cupyx, "cupyx.scipy": scipy}
    modules |= {"cupyx.scipy.special": _special(), "cupyx.scipy.linalg": _scipy_linalg()}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    transfers.clear()
    streams.reset()
    return cupy
