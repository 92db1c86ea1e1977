"""One window position of all windows at once, as a shifted contiguous copy of the image.

Depthwise convolution and the gradient of max pooling are sums, over the positions k of a window, of
the image shifted by k. NumPy is fast where its inner loops are long: windows are read as runs
(backends/window_runs.py). A run also computes entries between two rows of results, which are
dropped.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..backends.blocks import scratch
from ..backends.device import array_module
from ..backends.image_layout import lies_places_first, scratch_like, turned
from ..backends.window_runs import WindowRuns
from ..ops.windows import Windows, every, inside
from .windows import padded


class Shifts(WindowRuns):
    """The pixels at each position of the windows of images (*lead, *size), as runs."""

    # -- images and their phases

    def phases(self, x: Any, name: str, value: float = 0) -> Any:
        """x padded with `value` and split into phases: (*stride, *lead, entries), in scratch memory
        or x.

        Entries after the padding, which make the phases equally long, have this value too.
        """
        dims = len(self.size)
        lead = x.shape[: x.ndim - dims]
        if set(self.how.stride) == {1} and tuple(self.rows) == self.size:
            return x.reshape((*self.how.stride, *lead, prod(self.rows)))
        y = scratch.empty(name, (*self.how.stride, *lead, *self.rows), x)
        if self._filled():
            y[...] = value
        for phase, of_x, of_phase in self._phase_by_phase():
            y[phase][of_phase] = x[of_x]
        return y.reshape((*self.how.stride, *lead, prod(self.rows)))

    def image(self, phases: Any, y: Any) -> None:
        """y = the images with these phases, without the padding."""
        phases = phases.reshape((*phases.shape[:-1], *self.rows))
        for phase, of_y, of_phase in self._phase_by_phase():
            y[of_y] = phases[phase][of_phase]

    def _filled(self) -> bool:
        """Whether phases have entries that the image does not have."""
        axes = zip(self.rows, self.how.stride, self.size, strict=True)
        return any(row * step != n for row, step, n in axes)

    def _phase_by_phase(self) -> Iterator[tuple]:
        """(phase, index into the image, index into the phase) for each of the phases."""
        how = self.how
        for phase in product(*map(range, how.stride)):
            of_x, of_phase = [], []
            axes = zip(phase, self.size, how.stride, how.padding, strict=True)
            for start, n, step, (before, _) in axes:
                first = -(-max(0, before - start) // step)  # of its entries outside the padding
                there = range(start + first * step - before, n, step)
                of_x.append(slice(there.start, n, step))
                of_phase.append(slice(first, first + len(there)))
            yield phase, (..., *of_x), (..., *of_phase)

    # -- runs

    def places(self, x: Any, value: float = 0) -> list:
        """For each kernel position the pixels of x there in all windows, as a run."""
        return self.runs(self.phases(x, "phases", value))

    def put(self, terms: Iterable[Callable], y: Any, like: Any) -> None:
        """y = the sum over kernel positions of the array, like `like`, that term(out) writes."""
        self.image(self.collect(_written(terms, like), like.shape[:-1], like), y)

    def runs(self, phases: Any) -> list:
        """For each kernel position a view (*lead, length) of the phases."""
        return [phases[phase][..., start : start + self.length] for phase, start in self.starts()]

    def collect(self, terms: Iterable, lead: tuple, like: Any) -> Any:
        """Phases with the terms (*lead, length), one for each kernel position, added in their
        places."""
        shape = (*self.how.stride, *lead, prod(self.rows))
        phases = scratch.empty("phases", shape, like)
        begun = set()
        for (phase, start), term in zip(self.starts(), terms, strict=True):
            run = phases[phase]
            if phase not in begun and start == 0:
                run[..., : self.length] = term
                run[..., self.length :] = 0
            else:
                if phase not in begun:
                    run[...] = 0
                run[..., start : start + self.length] += term
            begun.add(phase)
        for phase in {*product(*map(range, self.how.stride))} - begun:
            phases[phase] = 0
        return phases

    # -- results

    def result(self, y: Any) -> Any:
        """The entries of a run y (*lead, length) that are results: (*lead, *out). A view."""
        strides = (*y.strides[:-1], *(step * y.itemsize for step in self.steps))
        as_strided = array_module(y).lib.stride_tricks.as_strided
        return as_strided(y, (*y.shape[:-1], *self.out), strides)

    def spread(self, a: Any, name: str) -> Any:
        """a (*lead, *out) as a run (*lead, length), 0 where the run holds no result."""
        lead = a.shape[: a.ndim - len(self.out)]
        if self.length == prod(self.out):
            return a.reshape((*lead, self.length))
        y = scratch.empty(name, (*lead, self.length), a)
        y[...] = 0
        self.result(y)[...] = a
        return y


class Tiles:
    """The same for windows without overlap, gaps or padding.

    One position of all windows is then a plain slice, and every pixel has one term.
    """

    def __init__(self, how: Windows, size: tuple, out: tuple):
        self.kernel = how.kernel
        axes = zip(size, how.kernel, out, strict=True)
        self.covers = all(n == kernel * count for n, kernel, count in axes)
        self.stops = tuple(kernel * count for kernel, count in zip(how.kernel, out, strict=True))

    def places(self, x: Any, value: float = 0) -> list:
        return [x[index] for index in self._indices()]

    def put(self, terms: Iterable[Callable], y: Any, like: Any) -> None:
        if not self.covers:
            y[...] = 0
        if y.dtype == like.dtype:
            for out, term in zip([y[index] for index in self._indices()], terms, strict=True):
                term(out)
        else:
            for index, written in zip(self._indices(), _written(terms, like), strict=True):
                y[index] = written

    def cover(self, y: Any, a: Any) -> None:
        """y = each entry of a at all pixels of its window.

        Axis after axis, the last one first: the copies along the other axes have whole rows as
        runs.
        """
        dims = len(self.kernel)
        if not self.covers:
            y[...] = 0
            y = y[(..., *[slice(stop) for stop in self.stops])]
        first = next((i for i, kernel in enumerate(self.kernel) if kernel > 1), 0)
        for i in reversed(range(first, dims)):
            kernel, lead = self.kernel[i], a.shape[: a.ndim - dims + i]
            shape = (*lead, kernel * a.shape[len(lead)], *a.shape[len(lead) + 1 :])
            out = y if i == first else scratch_like(f"axis {i}", shape, a)
            if i < dims - 1:
                rows = out.reshape((*lead, a.shape[len(lead)], kernel, *shape[len(lead) + 1 :]))
                np.copyto(rows, np.expand_dims(a, len(lead) + 1), casting="unsafe")
            else:  # here a row would be as short as the kernel
                for place in range(kernel):
                    np.copyto(out[..., place::kernel], a, casting="unsafe")
            a = out

    def spread(self, a: Any, name: str) -> Any:
        return a

    def result(self, y: Any) -> Any:
        return y

    def _indices(self) -> Iterator[tuple]:
        for place in product(*map(range, self.kernel)):
            axes = zip(place, self.stops, self.kernel, strict=True)
            yield (..., *[slice(start, stop, step) for start, stop, step in axes])


class Views:
    """The same for any windows of images pixels first, where views have long runs."""

    def __init__(self, how: Windows, size: tuple, out: tuple):
        self.how, self.size, self.out = how, size, out

    def places(self, x: Any, value: float = 0) -> list:
        x = padded(x, self.how.padding, "phases", value)
        return [x[index] for index in self._indices()]

    def put(self, terms: Iterable[Callable], y: Any, like: Any) -> None:
        total = self._padded(y)
        total[...] = 0
        for index, written in zip(self._indices(), _written(terms, like), strict=True):
            total[index] += written
        y[...] = total[inside(self.how.padding, self.size)]

    def spread(self, a: Any, name: str) -> Any:
        return a

    def result(self, y: Any) -> Any:
        return y

    def _padded(self, x: Any) -> Any:
        """Scratch memory for images like x with their padding."""
        size = [n + sum(pair) for n, pair in zip(self.size, self.how.padding, strict=True)]
        return scratch_like("padded", (*x.shape[:2], *size), x)

    def _indices(self) -> Iterator[tuple]:
        for place in product(*map(range, self.how.kernel)):
            axes = zip(place, self.how.axes(), self.out, strict=True)
            yield (..., *[every(k * d, s, n) for k, (_, s, _, d), n in axes])


def _written(terms: Iterable[Callable], like: Any) -> Iterator[Any]:
    """The arrays that the terms write, one after the other, each in the same scratch memory."""
    out = scratch_like("product", like.shape, like)
    for term in terms:
        term(out)
        yield out


def placed(how: Windows, like: Any, size: tuple, out: tuple) -> Shifts | Tiles | Views:
    """The walk, position by position, through these windows of images of this size; `like` has
    their memory order.
    """
    if how.tiling:
        return Tiles(how, size, out)
    lies_so = like.ndim == len(out) + 2 and turned(like) and lies_places_first(like)
    return (Views if lies_so else Shifts)(how, size, out)
