"""Pooling kernels with constant windows and image sizes: a thread takes several pixels of a row.

A thread reads the rows under its windows in loads of up to 16 bytes, and reads pixels that
neighbouring windows share once. All loops are unrolled, so the compiler knows the window of each
pixel. The kernel compares with the border only where a window may reach over it.

A forward's thread computes `width` neighbouring results. A gradient's thread computes `width`
neighbouring pixels, a multiple of the stride, from all windows that cover them. Nothing is added by
atomics, so results repeat bit for bit.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..expressions.cuda import computed, stored
from ..ops.windows import Windows
from .row_text import kernel_text, place_of

_MOST_PLACES = 64  # pixels of a window, above which unrolling costs more than it saves
_MOST_STRIDE = 8
_HITS = {8: np.uint8, 16: np.uint16, 32: np.uint32}  # number of bits -> dtype


def suits(how: Windows) -> bool:
    """Whether these kernels take such windows; those of pooling.py take all others."""
    return prod(how.kernel) <= _MOST_PLACES and max(how.stride[-2:]) <= _MOST_STRIDE


def hits_dtype(how: Windows) -> Any:
    """The unsigned dtype with a bit for each pixel of a window; None if a window has too many."""
    fits = [bits for bits in _HITS if prod(how.kernel) <= bits]
    return np.dtype(_HITS[fits[0]]) if fits and suits(how) else None


def results_width(how: Windows, out: tuple, dtype: Any) -> int:
    """The number of neighbouring results of a thread: at most two loads of the image's row."""
    width, bytes_each = 1, how.stride[-1] * np.dtype(dtype).itemsize
    while width < 8 and 2 * width * bytes_each <= 32 and 2 * width * prod(how.kernel) <= 128:
        width *= 2
    return min(width, 2) if out[-1] % width else width  # uneven rows store single elements


def places_shape(how: Windows, size: tuple, dtype: Any) -> tuple[int, int]:
    """(rows, columns) of the pixels that a thread computes: whole strides, 16 bytes of a row.

    A thread reads a window that covers several of them once.
    """
    stride = how.stride[-1]
    width = max(1, 16 // np.dtype(dtype).itemsize // stride) * stride
    width = stride if size[-1] % width else width
    if len(size) == 1:
        return 1, width
    height = how.stride[-2]
    return (2 if height == 1 < how.kernel[-2] and width <= 8 else height), width


def threads_for(shape: tuple, height: int, width: int) -> int:
    """The number of threads for such images, each of which computes this many rows and columns."""
    rows = prod(shape[:-1]) if height == 1 else prod(shape[:-2]) * -(-shape[-2] // height)
    return rows * -(-shape[-1] // width)


@lru_cache(maxsize=256)
def largest_source(how: Windows, size: tuple, out: tuple, dtype: Any, index: str) -> str:
    """y = the maximum of each window, a NaN if there is one; hits: its pixels, one bit each."""
    c, hits = computed(dtype), hits_dtype(how)
    width = results_width(how, out, dtype)
    noted = hits is not None
    takes = [
        f"take(v{j}, {inside}, {f'1u << (place + {k})' if noted else '0'}, result[{w}], bits[{w}]);"
        for w, k, j, inside in _members(how, size, width, out)
    ]
    start = f"for (int w = 0; w < {width}; ++w) {{ result[w] = -INFINITY; bits[w] = 0; }}"
    outputs = [("y", stored(dtype), f"({stored(dtype)})result[w]")]
    if noted:
        outputs.append(("hits", _word(hits), f"({_word(hits)})bits[w]"))
    rows = _rows_read(how, size, out, dtype, width, "-INFINITY", takes)
    own = f"{c} result[{width}]; unsigned int bits[{width}];"
    body = "\n    ".join([own, "#pragma unroll", start, rows])
    take = _TAKE if noted else _TAKE_UNNOTED
    return kernel_text(index, {"x": stored(dtype)}, outputs, out, width, body, "", take)


@lru_cache(maxsize=256)
def sum_source(
    how: Windows, size: tuple, out: tuple, dtype: Any, index: str, divisor: Any = 1
) -> str:
    """y = the sum of each window / divisor; if that is padding that counts, / its pixels."""
    c = computed(dtype)
    width = results_width(how, out, dtype)
    takes = [f"result[{w}] += v{j};" for w, _, j, _ in _members(how, size, width, out)]
    rows = _rows_read(how, size, out, dtype, width, "0", takes)
    last = len(size) - 1
    end = f"const int o{last} = q * {width} + w;" if type(divisor) is tuple else ""
    value = f"({stored(dtype)})({divided('result[w]', c, how, size, divisor)})"
    body = f"{c} result[{width}] = {{}};\n    {rows}"
    inputs, outputs = {"x": stored(dtype)}, [("y", stored(dtype), value)]
    return kernel_text(index, inputs, outputs, out, width, body, end)


@lru_cache(maxsize=256)
def largest_gradient_source(how: Windows, size: tuple, out: tuple, dtype: Any, index: str) -> str:
    """Each pixel's equal share of the windows with it as maximum, according to the hits."""
    c, hits = computed(dtype), _word(hits_dtype(how))

    def window(members: list) -> str:
        takes = " ".join(f"if (h >> {k} & 1) result[{j}] += share;" for j, k in members)
        return (
            f"const unsigned int all = {{hits}}, h = all >> place; {c} share = ({c}){{a}}; "
            f"if (all & (all - 1)) share /= __popc(all); {takes}"
        )

    arrays = {"a": stored(dtype), "hits": hits}
    return _gradient(how, size, out, dtype, index, arrays, window)


@lru_cache(maxsize=256)
def sum_gradient_source(
    how: Windows, size: tuple, out: tuple, dtype: Any, index: str, divisor: Any = 1
) -> str:
    """Each pixel's sum of a / divisor over the windows that cover it."""
    c = computed(dtype)

    def window(members: list) -> str:
        takes = " ".join(f"result[{j}] += share;" for j, _ in members)
        return f"const {c} share = {divided(f'({c}){{a}}', c, how, size, divisor)}; {takes}"

    return _gradient(how, size, out, dtype, index, {"a": stored(dtype)}, window)


def divided(value: str, c: str, how: Windows, size: Sequence[Any], divisor: Any) -> str:
    """value / divisor in C; if that is padding that counts, / the counted pixels of window o0 …"""
    if type(divisor) is not tuple:
        return value if divisor == 1 else f"{value} / ({c}){float(divisor)!r}"
    counts = []
    for axis, (n, along, (before, after)) in enumerate(zip(size, how.axes(), divisor, strict=True)):
        kernel, stride, (start, _), _ = along
        low = f"o{axis} * {stride} - {start}"
        counts.append(f"(min({low} + {kernel}, {n} + {after}) - max({low}, -{before}))")
    return f"{value} / ({c})({' * '.join(counts)})"


# -- the text of a forward -----------------------------------------------------------------------

_TAKE = """
template <typename C> __device__ __forceinline__
void take(C v, bool inside, unsigned int bit, C& best, unsigned int& bits) {
    if (v != v) bits = best == best ? bit : bits | bit;  // the first NaN drops all numbers
    else bits = v > best ? bit : v == best && inside ? bits | bit : bits;
    best = v > best || v != v ? v : best;
}
"""
_TAKE_UNNOTED = """
template <typename C> __device__ __forceinline__
void take(C v, bool, unsigned int, C& best, unsigned int&) {
    best = v > best || v != v ? v : best;
}
"""


def _span(along: tuple) -> int:
    """The number of pixels from the first to the last one of a window, along an axis."""
    kernel, _, _, dilation = along
    return dilation * (kernel - 1) + 1


def _last(how: Windows) -> tuple:
    return tuple(how.axes())[-1]


def _members(how: Windows, size: tuple, width: int, out: tuple) -> list[tuple]:
    """(result, index in its window, column read, C test: is it in the image) along a row."""
    kernel, stride, _, dilation = _last(how)
    found = []
    for w in range(width):
        for k in range(kernel):
            j = w * stride + k * dilation
            found.append((w, k, j, _inside(how, size, out, width, j, 1) or "true"))
    return found


def _inside(how: Windows, size: tuple, out: tuple, width: int, j: int, count: int) -> str:
    """C test: are the read columns j … j + count − 1 inside the image? "" if always."""
    _, stride, (before, _), _ = _last(how)
    at = j - before
    last = (-(-out[-1] // width) - 1) * width * stride
    words = [f"at + {at} >= 0"] if at < 0 else []
    if last + at + count > size[-1]:
        words.append(f"at + {at + count} <= {size[-1]}")
    return " && ".join(words)


def _rows_read(
    how: Windows, size: tuple, out: tuple, dtype: Any, width: int, pad: str, takes: list
) -> str:
    """C loops over the rows under the windows of a thread: load a row into v0 …, then `takes`."""
    c, t, axes = computed(dtype), stored(dtype), len(size)
    last = _last(how)
    span, stride, before = (width - 1) * last[1] + _span(last), last[1], last[2][0]
    lines = [f"const int at = q * {width * stride};"]
    for k, (kernel, step, (start, end), dilation) in enumerate(tuple(how.axes())[:-1]):
        lines += [
            "#pragma unroll",
            f"for (int k{k} = 0; k{k} < {kernel}; ++k{k}) {{",
            f"const int p{k} = o{k} * {step} + k{k} * {dilation} - {start};",
        ]
        if start or end:
            lines.append(f"if (p{k} < 0 || p{k} >= {size[k]}) continue;")
    lines.append(f"const {t}* const row = x + {place_of('p', size)};")
    lines.append(f"const int place = {_offset(how, axes - 1)}; (void)place;")
    lines += _loads(how, size, out, dtype, width, span, before, pad, c, t)
    return "\n    ".join([*lines, *takes, "}" * (axes - 1)])


def _loads(
    how: Windows, size: tuple, out: tuple, dtype: Any, width: int, span: int, before: int,
    pad: str, c: str, t: str,
) -> list[str]:  # fmt: skip
    """C text: load v0 … of a row, as wide as alignment allows."""
    load = 16 // np.dtype(dtype).itemsize
    while load > 1 and (size[-1] % load or (width * how.stride[-1]) % load):
        load //= 2
    lines, j = [], 0
    while j < span:
        wide = load if (j - before) % load == 0 and j + load <= span else 1
        inside = _inside(how, size, out, width, j, wide)
        place = f"row + at + {j - before}"
        names = [f"v{j + k}" for k in range(wide)]
        if wide == 1:
            value = f"({c})*({place})"
            lines.append(f"const {c} v{j} = {f'{inside} ? {value} : {pad}' if inside else value};")
        else:
            lines.append(f"{c} {', '.join(f'{name} = {pad}' for name in names)};")
            copies = " ".join(f"{name} = ({c})b.v[{k}];" for k, name in enumerate(names))
            body = f"const Lanes<{t}, {wide}> b = *(const Lanes<{t}, {wide}>*)({place}); {copies}"
            lines.append(f"{f'if ({inside}) ' if inside else ''}{{ {body} }}")
        j += wide
    return lines


def _offset(how: Windows, axes: int) -> str:
    """The index in the flattened window of k0 … of the first axes, with 0 for the others."""
    words = "0"
    for k, kernel in enumerate(how.kernel[: max(axes, 0)]):
        words = f"({words} * {kernel} + k{k})"
    return f"{words} * {prod(how.kernel[max(axes, 0) :])}"


def _word(dtype: Any) -> str:
    return stored(np.dtype(dtype)) if dtype is not None else ""


# -- the text of a gradient ----------------------------------------------------------------------


def _gradient(
    how: Windows, size: tuple, out: tuple, dtype: Any, index: str, arrays: dict[str, str],
    window: Callable[[list], str],
) -> str:  # fmt: skip
    """A kernel whose threads compute `height` × `width` pixels; `window` gives a window's C text.

    The last window along an axis that may cover pixel p is ⌊(p + before) / stride⌋.
    """
    (height, width), c = places_shape(how, size, dtype), computed(dtype)
    axes, dims = tuple(how.axes()), len(size)
    lines = [f"{c} result[{height * width}] = {{}};"]
    for k, along in enumerate(axes[:-2]):
        _, stride, (before, _), dilation = along
        lines += [
            "#pragma unroll",
            f"for (int m{k} = 0; m{k} < {-(-_span(along) // stride)}; ++m{k}) {{",
            f"const int w{k} = (o{k} + {before}) / {stride} - m{k};",
            f"const int t{k} = o{k} + {before} - w{k} * {stride};",
            f"if (w{k} < 0 || w{k} >= {out[k]} || t{k} >= {_span(along)}) continue;",
            f"const int k{k} = t{k} / {dilation}; if (t{k} % {dilation}) continue;",
        ]
    lines.append(f"const int place = {_offset(how, dims - 2)}; (void)place;")
    columns = _covering(axes[-1], size[-1], out[-1], width, "q")
    if dims == 1:
        lines += _windows_of_row(columns, how, size, out, width, arrays, window, [(0, 0)])
    else:
        for row, check, members in _covering(axes[-2], size[-2], out[-2], height, "r"):
            lines.append(f"{check}{{ const int w{dims - 2} = {row};")
            lines += _windows_of_row(columns, how, size, out, width, arrays, window, members)
            lines.append("}")
    body = "\n    ".join([*lines, "}" * (dims - 2)])
    outputs = [("gx", stored(dtype), f"({stored(dtype)})result[w]")]
    return kernel_text(index, arrays, outputs, size, width, body, height=height)


def _covering(along: tuple, size: int, out: int, width: int, chunk: str) -> list[tuple]:
    """The windows along an axis that may cover the `width` pixels from chunk·width on.

    For each (C text of its number, C test that it exists or "", [(pixel, its index in the
    window)]). Pixels count from the chunk's first.
    """
    _, stride, (before, _), dilation = along
    first = before // stride + 1 - -(-_span(along) // stride)  # minus chunk·width / stride
    count = (width - 1 + before) // stride - first + 1
    step, chunks = width // stride, -(-size // width)
    found = []
    for w in range(first, first + count):
        places = [(j, j + before - w * stride) for j in range(width)]
        members = [
            (j, t // dilation) for j, t in places if 0 <= t < _span(along) and not t % dilation
        ]
        number = f"{chunk} * {step} + {w}"
        tests = [f"{number} >= 0"] if w < 0 else []
        if (chunks - 1) * step + w >= out:
            tests.append(f"{number} < {out}")
        if members:
            found.append((number, f"if ({' && '.join(tests)}) " if tests else "", members))
    return found


def _windows_of_row(
    columns: list[tuple], how: Windows, size: tuple, out: tuple, width: int,
    arrays: dict[str, str], window: Callable[[list], str], rows: list,
) -> list[str]:  # fmt: skip
    """C text: add the windows of a row to a thread's pixels; `rows` are the covered rows."""
    last, count = len(size) - 1, len(columns)
    lines = [f"const Index row = {place_of('w', out)};"]
    step = width // how.stride[-1]
    at_once = (
        count == step and count in (2, 4, 8) and not out[-1] % count
        and columns[0][0] == f"q * {step} + 0"
    )  # fmt: skip
    if at_once:
        lines += [
            f"const Lanes<{t}, {count}> {name}_ = load<{t}, {count}>({name} + row + q * {step});"
            for name, t in arrays.items()
        ]
    for w, (number, check, members) in enumerate(columns):
        given = {
            name: f"{name}_.v[{w}]" if at_once else f"{name}[row + {number}]" for name in arrays
        }
        covered = [
            (h * width + j, above * how.kernel[-1] + k) for h, above in rows for j, k in members
        ]
        names = "".join(f"const int o{k} = w{k}; (void)o{k}; " for k in range(last))
        names += f"const int o{last} = {number}; (void)o{last};"
        lines.append(f"{check}{{ {names} {window(covered).format(**given)} }}")
    return lines
