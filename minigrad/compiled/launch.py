"""Compiled programs of the host, made at a function's first call for some dtypes and layouts.

The host's part of fusion/launch.py, which calls `run` and `run_columns` here while mg.accelerate is
on.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cache, cached_property, partial
from math import prod
from typing import Any

import numpy as np

from ..backends import pool
from ..backends.blocks import spans
from ..backends.caches import Cache
from ..expressions import loops as writer
from ..expressions.loops import Layout
from ..expressions.trace import InFull, NotFusible, Recording, reached, require_lines_of, trace
from ..fusion.launch import Launch, launched
from . import disk, install
from .functions import functions
from .jit import add, clipped, kernel_of, larger, maximum, minimum, select, sign, smaller

loops = Cache("compiled loops", max_entries=512)
launches = Cache("launches of compiled loops", max_entries=4096)
PIECE = 1 << 17  # elements that a thread takes at a time
SHORT = 8  # elements of an inner loop; NumPy computes shorter ones
_ndarray = np.ndarray


@cache
def known() -> dict[str, Any]:
    """The global names of sources that expressions/loops.py writes."""
    names = {"np": np, "plus": add, "larger": larger, "smaller": smaller, "select": select}
    names |= {"largest": maximum, "smallest": minimum}
    for dtype in ("float32", "float64"):
        names |= {f"{name}_{dtype}": fn for name, fn in vars(functions(dtype)).items()}
    return names | {"sign": sign, "clipped": clipped}


def compiled(source: str) -> Any:
    """The function `fused` of a source."""

    def make() -> Any:
        # a loop from disk looks up its function's module
        space, path = {**known(), "__name__": kernel_of.__module__}, disk.file_of(source)
        exec(compile(source, path or "<loop>", "exec"), space)
        return kernel_of(space["fused"], on_disk=path is not None)

    return loops.get_or_make(source, make)


def readable(arrays: Sequence[Any]) -> tuple[list, list] | None:
    """The arrays as loops read them, and their forms: (shape, dtype, whether all are one element).

    Arrays that are not contiguous are copied: no bit then depends on the layout. None for other
    arrays than NumPy's.
    """
    ready, forms = [], []
    for x in arrays:
        if type(x) is not _ndarray:
            return None
        same = False
        if not x.flags.c_contiguous:
            same = x.size > 0 and not any(x.strides)
            ready.append(x[(0,) * x.ndim].reshape(1) if same else np.ascontiguousarray(x))
        else:
            ready.append(x)
        forms.append((x.shape, x.dtype, same))
    return ready, forms


def takes(arrays: Sequence[Any]) -> bool:
    """Whether the arrays are large enough for a loop."""
    return any(x.size >= install.LEAST for x in arrays)


def run(key: Hashable, fn: Callable, arrays: Sequence[Any], may_pass: bool = False) -> list | None:
    """fn's results on NumPy arrays by one loop; None if that is impossible (see fusion/launch)."""
    return launched(readable, launches, Loop, key, fn, arrays, may_pass)


def blank(fn: Callable, arrays: Sequence[Any], may_pass: bool = False) -> list | None:
    """Arrays like the results of `run`, filled with ones: nothing is compiled."""
    found = readable(arrays)
    if found is None:
        return None
    ready, forms = found
    try:
        made = Loop(fn, forms, may_pass).made
    except InFull:
        return blank(fn, [x.copy(order="C") for x in arrays], may_pass)
    except NotFusible:
        return None
    return [np.ones(*y) if type(y) is tuple else None if y is None else ready[y] for y in made]


def collapsed(shape: tuple, owns: Sequence[tuple], of_rows: bool) -> tuple[list, list]:
    """(sizes, flags of each array): the fewest axes that describe the arrays' broadcasting.

    Adjacent axes become one if the same arrays have both; the row of a program of rows stays.
    """
    sizes: list[int] = []
    columns: list[tuple] = []
    for k, n in enumerate(shape):
        row = of_rows and k == len(shape) - 1
        has = tuple([own[k] == n for own in owns])
        if any(own[k] not in (1, n) for own in owns):
            raise NotFusible("shapes that do not broadcast")
        if n == 1 and not row:
            continue
        if columns and columns[-1] == has and not row:
            sizes[-1] *= n
        else:
            sizes.append(n)
            columns.append(has)
    if not sizes:
        sizes, columns = [1], [(True,) * len(owns)]
    return sizes, [tuple([column[i] for column in columns]) for i in range(len(owns))]


class Loop(Launch):
    """One loop for arrays of given shapes, compiled at its first call."""

    def __init__(self, fn: Callable, forms: list, may_pass: bool):
        shape = np.broadcast_shapes(*[form[0] for form in forms])
        if not prod(shape):
            raise NotFusible("nothing to do")
        dtypes = [form[1] for form in forms]
        owns = [
            (1,) * len(shape) if same else (1,) * (len(shape) - len(own)) + own
            for own, _, same in forms
        ]
        lines = [own[-1:] != shape[-1:] for own in owns]
        passing = [may_pass and own == shape for own in owns]
        made = Recording(fn, dtypes, lines, passing)
        if made.by_rows and any(form[2] for form in forms):
            require_lines_of(fn, dtypes, [form[0] for form in forms], shape[-1], made.found)
        sizes, has = collapsed(shape, owns, made.by_rows)
        if sizes[-1] < SHORT <= prod(shape):
            raise NotFusible("short rows")
        super().__init__(np, made.made(shape))
        layout = Layout(len(sizes), tuple(has), made.by_rows)
        self._place(sizes, layout, made)
        if made.outputs:
            self.source = writer.row_source(made.inputs, made.outputs, layout)

    @cached_property
    def loop(self) -> Any:
        """The compiled loop."""
        return compiled(self.source)

    def _place(self, sizes: list, layout: Layout, made: Recording) -> None:
        """Set the arrays' shapes for the loop, and their cuts for threads."""
        needed = reached(made.outputs)
        self.reads = [x.number for x in made.inputs if x.number in needed]
        flags = [layout.has[i] for i in self.reads]
        flags += [(True,) * (layout.ndim - 1) + (not made.is_line(y),) for y in made.outputs]
        self.shapes = [
            tuple([n for n, has in zip(sizes, own, strict=True) if has]) or (1,) for own in flags
        ]
        axes = range(layout.ndim - 1) if layout.of_rows and layout.ndim > 1 else range(layout.ndim)
        self.sizes, self.axis = sizes, max(axes, key=lambda k: sizes[k])
        self.cuts = [sum(own[: self.axis]) if own[self.axis] else None for own in flags]
        whole = layout.of_rows and layout.ndim == 1  # a single row is one piece
        n = sizes[self.axis]
        step = n if whole else max(1, PIECE * n // prod(sizes))
        self.spans = spans(n, step)

    def fill(self, arrays: Sequence[Any], ys: list) -> None:
        if not ys:
            return
        arrays = [*[arrays[i] for i in self.reads], *ys]
        self.compute([x.reshape(shape) for x, shape in zip(arrays, self.shapes, strict=True)])

    def compute(self, seen: list) -> None:
        """Run on the arrays that it reads and its results, in the shapes of the loop."""
        if len(self.spans) == 1:
            self.loop(*self.sizes, *seen)
            return
        before, after = self.sizes[: self.axis], self.sizes[self.axis + 1 :]

        def work(span: slice) -> None:
            parts = [
                x if k is None else x[span] if k == 0 else x[(*(slice(None),) * k, span)]
                for x, k in zip(seen, self.cuts, strict=True)
            ]
            self.loop(*before, span.stop - span.start, *after, *parts)

        pool.share(work, self.spans)


class Filling:
    """A loop that writes into arrays of the caller, for a program whose memory is planned.

    given   the shapes in which fn takes arrays like these
    reads   the arrays that the loop reads, by number
    """

    def __init__(self, fn: Callable, arrays: Sequence[Any], given: Sequence[tuple]):
        found = readable([x.reshape(own) for x, own in zip(arrays, given, strict=True)])
        if found is None or any(form[2] for form in found[1]):
            raise NotFusible("an array that another layout may replace")
        self.loop = Loop(fn, found[1], may_pass=True)
        if len(self.loop.places) < len(self.loop.made):
            raise NotFusible("a result that is an argument, or None")
        self.reads = self.loop.reads

    def on(self, arrays: Sequence[Any]) -> Callable[..., None]:
        """The call for these arrays and results. Those that are None it takes, in their order."""
        loop, shapes = self.loop, self.loop.shapes
        seen = [None if x is None else x.reshape(own)
                for x, own in zip(arrays, shapes, strict=True)]  # fmt: skip
        late = [(k, shapes[k]) for k, x in enumerate(seen) if x is None]
        if not late:
            return partial(loop.compute, seen)

        def call(*given: Any) -> None:
            own = seen.copy()
            for (k, shape), x in zip(late, given, strict=True):
                own[k] = (x if x.flags.c_contiguous else np.ascontiguousarray(x)).reshape(shape)
            loop.compute(own)

        return call


# -- sums over rows --------------------------------------------------------------------------------


def run_columns(key: Hashable, fn: Callable, arrays: Sequence[Any]) -> list | None:
    """Σ over the rows of fn(…): see fusion/launch.run_columns.

    The number of rows alone decides how they are cut into shares. Each share is added up in order,
    then their sums.
    """
    return launched(readable, launches, Columns, (key, "columns"), fn, arrays)


class Columns:
    """Sums down the columns of arrays of given shapes."""

    def __init__(self, fn: Callable, forms: list):
        shape = np.broadcast_shapes(*[form[0] for form in forms])
        if len(shape) != 2 or not prod(shape):
            raise NotFusible("nothing to add")
        self.rows, self.columns = shape
        owns = [(1, 1) if same else (1,) * (2 - len(own)) + own for own, _, same in forms]
        has = [(own[0] == self.rows, own[1] == self.columns) for own in owns]
        inputs, outputs = trace(fn, [form[1] for form in forms])
        needed = reached(outputs)
        self.reads = [x.number for x in inputs if x.number in needed]
        self.has = [has[i] for i in self.reads]
        self.dtypes = [y.dtype for y in outputs]
        self.loop = compiled(writer.column_source(inputs, outputs, has))
        share = max(-(-self.rows // 64), -(-(PIECE // 2) // self.columns))
        self.spans = spans(self.rows, share)

    def __call__(self, arrays: Sequence[Any]) -> list:
        parts = [np.zeros((len(self.spans), self.columns), dtype) for dtype in self.dtypes]
        shapes = [tuple([n for n, own in zip((self.rows, self.columns), has, strict=True) if own])
                  for has in self.has]  # fmt: skip
        seen = [
            arrays[i].reshape(shape or (1,)) for i, shape in zip(self.reads, shapes, strict=True)
        ]

        def work(k: int) -> None:
            span = self.spans[k]
            own = [x[span] if has[0] else x for x, has in zip(seen, self.has, strict=True)]
            self.loop(span.stop - span.start, self.columns, *own, *[part[k] for part in parts])

        pool.share(work, range(len(self.spans)))
        return [np.add.reduce(part, axis=0) for part in parts]
