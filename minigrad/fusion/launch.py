"""Fused kernels: made at a function's first call for some dtypes and layouts, and kept."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.caches import Cache
from ..backends.device import array_module, is_contiguous
from ..backends.leaving import contextmanager
from ..backends.threads import identity
from ..custom.variants import at_any_size
from ..expressions import cuda, cuda_columns, cuda_rows
from ..expressions.trace import InFull, NotFusible, Recording, require_lines_of, trace

# compiled/launch.py while mg.accelerate is on: `run` and the others for NumPy arrays
host: Any = None
kernels = Cache("fused kernels", max_entries=1024)
launches = Cache("launches of fused kernels", max_entries=8192)
_watched: dict[int, list] = {}  # thread -> its launches: see `watching`
_OPTIONS = ("--std=c++17",)
_SHORT = 1 << 31  # elements that 32-bit indices can count


def compiled(xp: Any, source: str) -> Any:
    """The kernel `fused` of a source, for the current device."""
    key = (source, xp.cuda.runtime.getDevice())
    return kernels.get_or_make(key, lambda: xp.RawKernel(source, "fused", options=_OPTIONS).kernel)


def whole_numbers(xp: Any, values: Sequence[int]) -> tuple:
    """Sizes as arguments of a kernel (long long), ready to be passed at every launch.

    From a Python int CuPy makes a NumPy scalar each time, and looks up its address.
    """
    ready = getattr(getattr(xp.cuda, "function", None), "CIntptr", int)
    return tuple([ready(n) for n in values])


def shaped(y: Any, shape: tuple) -> Any:
    """The array y, which has no other reference, in another shape: it owns its memory, it is no
    view.

    A gradient that is a view would be copied before a user sees it.
    """
    if y.shape == shape:
        return y
    if type(y) is np.ndarray:
        y.resize(shape, refcheck=False)
        return y
    return array_module(y).ndarray(shape, y.dtype, y.data)


class Launch:
    """Work on arrays of given shapes: called with them it returns its results.

    made    for each result its shape and dtype, or the number of the argument that it is, or None
    """

    def __init__(self, xp: Any, made: list):
        self.made = made
        self.empty = np.empty if xp is np else xp.ndarray  # cupy.empty calls it
        self.places = [i for i, form in enumerate(made) if type(form) is tuple]

    def __call__(self, arrays: Sequence[Any]) -> list:
        empty = self.empty
        ys: list[Any] = [
            empty(*form) if type(form) is tuple else form if form is None else arrays[form]
            for form in self.made
        ]
        self.fill(arrays, [ys[i] for i in self.places])
        return ys

    def fill(self, arrays: Sequence[Any], ys: list) -> None:
        """Compute the results that are neither arguments nor None."""
        raise NotImplementedError


class KernelLaunch(Launch):
    """One kernel; its arguments are the arrays, the results, and the sizes in `tail`."""

    def __init__(self, xp: Any, kernel: Any, grid: tuple, block: int, made: list, tail: tuple):
        super().__init__(xp, made)
        self.kernel, self.grid, self.block, self.tail = kernel, grid, (block,), tail
        self.only = made[0] if len(made) == 1 and self.places and grid[0] else None

    def __call__(self, arrays: Sequence[Any]) -> list:
        if self.only is None:
            return super().__call__(arrays)
        y = self.empty(*self.only)
        self.kernel(self.grid, self.block, (*arrays, y, *self.tail))
        return [y]

    def fill(self, arrays: Sequence[Any], ys: list) -> None:
        if self.grid[0]:
            self.kernel(self.grid, self.block, (*arrays, *ys, *self.tail))


class Kernel(Recording):
    """A function recorded for arrays of these dtypes, as a kernel.

    kinds    how an elementwise kernel reads the arrays (cuda.elementwise_source); None: it cannot
    in_rows  how a kernel of rows reads them (cuda_rows.row_source), if in another way
    may_pass whether a result that is an argument may be that array itself
    """

    def __init__(
        self,
        fn: Callable,
        dtypes: Sequence[Any],
        kinds: Sequence[str | None],
        in_rows: Sequence[str | None] | None = None,
        may_pass: bool = False,
    ):
        in_rows = kinds if in_rows is None else in_rows
        lines = [kind in ("line", "lines", "one") for kind in in_rows]
        passing = [may_pass and kind == "full" for kind in kinds]
        elements = {"full", "one", "part"}.issuperset(kinds)
        super().__init__(fn, dtypes, lines, passing, by_rows=not elements)
        used = in_rows if self.by_rows else kinds
        self.kinds = tuple([kind for kind in used if kind is not None])
        if len(self.kinds) < len(used):
            raise NotFusible("an array that is broadcast over axes between its own")

    def whole(self) -> list:
        """The dtypes of the arrays that are read or written at every position."""
        pairs = zip(self.inputs, self.kinds, strict=True)
        ys = [y.dtype for y in self.outputs if not self.is_line(y)]
        return [x.dtype for x, kind in pairs if kind == "full"] + ys

    def layout(self, length: int) -> cuda_rows.Layout | None:
        """The distribution of rows of this length; None: too long for registers."""
        return cuda_rows.layout_of(length, self.whole())

    def source(self, length: int = 0, index: str = "long long") -> str:
        """The CUDA source, for rows of this length."""
        if not self.by_rows:
            width = cuda.lanes(self.whole())
            return cuda.elementwise_source(self.inputs, self.outputs, self.kinds, width, index)
        layout = self.layout(length)
        if layout is None:
            return cuda_rows.looped_source(self.inputs, self.outputs, self.kinds)
        return cuda_rows.row_source(self.inputs, self.outputs, self.kinds, layout)

    def launch(self, xp: Any, shape: tuple, sizes: tuple) -> KernelLaunch:
        n, length, made = prod(shape), shape[-1] if shape else 1, self.made(shape)
        if not n or not self.outputs:
            return KernelLaunch(xp, None, (0,), 0, made, ())
        if not self.by_rows:
            index = "unsigned int" if n < _SHORT else "long long"
            width = cuda.lanes(self.whole())
            kernel = compiled(xp, self.source(index=index))
            grid = (-(-n // (cuda.BLOCK * width)),)
            tail = whole_numbers(xp, (n, *sizes))
            return KernelLaunch(xp, kernel, grid, cuda.BLOCK, made, tail)
        rows = n // length
        kernel = compiled(xp, self.source(length))
        layout, tail = self.layout(length), whole_numbers(xp, (rows, length, *sizes))
        if layout is None:
            return KernelLaunch(xp, kernel, (rows,), 1024, made, tail)
        grid, block = (-(-rows // layout.rows),), layout.threads * layout.rows
        return KernelLaunch(xp, kernel, grid, block, made, tail)


@contextmanager
def watching() -> Iterator[list]:
    """A list of (fn, arrays, results) of each launch of this thread, inside.

    On the host variants are asked for arrays of any size, and results are all ones: a loop that
    only a fused one replaces need not be compiled. NotFusible at the second launch there, and at a
    sum over rows.
    """
    own, seen = identity(), []
    try:
        with at_any_size():
            _watched[own] = seen
            yield seen
    finally:
        _watched.pop(own, None)


def run(key: Hashable, fn: Callable, arrays: Sequence[Any], may_pass: bool = False) -> list | None:
    """fn's results on arrays of one device by one kernel; None where it cannot be one.

    key       names fn and everything else its program depends on
    may_pass  a result that equals one of the arrays may be that array, without a copy
    """
    xp: Any = array_module(arrays[0])
    seen = _watched.get(identity()) if _watched else None
    if xp is np and host is not None:
        if seen:
            raise NotFusible("several launches")
        if seen is None:
            return host.run(key, fn, arrays, may_pass)
        ys = host.blank(fn, arrays, may_pass)
    elif not hasattr(xp, "RawKernel") or type(arrays[0]) is not xp.ndarray:
        return None  # the tests' stand-in of CuPy, or an array that a tape traces
    else:
        key = (key, arrays[0].data.device_id)
        ys = launched(readable, launches, _prepared, key, fn, arrays, may_pass, xp)
    if seen is not None and ys is not None:
        seen.append((fn, arrays, ys))
    return ys


def filling(fn: Callable, arrays: Sequence[Any], given: Sequence[tuple]) -> Any:
    """fn as a loop that fills arrays of the caller (compiled/launch.Filling); None if it is none.

    given   the shapes in which fn takes arrays like these
    """
    if host is None or array_module(arrays[0]) is not np:
        return None
    try:
        return host.Filling(fn, arrays, given)
    except NotFusible:
        return None


def launched(
    readable: Callable, launches: Cache, make: Callable, key: Hashable, fn: Callable,
    arrays: Sequence[Any], *options: Any,
) -> list | None:  # fmt: skip
    """fn's results by the program kept for such arrays; make(fn, forms, *options) makes it the
    first time. None where that raised NotFusible, or arrays are not readable.
    """
    found = readable(arrays)
    if found is None:
        return None
    ready, forms = found
    full_key = (key, *options, *forms)
    launch = launches.peek(full_key)
    if launch is None:
        try:
            launch = make(fn, forms, *options)
        except NotFusible as reason:
            launch = reason
        launches.put(full_key, launch)
    if isinstance(launch, InFull):
        arrays = [x.copy(order="C") for x in arrays]
        return launched(readable, launches, make, key, fn, arrays, *options)
    return None if isinstance(launch, NotFusible) else launch(ready)


def readable(arrays: Sequence[Any]) -> tuple[list, list]:
    """The arrays as kernels read them, in rows from a multiple of 16 bytes; and their forms.

    A form is (shape, dtype, whether all elements are one, as in the gradient of a sum).
    """
    ready, forms = [], []
    for x in arrays:
        same = False
        if not x._c_contiguous:  # CuPy makes an object for `flags` each time
            same = repeats(x)
            y = x[(0,) * x.ndim] if same else x.copy(order="C")
        elif x.data.ptr & 15 and x.size > 1:
            y = x.copy(order="C")
        else:
            y = x
        ready.append(y)
        forms.append((x.shape, x.dtype, same))
    return ready, forms


def repeats(x: Any) -> bool:
    """Whether all elements of an array are one in memory."""
    return not is_contiguous(x) and x.size > 0 and not any(x.strides)


def dense(x: Any) -> Any:
    """x, or a copy of it, contiguous from a multiple of 16 bytes on."""
    if is_contiguous(x) and (x.size <= 1 or not x.data.ptr & 15):
        return x
    return x.copy(order="C")


def _prepared(fn: Callable, forms: list, may_pass: bool, xp: Any) -> KernelLaunch:
    shape = np.broadcast_shapes(*[form[0] for form in forms])
    places = [("one", ()) if same else kind_of(own, shape) for own, _, same in forms]
    in_rows = [("one", ()) if same else row_kind_of(own, shape) for own, _, same in forms]
    names, row_names = ([place and place[0] for place in found] for found in (places, in_rows))
    dtypes = [dtype for _, dtype, _ in forms]
    kernel = Kernel(fn, dtypes, names, row_names, may_pass)
    if kernel.by_rows and any(same for _, _, same in forms):
        require_lines_of(fn, dtypes, [own for own, _, _ in forms], shape[-1], kernel.found)
    used = in_rows if kernel.by_rows else places
    return kernel.launch(xp, shape, tuple([n for place in used if place for n in place[1]]))


def kind_of(own: tuple, shape: tuple) -> tuple[str, tuple] | None:
    """(kind, its sizes) by which an elementwise kernel over `shape` reads an array of shape `own`.

    See cuda.elementwise_source: "part" has (s, n). None: it cannot.
    """
    own = (1,) * (len(shape) - len(own)) + own
    if own == shape:
        return "full", ()
    kept = [i for i, n in enumerate(own) if n > 1]
    if not kept:
        return "one", ()
    block = slice(kept[0], kept[-1] + 1)
    if own[block] != shape[block]:
        return None
    return "part", (prod(shape[block.stop :]), prod(own))


def row_kind_of(own: tuple, shape: tuple) -> tuple[str, tuple] | None:
    """The same for a kernel of rows: see cuda_rows.row_source."""
    own = (1,) * (len(shape) - len(own)) + own
    if own == shape:
        return "full", ()
    if not shape or own[-1] not in (1, shape[-1]):
        return None
    lead = kind_of(own[:-1], shape[:-1])
    if lead is None:
        return None
    kind, sizes = lead
    if own[-1] == 1:
        return {"full": "line", "one": "one", "part": "lines"}[kind], sizes
    return {"full": "full", "one": "row", "part": "rows"}[kind], sizes


# -- sums over rows --------------------------------------------------------------------------------


def run_columns(key: Hashable, fn: Callable, arrays: Sequence[Any]) -> list | None:
    """Σ over the rows of fn(…), for arrays that are (rows, columns), a row, or one value for each
    row.

    fn returns the terms in the dtype of their sum, which the results have too, each (columns,).
    """
    xp: Any = array_module(arrays[0])
    if xp is np and host is not None:
        if _watched and identity() in _watched:
            raise NotFusible("a sum over rows")
        return host.run_columns(key, fn, arrays)
    if not hasattr(xp, "RawKernel") or type(arrays[0]) is not xp.ndarray:
        return None  # the tests' stand-in of CuPy, or an array that a tape traces
    key = (key, "columns", arrays[0].data.device_id)
    ys = launched(readable, launches, _columns, key, fn, arrays, xp)
    if ys is None:
        return None
    if ys[0].shape[0] == 1:
        return [shaped(y, y.shape[1:]) for y in ys]
    return run_columns("total", _each, ys)


def _each(*sums: Any) -> list:
    return list(sums)


def _columns(fn: Callable, forms: list, xp: Any) -> KernelLaunch:
    shape = np.broadcast_shapes(*[form[0] for form in forms])
    kinds = []
    for own, _, same in forms:
        place = ("one", ()) if same else row_kind_of(own, shape)
        if place is None or place[1]:
            raise NotFusible("an array that is neither a row nor one value a row")
        kinds.append(place[0])
    inputs, outputs = trace(fn, [dtype for _, dtype, _ in forms])
    rows, columns = shape
    full = [form[1] for form, kind in zip(forms, kinds, strict=True) if kind == "full"]
    width = cuda.lanes(full) if full else 1
    while columns % width or width > 4:
        width //= 2
    blocks = -(-columns // (32 * width))
    share = max(64, -(-rows * blocks // 1056))  # about 8 blocks for each multiprocessor
    shares = -(-rows // share)
    made: list = [((shares, columns), y.dtype) for y in outputs]
    if not rows * columns:
        raise NotFusible("nothing to add")
    source = cuda_columns.column_source(inputs, outputs, kinds, width)
    grid, block = (blocks, shares), 32 * cuda_columns.WARPS
    tail = whole_numbers(xp, (rows, columns, share))
    return KernelLaunch(xp, compiled(xp, source), grid, block, made, tail)
