"""A dump is read whole and checked, or refused in one line."""

import copy
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minigrad_viz import files, reader
from minigrad_viz.errors import ViewerError
from minigrad_viz.reader import graph_from, read

pytestmark = pytest.mark.promise(
    "names and files from anywhere are inert",
    "files: versioned, bounded, never executed, never half-written",
)


def test_a_whole_dump_is_read(dumps):
    graph = graph_from(dumps.convnet())
    assert len(graph.nodes) == 25
    assert [graph.nodes[root].op for root in graph.roots] == ["cross_entropy"]
    assert graph.nodes[graph.edges[0].producer].name == "images"
    assert graph.backward is not None and len(graph.backward.steps) == 15


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_that_nobody_writes_into_is_said_and_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ViewerError, match="it is a pipe without a writer"):
        read(str(tmp_path / "pipe"))


def test_unknown_fields_and_a_newer_minor_are_passed_over(dumps):
    document = dumps.tiny()
    document["version"] = [1, 7]
    document["colour"] = {"deep": [1, 2, 3]}
    document["nodes"][0]["mood"] = "quiet"
    document["edges"][0]["weight"] = 3
    assert len(graph_from(document).nodes) == 4


def test_an_unknown_kind_is_drawn_as_an_operation(dumps):
    document = dumps.tiny()
    document["nodes"][3]["kind"] = "collective"
    assert graph_from(document).nodes[3].kind == "op"


def test_a_newer_major_is_refused_with_the_way_out(dumps):
    document = dumps.tiny() | {"version": [2, 0]}
    with pytest.raises(ViewerError, match=r"newer minigrad \(format 2\.0\).*reads 1\.x: upgrade"):
        graph_from(document)


def _without(document, *path):
    document = copy.deepcopy(document)
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    del place[last]
    return document


def _with(document, value, *path):
    document = copy.deepcopy(document)
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    place[last] = value
    return document


WRONG = {
    "no format": (_without, "format"),
    "no nodes": (_without, "nodes"),
    "no roots": (_without, "roots"),
    "no shape": (_without, "nodes", 0, "shape"),
    "no dtype": (_without, "nodes", 0, "dtype"),
    "text for a list of nodes": (_with, "many", "nodes"),
    "text for an id": (_with, "one", "nodes", 0, "id"),
    "true for an id": (_with, True, "nodes", 0, "id"),
    "negative extent": (_with, [-1], "nodes", 0, "shape"),
    "fraction in a shape": (_with, [2.5], "nodes", 0, "shape"),
    "number for a scope": (_with, 3, "nodes", 0, "scope"),
    "text for a site": (_with, "here", "nodes", 0, "site"),
    "list for params": (_with, [1], "nodes", 0, "params"),
    "number in saved": (_with, [1], "nodes", 0, "saved"),
    "node is a number": (_with, 1, "nodes", 0),
    "edge is a number": (_with, 1, "edges", 0),
    "edge from nowhere": (_with, 99, "edges", 0, "producer"),
    "edge to nowhere": (_with, None, "edges", 0, "consumer"),
    "edge from an output that is not there": (_with, 1, "edges", 0, "output"),
    "root that is not there": (_with, [99], "roots"),
    "root that is a list": (_with, [[1]], "roots"),
    "version is a text": (_with, "1.0", "version"),
    "backward is a list": (_with, [], "backward"),
    "two nodes with one id": (_with, 2, "nodes", 0, "id"),
    "enormous number": (_with, 10**40, "nodes", 0, "bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_field_is_refused_in_one_line(case, dumps):
    change, *arguments = WRONG[case]
    with pytest.raises(ViewerError) as caught:
        graph_from(change(dumps.tiny(), *arguments))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_a_cycle_is_refused_naming_a_node(dumps):
    document = dumps.tiny()
    document["edges"].append({"producer": 4, "output": 0, "consumer": 3, "slot": 2})
    with pytest.raises(ViewerError, match="cycle; node 3"):
        graph_from(document)


def test_numbers_that_fall_along_an_edge_are_no_cycle(dumps):
    document = dumps.tiny()
    document["nodes"][0]["seq"] = 100
    assert len(graph_from(document).nodes) == 4


def test_a_step_that_ends_before_it_begins_is_refused(dumps):
    document = dumps.convnet()
    document["backward"]["steps"][3]["t1"] = -5
    with pytest.raises(ViewerError, match="backward step 3: it ends before it begins"):
        graph_from(document)


@pytest.mark.parametrize("keep", [0, 1, 20, 0.3, 0.9, -1])
def test_a_cut_off_file_is_refused(keep, dumps, save):
    text = json.dumps(dumps.convnet())
    path = save(text[: int(keep * len(text)) if isinstance(keep, float) else keep])
    with pytest.raises(ViewerError, match="not a whole JSON file"):
        read(str(path))


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"[" * 200_000, b"1" * 6000, b"null", b"[]"])
def test_bytes_that_are_no_dump_are_refused(data, save):
    with pytest.raises(ViewerError):
        read(str(save(data)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format":"minigrad.events","version":[1,3]}\n{"kind":"end"}\n', "an event log, which "),
        ('{"format":"minigrad.events","version":[1,3]}\n', "an event log, which minigrad-profile"),
        ('{"traceEvents":[]}', "a Chrome trace, which ui.perfetto.dev shows"),
    ],
)
def test_a_file_of_another_tool_is_named(text, said, save):
    with pytest.raises(ViewerError, match=f"it is {said}"):
        read(str(save(text)))


def test_a_file_beyond_the_limit_is_refused_before_it_is_parsed(dumps, save):
    path = save(dumps.tiny())
    with pytest.raises(ViewerError, match="larger than 100 bytes; raise --max-bytes"):
        read(str(path), max_bytes=100)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ViewerError, match="No such file"):
        read(str(tmp_path / "none.json"))
    with pytest.raises(ViewerError, match="is a folder"):
        read(str(tmp_path))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=150)
@given(value=_JSON, data=st.data())
def test_any_value_in_any_place_is_read_or_refused(dumps, value, data):
    document = dumps.convnet()
    document["nodes"], document["edges"] = document["nodes"][:6], document["edges"][:3]
    document["roots"], document["backward"]["steps"] = [6], document["backward"]["steps"][-1:]
    place = document
    while True:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = value
    try:
        graph_from(document)
    except ViewerError as error:
        assert "\n" not in str(error)


def test_recorded_gradients_are_read_as_they_stand(dumps):
    document = dumps.tiny()
    gradient = {"grad_norm": 2.0, "nonfinite": None, "values": [2.0]}
    document["nodes"][0] |= {"grad": gradient, "values": [1, "nan", float("inf")]}
    part = {"producer": 1, "output": 0, "slot": 0, "bytes": 12, **gradient, "later": 1}
    step = {"node": 3, "t0": 5, "t1": 9, "looking": 4, "values": [1.0], "sent": [part]}
    document["backward"] = {"steps": [step], "released": False}
    graph = graph_from(document)
    assert graph.nodes[0].values == (1.0, "nan", "inf")
    assert graph.nodes[0].grad.values == (2.0,)
    (sent,) = graph.backward.steps[0].sent
    assert (sent.producer, sent.bytes, sent.gradient.norm) == (0, 12, 2.0)
    assert graph.backward.released is False


@pytest.mark.parametrize(
    "fields",
    [
        {"sent": 7},
        {"sent": [7]},
        {"sent": [{"producer": 99}]},
        {"sent": [{"producer": 1, "output": 3}]},
        {"sent": [{"producer": 1, "values": ["word"]}]},
        {"values": [0.0] * 17},
        {"values": {}},
        {"looking": -1},
    ],
)
def test_a_recording_of_the_wrong_kind_is_refused_in_one_line(fields, dumps):
    document = dumps.tiny()
    document["backward"] = {"steps": [{"node": 3, "t0": 0, "t1": 1, **fields}]}
    with pytest.raises(ViewerError) as caught:
        graph_from(document)
    assert "\n" not in str(caught.value)


def test_a_document_of_the_callers_stays_as_it_is(dumps):
    document = dumps.convnet()
    before = json.dumps(document)
    graph_from(document)
    assert json.dumps(document) == before


def test_a_file_is_not_kept_beside_its_graph(dumps):
    document = dumps.convnet()
    graph = graph_from(document, consume=True)
    assert len(graph.nodes) == 25 and set(document["nodes"]) == {None}
    assert set(document["backward"]["steps"]) == {None}


def test_scopes_inside_each_other_are_told_apart_to_a_bounded_depth(dumps):
    document = dumps.convnet()
    for node in document["nodes"]:
        node["scope"] = "/".join(f"s{i}" for i in range(5_000))
    graph = graph_from(document)
    assert {node.scope.count("/") + 1 for node in graph.nodes} == {reader.MAX_NESTING}
    assert graph.nodes[0].scope.endswith("s62/s63")
