"""Readers of both formats: damaged, hostile, newer and future files."""

import json

import pytest

from minigrad.errors import FormatError
from minigrad.instrument import formats
from minigrad.instrument.chrome import write_chrome
from minigrad.instrument.formats import EventReader, read_graph, write_whole

pytestmark = pytest.mark.promise("files: versioned, bounded, never executed, never half-written")

NODE = {"id": 1, "kind": "leaf", "op": None, "seq": 1, "shape": [], "dtype": "float32", "bytes": 4}
GRAPH = {
    "format": "minigrad.graph",
    "version": [1, 0],
    "nodes": [NODE],
    "edges": [],
    "roots": [1],
    "backward": None,
}
HEADER = {"format": "minigrad.events", "version": [1, 0], "base_ns": 0}
THREAD = {"kind": "define", "what": "thread", "id": 0, "name": "MainThread"}
EVENT = {"kind": "forward", "op": "mul", "t0": 1, "t1": 2, "thread": 0, "seq": 1}
STREAM = {"kind": "define", "what": "stream", "id": 0, "name": "GPU 0, default stream"}
DEVICE = {**EVENT, "kind": "device", "of": "forward", "host": 1, "stream": 0}
END = {"kind": "end", "events": 1, "dropped": 0}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def test_a_graph_given_as_an_event_log_is_told_its_tool(path):
    path.write_text(json.dumps(GRAPH), encoding="utf-8")
    with pytest.raises(FormatError, match="it is a graph, which minigrad-viz draws"):
        EventReader(str(path))


def graph(path, **changes):
    path.write_text(json.dumps({**GRAPH, **changes}))
    return read_graph(str(path))


def log(path, *lines):
    text = "".join(json.dumps(line) + "\n" if isinstance(line, dict) else line for line in lines)
    path.write_text(text)
    with EventReader(str(path)) as reader:
        return list(reader)


def test_a_graph_keeps_fields_it_does_not_know(path):
    document = graph(path, version=[1, 7], flavour="plum", nodes=[{**NODE, "heat": 3}])
    assert document["flavour"] == "plum" and document["nodes"][0]["heat"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, 'no "format": "minigrad.graph"'),
        ({"version": [2, 0]}, "written by a newer minigrad"),
        ({"version": [0, 9]}, "written by an older minigrad"),
        ({"version": "1.0"}, "two integers"),
        ({"version": [1e3, 0]}, "two integers"),
        ({"nodes": {}}, '"nodes" should be a list'),
        ({"nodes": [3]}, "a unique id"),
        ({"nodes": [NODE, NODE]}, "a unique id"),
        ({"edges": [{"producer": 1, "consumer": 9}]}, "one of the edges"),
        ({"edges": [{"producer": [], "consumer": 1}]}, "one of the edges"),
        ({"roots": [2]}, "one of the roots"),
        ({"backward": {"steps": [{"node": 5}]}}, "one of the steps"),
        ({"backward": {"steps": 5}}, "a list of steps"),
        ({"backward": 5}, "a list of steps"),
    ],
)
def test_a_wrong_graph_says_what_is_wrong(path, changes, message):
    with pytest.raises(FormatError, match=message):
        graph(path, **changes)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a": NaN}', '{"a": Infinity}', "[]", "7", "1" * 5000, "\x00"]
)
def test_what_is_no_graph_is_a_format_error(path, text):
    path.write_text(text)
    with pytest.raises(FormatError):
        read_graph(str(path))


def test_bytes_that_are_no_text_are_a_format_error(path):
    path.write_bytes(b"\xff\xfe\x80pickle")
    with pytest.raises(FormatError):
        read_graph(str(path))


def test_a_graph_beyond_the_limit_is_refused(path):
    with pytest.raises(FormatError, match="larger than 10 bytes"):
        path.write_text(json.dumps(GRAPH))
        read_graph(str(path), max_bytes=10)


def test_a_file_that_is_not_there_is_a_format_error(tmp_path):
    for read in (read_graph, EventReader):
        with pytest.raises(FormatError, match="cannot be read"):
            read(str(tmp_path / "missing"))


def test_a_log_keeps_to_its_words(path):
    (event,) = log(path, HEADER, THREAD, EVENT, END)
    assert (event.kind, event.op, event.t0, event.t1, event.seq) == ("forward", "mul", 1, 2, 1)
    assert (event.arrays["inputs"], event.bytes, event.scope, event.site) == ([], 0, "", None)


def test_lines_of_kinds_to_come_are_passed_over(path):
    new = {"kind": "memory", "bytes": 7}
    other = {"kind": "define", "what": "planet", "id": 0}
    assert len(log(path, {**HEADER, "version": [1, 4]}, THREAD, new, other, EVENT, END)) == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"not whole JSON \(it is empty\)"),
        ([{**HEADER, "format": "minigrad.other"}], 'no "format": "minigrad.events"'),
        ([{**HEADER, "version": [2, 0]}], "newer minigrad"),
        ([{**HEADER, "base_ns": "now"}], "base_ns"),
        ([HEADER], "cut off after 0 events"),
        ([HEADER, THREAD, EVENT], "cut off after 1 events"),
        ([HEADER, THREAD, EVENT, '{"kind":"forw'], "cut off after 1 events"),
        ([HEADER, "\x00\x01\n"], "line 2: not whole JSON"),
        ([HEADER, "[1]\n"], "line 2: should be a JSON object"),
        ([HEADER, EVENT, END], "not defined"),
        ([HEADER, THREAD, {**EVENT, "site": 3}], "not defined"),
        ([HEADER, THREAD, {**EVENT, "scope": [1]}], "not defined"),
        ([HEADER, THREAD, {**EVENT, "t0": 3}], "t0 not after t1"),
        ([HEADER, THREAD, {**EVENT, "t0": "x"}], "t0 not after t1"),
        ([HEADER, THREAD, {**EVENT, "t1": 10**30}], "t0 not after t1"),
        ([HEADER, THREAD, {**EVENT, "op": None}], '"op" should be a text'),
        ([HEADER, THREAD, {**EVENT, "op": "x" * 5000}], '"op" should be a text'),
        ([HEADER, THREAD, {**EVENT, "seq": -1}], '"seq"'),
        ([HEADER, {**THREAD, "name": 5}], "a thread that is not whole"),
        ([HEADER, {"kind": "define", "what": "site", "id": 0, "file": 3}], "a site that is not"),
        ([HEADER, {"kind": "define", "what": "arrays", "id": 0, "inputs": [0], "outputs": []}],
         "an? arrays that is not"),
        ([HEADER, THREAD, EVENT, {**END, "events": 2}], "does not fit"),
        ([HEADER, THREAD, EVENT, {**END, "untracked": "x"}], '"untracked" of the log\'s end'),
        ([HEADER, THREAD, EVENT, {**END, "wall_ns": 10**400}], '"wall_ns" of the log\'s end'),
        ([HEADER, THREAD, DEVICE], "not defined"),
        ([HEADER, THREAD, STREAM, {**DEVICE, "host": -1}], "host, an integer"),
        ([HEADER, THREAD, STREAM, {**DEVICE, "of": None}], '"of", a text'),
        ([HEADER, THREAD, STREAM, {**DEVICE, "t0": 3}], "t0 not after t1"),
        ([HEADER, {**STREAM, "name": 5}], "a stream that is not whole"),
    ],
)  # fmt: skip
def test_a_damaged_log_says_in_one_line_what_is_wrong(path, lines, message):
    with pytest.raises(FormatError, match=message) as caught:
        log(path, *lines)
    assert "\n" not in str(caught.value) and "file" in str(caught.value)


def test_an_endless_line_is_not_taken_into_memory(path, monkeypatch):
    monkeypatch.setattr(formats, "MAX_LINE_BYTES", 1000)
    with pytest.raises(FormatError, match="longer than 1,000 bytes"):
        log(path, HEADER, "x" * 2000)


def test_endless_definitions_are_refused(path, monkeypatch):
    monkeypatch.setattr(formats, "MAX_DEFINITIONS", 3)
    lines = [{**THREAD, "id": n} for n in range(5)]
    with pytest.raises(FormatError, match="more than 3 definitions"):
        log(path, HEADER, *lines)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(path):
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(str(path), "new \ud800")
    assert path.read_text() == "old"
    assert [other.name for other in path.parent.iterdir()] == ["file"]


def test_what_events_name_is_bounded_so_that_a_small_log_makes_no_huge_trace(path):
    array = {"shape": [1] * 60, "dtype": "float64", "bytes": 8}
    lines = [
        {
            "what": "site",
            "id": 1,
            "file": "f" * 100_000 + "/x.py",
            "line": 1,
            "function": "g" * 9999,
        },
        {"what": "stack", "id": 2, "frames": [1] * 100_000},
        {"what": "scope", "id": 3, "name": "s/" * 100_000},
        {"what": "arrays", "id": 4, "inputs": [array] * 1500, "outputs": [array] * 1500},
    ]
    event = {**EVENT, "site": 1, "stack": 2, "scope": 3, "arrays": 4}
    defined = [{"kind": "define", **line} for line in lines]
    found = log(path, HEADER, THREAD, *defined, *[event] * 20, {**END, "events": 20})
    assert {e.bytes for e in found} == {12_000}
    out = path.with_name("trace.json")
    write_chrome(str(path), out)
    assert out.stat().st_size < 20 * 300_000
    (first,) = {e["args"]["Call stack"] for e in json.loads(out.read_text())["traceEvents"][1:21]}
    assert "fff/x.py(1): ggg" in first


def test_an_array_of_more_axes_than_there_are_is_refused(path):
    array = {"shape": [1] * 65, "dtype": "float64", "bytes": 8}
    define = {"kind": "define", "what": "arrays", "id": 0, "inputs": [array], "outputs": []}
    with pytest.raises(FormatError, match="arrays that is not whole"):
        log(path, HEADER, define)
