"""The roofline: each op's speed, compared with this machine's peaks.

An op of f operations that moves b bytes takes at least max(f / peak, b / bandwidth). The bandwidth
is that of the cache which holds b bytes, or of memory. An op that takes much longer than that bound
waits for neither. If calling it takes a third of its time, this overhead bounds it; for other ops
the figures give no bound. S. Williams, A. Waterman, D. Patterson, "Roofline" (2009).
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from minigrad.instrument.formats import Event, header, json_text
from minigrad.instrument.lanes import Lanes, walk
from minigrad.instrument.table import counted, duration, printable, text_table

from .calling import calling
from .names import fitted, scaled, sentence, wrapped
from .peaks import Peaks, measured_peaks
from .view import BY

FAR = 4.0  # times slower than the roof: it waits for neither arithmetic nor memory
SURE = 1.25  # a measured roof is accurate to about this factor
CALLS = 1 / 3  # of its time: an op with such a part in its calls is bound by their overhead
_SPARE = (
    "FLOP/B",
    "B/s",
    "calls",
    "FLOP/s",
    "of roof",
)  # columns that a narrow terminal omits


@dataclass(slots=True)
class Calls:
    """Calls of one op with the same operations, bytes and dtype; None: not known.

    own_ns  their time together, without the events inside; least_ns: that of the fastest
    """

    op: str
    flops: int | None
    moved: int | None
    dtype: str
    n: int = 0
    own_ns: int = 0
    least_ns: int = 0

    def more(self, n: int, own_ns: int, least_ns: int) -> None:
        """Count further calls."""
        self.least_ns = min(self.least_ns, least_ns) if self.n else least_ns
        self.n += n
        self.own_ns += own_ns


@dataclass(slots=True)
class Point:
    """One row: an op (shape, line ...) in one direction.

    bound       "compute", "memory" or "overhead": the limit of its time; "" if none of these
    roof_ns     the least time its operations and bytes take on this machine
    quiet_ns    the time if each call took as long as the fastest of its kind: without the
                disturbance by other programs
    calling_ns  of that, the time that calls take without their work
    unknown     calls whose operations are not known
    elsewhere   calls that take too little time for their work by any roof: blocks of another op do
                it, or fewer operations. That work is not counted here
    """

    name: str
    phase: str
    calls: int = 0
    flops: int = 0
    moved: int = 0
    self_ns: int = 0
    compute_ns: float = 0.0
    memory_ns: float = 0.0
    unknown: int = 0
    quiet_ns: float = 0.0
    calling_ns: float = 0.0
    elsewhere: int = 0

    def add(self, calls: Calls, peaks: Peaks) -> None:
        """Count calls of one kind."""
        n, flops, moved = calls.n, calls.flops or 0, calls.moved or 0
        self.calls += n
        self.self_ns += calls.own_ns
        self.unknown += n * (calls.flops is None)
        self.quiet_ns += n * calls.least_ns
        self.calling_ns += n * min(calls.least_ns, calling(calls.op, self.phase))
        compute_ns = 1e9 * n * flops / peaks.flops(calls.dtype)
        memory_ns = 1e9 * n * moved / peaks.traffic(moved)
        above = max(compute_ns, memory_ns) / max(1, calls.own_ns)
        if above > SURE:
            self.elsewhere += n
            return
        self.flops += n * flops
        self.moved += n * moved
        self.compute_ns += compute_ns / max(1.0, above)
        self.memory_ns += memory_ns / max(1.0, above)

    @property
    def roof_ns(self) -> float:
        return max(self.compute_ns, self.memory_ns)

    @property
    def bound(self) -> str:
        quiet = self.quiet_ns or self.self_ns
        if quiet and self.calling_ns >= max(CALLS * quiet, self.roof_ns):
            return "overhead"
        if not self.roof_ns or quiet > FAR * self.roof_ns:
            return ""
        return "compute" if self.compute_ns >= self.memory_ns else "memory"

    @property
    def rate(self) -> float:
        """Operations a second."""
        return 1e9 * self.flops / self.self_ns if self.self_ns else 0.0

    @property
    def speed(self) -> float:
        """Bytes a second."""
        return 1e9 * self.moved / self.self_ns if self.self_ns else 0.0

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.moved if self.moved else 0.0


@dataclass(slots=True)
class Roofline:
    """The points of a log, the longest first, and the peaks to compare them with."""

    points: list[Point]
    peaks: Peaks
    by: str
    cut: str | None = None

    def json(self) -> str:
        """The whole roofline as a JSON text."""
        derived = ("roof_ns", "bound", "rate", "speed", "intensity")
        rows = [asdict(p) | {name: getattr(p, name) for name in derived} for p in self.points]
        told = {"peaks": asdict(self.peaks), "by": self.by, "rows": rows}
        return json_text({**header("minigrad.roofline"), **told})

    def text(self, width: int = 80, top: int = 20) -> str:
        """A table with a badge for each row, and the picture."""
        peaks = self.peaks
        title = (
            f"this machine: {scaled(peaks.float32)}FLOP/s float32, {scaled(peaks.float64)}FLOP/s "
            f"float64, {scaled(peaks.bandwidth)}B/s from memory, {scaled(peaks.cached)}B/s from "
            "caches"
        )
        columns = ["<op" if self.by == "op" else f"<{self.by}", "<phase", "calls", "self",
                   "FLOP/s", "B/s", "FLOP/B", "of roof", "<bound"]  # fmt: skip
        rows = [_cells(point) for point in self.points[:top]]
        parts = [*sentence(title, width), text_table(columns, rows, width, fitted, _SPARE)]
        if rest := self.points[top:]:
            parts.append(
                f"({counted(len(rest), 'more row')}, {duration(sum(p.self_ns for p in rest))})"
            )
        for point in self.points[:top]:
            parts += sentence(_told(point), width) if point.elsewhere else []
        return "\n".join([*parts, "", *self.picture(width)])

    def picture(self, width: int = 80, height: int = 14) -> list[str]:
        """FLOP/s over FLOP/B, both logarithmic: the roof, and a letter for each row."""
        shown = [p for p in self.points if p.flops and p.moved and p.self_ns][:26]
        if not shown:
            return ["(no op with known operations)"]
        frame = _Frame(shown, self.peaks, width - 10, height)
        grid = [[" "] * frame.columns for _ in range(height)]
        for column in range(frame.columns):
            for speed, peak, mark in (
                (self.peaks.cached, self.peaks.float32, "╌"),
                (self.peaks.bandwidth, self.peaks.float64, "·"),
                (self.peaks.bandwidth, self.peaks.float32, "─"),
            ):
                row = frame.row(min(peak, frame.intensity(column) * speed))
                grid[row][column] = mark
        for i, point in enumerate(shown):
            grid[frame.row(point.rate)][frame.column(point.intensity)] = chr(ord("A") + i)
        lines = [f"{scaled(frame.rate(r)):>7}  {''.join(cells)}" for r, cells in enumerate(grid)]
        low, high = frame.intensity(0), frame.intensity(frame.columns - 1)
        axis = f"{low:.2g} FLOP/B{'':{max(frame.columns - 22, 1)}}{high:.3g} FLOP/B"
        names = [f"{chr(65 + i)} {fitted(p.name, 29)} {p.phase}" for i, p in enumerate(shown)]
        legend = wrapped("", names, width)
        return [
            *lines,
            f"{'':9}{axis}",
            *sentence(
                "─ roof of float32, · of float64 where it is lower, ╌ with arrays in a cache", width
            ),
            *legend,
        ]

    def svg(self, width: int = 720, height: int = 420) -> str:
        """The same picture as an SVG document."""
        shown = [p for p in self.points if p.flops and p.moved and p.self_ns][:60]
        frame = _Frame(shown, self.peaks, width - 100, height - 80)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="#fff"/>',
        ]
        roofs = (
            ("float32", self.peaks.float32, self.peaks.bandwidth, "#1f5fa8", ""),
            ("float64", self.peaks.float64, self.peaks.bandwidth, "#7a4fa3", ""),
            ("caches", self.peaks.float32, self.peaks.cached, "#1f5fa8", ' stroke-dasharray="4 3"'),
        )
        taken: list[tuple[float, float, float, float]] = []  # boxes of texts already placed
        for name, peak, speed, colour, dash in roofs:
            points = " ".join(
                f"{70 + c},{20 + frame.row(min(peak, frame.intensity(c) * speed))}"
                for c in range(0, frame.columns, 4)
            )
            parts.append(f'<polyline fill="none" stroke="{colour}"{dash} points="{points}"/>')
            if name == "caches":
                continue
            top = 16 + frame.row(peak)
            taken.append((width - 32 - 150, top - 10, width - 32, top + 2))
            parts.append(
                f'<text x="{width - 32}" y="{top}" text-anchor="end" fill="{colour}">{name} '
                f"{scaled(peak)}FLOP/s</text>"
            )
        for point in shown:
            x, y = 70 + frame.column(point.intensity), 20 + frame.row(point.rate)
            label = _escaped(f"{point.name} ({point.phase})")
            told = f", {point.bound} bound" if point.bound else ""
            parts.append(
                f'<circle cx="{x}" cy="{y}" r="4" fill="{_COLOURS[point.bound]}"><title>{label}: '
                f"{scaled(point.rate)}FLOP/s, {point.intensity:.3g} FLOP/B{told}"
                "</title></circle>"
            )
        dots = [(70 + frame.column(p.intensity), 20 + frame.row(p.rate)) for p in shown]
        names = [(x, y, point.name[:28]) for (x, y), point in zip(dots, shown[:12])]
        for x, y, anchor, name in _apart(names, dots, taken):
            parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{_escaped(name)}</text>')
        parts += _axes(frame, width, height)
        return "\n".join([*parts, "</svg>"]) + "\n"


def _apart(
    names: list[tuple[int, int, str]],
    dots: list[tuple[int, int]],
    taken: list[tuple[float, float, float, float]],
) -> Iterator[tuple[int, int, str, str]]:
    """(x, y, anchor, name) of labels next to their dots, without labels that would hide another."""
    boxes = [*taken, *[(x - 4.0, y - 4.0, x + 4.0, y + 4.0) for x, y in dots]]
    for x, y, name in names:
        wide = 6.5 * len(name)
        for left, row, anchor in (
            (6, 4, "start"),
            (-6, 4, "end"),
            (6, -6, "start"),
            (6, 14, "start"),
        ):
            start = x + left - (wide if anchor == "end" else 0)
            box = (start, y + row - 9.0, start + wide, y + row + 2.0)
            if not any(
                box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in boxes
            ):
                boxes.append(box)
                yield x + left, y + row, anchor, name
                break


_COLOURS = {"compute": "#1a7f37", "memory": "#b35900", "overhead": "#b3261e", "": "#777"}


class _Frame:
    """The position of a rate and an intensity on a logarithmic plane."""

    def __init__(self, points: list[Point], peaks: Peaks, columns: int, rows: int):
        self.peaks, self.columns, self.rows = peaks, max(columns, 10), rows
        ridge = peaks.float32 / peaks.bandwidth
        intensities = [p.intensity for p in points] + [ridge / 10, ridge * 4]
        rates = [p.rate for p in points] + [peaks.float32 * 1.2, peaks.float32 / 1e3]
        self.x0, self.x1 = math.log(min(intensities)) - 0.3, math.log(max(intensities)) + 0.3
        self.y0, self.y1 = math.log(min(rates)), math.log(max(rates))

    def column(self, intensity: float) -> int:
        return self._place(math.log(intensity), self.x0, self.x1, self.columns)

    def row(self, rate: float) -> int:
        return self.rows - 1 - self._place(math.log(max(rate, 1)), self.y0, self.y1, self.rows)

    def intensity(self, column: int) -> float:
        return math.exp(self.x0 + (self.x1 - self.x0) * column / (self.columns - 1))

    def rate(self, row: int) -> float:
        return math.exp(self.y1 - (self.y1 - self.y0) * row / (self.rows - 1))

    @staticmethod
    def _place(value: float, low: float, high: float, count: int) -> int:
        return min(count - 1, max(0, round((value - low) / (high - low) * (count - 1))))


def _axes(frame: _Frame, width: int, height: int) -> list[str]:
    base = 20 + frame.rows
    parts = [
        f'<path d="M70 20V{base}H{70 + frame.columns}" fill="none" stroke="#444"/>',
        f'<text x="{width // 2}" y="{height - 12}" text-anchor="middle">operations a byte</text>',
        f'<text transform="translate(14 {height // 2}) rotate(-90)" text-anchor="middle">'
        "operations a second</text>",
    ]
    for power in range(-6, 16):
        if frame.y0 <= math.log(10) * power <= frame.y1:
            y = 24 + frame.row(10.0**power)
            parts.append(f'<text x="64" y="{y}" text-anchor="end">{scaled(10.0**power)}</text>')
        if frame.x0 <= math.log(10) * power <= frame.x1:
            x = 70 + frame.column(10.0**power)
            text = f"{10.0**power:g}"
            parts.append(f'<text x="{x}" y="{base + 16}" text-anchor="middle">{text}</text>')
    return parts


def roofline(path: str, by: str = "op", peaks: Peaks | None = None) -> Roofline:
    """The points of a log, grouped as in `view`; peaks: measured now by default."""
    key = BY[by]
    peaks = peaks or measured_peaks()

    def key_of(event: Event) -> tuple:
        dtypes = [y["dtype"] for y in event.arrays["outputs"] or event.arrays["inputs"]]
        dtype = dtypes[0] if dtypes else "float64"
        return event.kind, key(event), event.op, event.flops, event.moved, dtype

    lanes = Lanes(path, key_of)
    points: dict[tuple[str, str], Point] = {}
    for kind, name, calls in _calls(lanes, by):
        point = points.setdefault((name, kind), Point(name, kind))
        point.add(calls, peaks)
    ordered = sorted(points.values(), key=lambda p: (-p.self_ns, p.name, p.phase))
    return Roofline(ordered, peaks, by, lanes.cut)


def _told(point: Point) -> str:
    """A sentence about calls that take less time than any roof allows."""
    return (
        f"{point.name} {point.phase}: {counted(point.elsewhere, 'call')} are left out, since "
        "blocks of another op do their work, or fewer operations than counted"
    )


def _calls(lanes: Lanes, by: str) -> Iterator[tuple[str, str, Calls]]:
    """(phase, name of the row, calls) for each kind of call in a log."""
    found: dict[tuple[str, int], Calls] = {}
    for thread, lane in lanes.lanes.items():
        row = f"{lane.name} ({thread})" if by == "thread" else ""
        for _, number, own, _ in walk(lane):
            kind, _, *work = lanes.keys[number]
            if own is not None and kind != "pass":
                known = found.get((row, number))
                if known is None:
                    known = found[row, number] = Calls(*work)
                known.more(1, own, own)
    for (row, number), calls in found.items():
        kind, name, *_ = lanes.keys[number]
        yield kind, row or name, calls


def _cells(point: Point) -> list[str]:
    worked = point.flops or point.moved
    roof = f"{100 * point.roof_ns / point.self_ns:.0f} %" if worked and point.self_ns else ""
    return [
        point.name,
        point.phase,
        f"{point.calls:,}",
        duration(point.self_ns),
        scaled(point.rate) if point.flops else "",
        scaled(point.speed) if point.moved else "",
        f"{point.intensity:.2g}" if point.flops and point.moved else "",
        roof,
        point.bound,
    ]


def _escaped(text: str) -> str:
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
