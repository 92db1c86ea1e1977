"""What is laid over a picture: heat, signs of NaN, the critical path, saved arrays, values."""

import json
import math
import re
import xml.etree.ElementTree as ET

import pytest
from minigrad_viz.collapse import group_nodes
from minigrad_viz.critical import critical_path
from minigrad_viz.heat import heat_of, share_of
from minigrad_viz.picture import Overlay, picture_of
from minigrad_viz.reader import graph_from
from minigrad_viz.wording import number_text

SVG = "{http://www.w3.org/2000/svg}"


def timed(dumps):
    """a -> b -> d, a -> c -> d with 1, 10, 100, 1000 µs for a, b, c, d; backward from d."""
    dump = dumps.Dump()
    x = dump.leaf((4,), name="x")
    a = dump.op("exp", (4,), x)
    b, c = dump.op("sin", (4,), a), dump.op("cos", (4,), a)
    d = dump.op("mul", (4,), b, c)
    document = dump.done(d)
    took = {a: 1_000, b: 10_000, c: 100_000, d: 1_000_000}
    clock, steps = 0, []
    for node in (d, c, b, a):
        steps.append({"node": node, "t0": clock, "t1": clock + took[node], "grad_norm": 1.0})
        clock += took[node]
    document["backward"] = {"engine": "serial", "workers": 1, "steps": steps}
    return document


def test_the_critical_path_is_the_longest_chain_of_dependences(dumps):
    graph = graph_from(timed(dumps))
    found = critical_path(graph)
    assert [graph.nodes[at].op for at in found.path] == ["mul", "cos", "exp"]
    assert (found.span, found.work) == (1_101_000, 1_111_000)


def test_slack_is_how_much_longer_a_node_might_have_taken(dumps):
    graph = graph_from(timed(dumps))
    slack = {graph.nodes[at].op: room for at, room in critical_path(graph).slack.items()}
    assert slack == {"mul": 0, "cos": 0, "exp": 0, "sin": 90_000}


def test_without_a_recorded_backward_there_is_no_critical_path(dumps, save, viz, tmp_path):
    assert critical_path(graph_from(dumps.tiny())) is None
    code, _, err = viz(save(dumps.tiny()), "-o", tmp_path / "o.svg", "--critical")
    assert code == 2 and "no recorded backward" in err


def test_a_still_picture_marks_the_critical_path(dumps, save, viz, tmp_path):
    out = tmp_path / "o.svg"
    assert viz(save(timed(dumps)), "-o", out, "--critical")[0] == 0
    marked = [g for g in ET.parse(out).iter(f"{SVG}g") if "critical" in (g.get("class") or "")]
    assert [g.find(f"{SVG}text").text for g in marked] == ["exp", "cos", "mul"]
    lines = [p for p in ET.parse(out).iter(f"{SVG}path") if "link critical" in p.get("class")]
    assert len(lines) == 2


@pytest.mark.parametrize(("value", "share"), [(1000, 1), (100, 2 / 3), (1, 0), (0.1, 0), (0, 0)])
def test_heat_is_logarithmic_over_three_decades(value, share):
    assert share_of(value, 1000) == pytest.approx(share)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("time", {"exp": "1 µs", "sin": "10 µs", "cos": "100 µs", "mul": "1 ms"}),
        ("bytes", {"exp": "16 B", "sin": "16 B", "cos": "16 B", "mul": "16 B"}),
        ("norm", {"exp": "‖g‖ 1", "sin": "‖g‖ 1", "cos": "‖g‖ 1", "mul": "‖g‖ 1"}),
    ],
)
def test_each_box_tells_the_value_by_which_it_is_coloured(by, words, dumps):
    graph = graph_from(timed(dumps))
    groups = group_nodes(graph)
    picture = picture_of(graph, groups, "", Overlay(heat=heat_of(graph, groups, by)))
    assert {box.title: box.lines[-1] for box in picture.boxes if box.kind == "op"} == words


def test_by_slack_the_hottest_have_none(dumps):
    graph = graph_from(timed(dumps))
    heat = heat_of(graph, group_nodes(graph), "slack")
    found = {node.op: pair for node, pair in zip(graph.nodes, zip(heat.share, heat.words))}
    assert found["mul"] == found["cos"] == found["exp"] == (1.0, "no slack")
    assert found["sin"] == (0.0, "slack 90 µs") and found[""] == (None, "")


def test_the_page_colours_by_slack_as_the_still_picture_does(open_page, dumps):
    document = timed(dumps)
    page = open_page(document, heat="slack")
    graph = graph_from(document)
    shares = page.evaluate("Object.fromEntries(app.scene.boxes.map((b) => [b.title, b.heat]))")
    for node, share in zip(graph.nodes, heat_of(graph, group_nodes(graph), "slack").share):
        assert shares[node.op or node.name] == share


def test_the_page_colours_by_scope_where_all_share_the_outermost(open_page, dumps):
    page = open_page(dumps.convnet())
    page.locator("#heat").select_option("scope")
    hues = dict(page.evaluate("app.scene.boxes.map((b) => [graph.nodes[b.members[0]].id, b.hue])"))
    ops = {node["id"]: node["scope"] for node in dumps.convnet()["nodes"] if node["op"]}
    by_scope = {scope: hues[at] for at, scope in ops.items()}
    inner = [hue for scope, hue in by_scope.items() if "/" in scope]
    assert len(set(inner)) == len(inner) and min(inner) >= 0  # one each
    assert by_scope[""] == by_scope["model"] == -1


def test_flops_of_the_forward_and_the_rules_are_in_recorded_dumps(save, viz, tmp_path):
    import minigrad as mg

    w = mg.ones(3, 4, requires_grad=True)
    loss = (mg.ones(2, 3) @ w).sum()
    document = mg.instrument.graph_dict(loss)
    product = next(node for node in document["nodes"] if node["op"] == "matmul")
    assert (product["flops"], product["backward_flops"]) == (2 * 2 * 3 * 4, 2 * 2 * 3 * 4)
    out = tmp_path / "o.svg"
    assert viz(save(document), "-o", out, "--heat", "flops")[0] == 0
    assert "96 FLOP" in out.read_text()
    assert "FLOP forward, " in viz("info", save(document))[1]


def test_folded_boxes_add_up(dumps):
    graph = graph_from(dumps.convnet())
    groups = group_nodes(graph, depth=1)
    heat = heat_of(graph, groups, "time")
    assert dict(zip([g.kind for g in groups], heat.words, strict=True))["scope"] == "12.6 ms"


def test_flops_are_shown_where_the_dump_tells_them(dumps, save, viz, tmp_path):
    document = timed(dumps)
    code, _, err = viz(save(document), "-o", tmp_path / "o.svg", "--heat", "flops")
    assert code == 2 and "tells no FLOPs" in err
    document["nodes"][1]["flops"] = 2_500_000
    assert viz(save(document), "-o", tmp_path / "o.svg", "--heat", "flops")[0] == 0
    assert "2.5 MFLOP" in (tmp_path / "o.svg").read_text()


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_check_whose_error_is_no_number_is_drawn(odd, dumps, save, viz, tmp_path):
    document = timed(dumps)
    document["nodes"][1]["check"] = {"verdict": "wrong", "error": odd, "tolerance": odd}
    out = tmp_path / "o.json"
    assert viz(save(document), "-o", out)[0] == 0
    assert str(odd) in out.read_text()


@pytest.mark.parametrize("ending", ["svg", "dot", "mmd", "json"])
def test_heat_colours_every_still_format(ending, dumps, save, viz, tmp_path):
    hot, plain, path = tmp_path / f"hot.{ending}", tmp_path / f"o.{ending}", save(timed(dumps))
    assert viz(path, "-o", hot, "--heat", "time")[0] == 0
    assert viz(path, "-o", plain)[0] == 0
    sign = {"svg": 'class="heat"', "dot": "#ee8b6d", "mmd": "style n5 fill:", "json": '"heat"'}
    assert sign[ending] in hot.read_text() and sign[ending] not in plain.read_text()


def test_nan_is_marked_in_every_format(dumps, save, viz, tmp_path):
    document = timed(dumps)
    document["backward"]["steps"][1]["nonfinite"] = "nan"
    for ending in ("svg", "dot", "mmd", "json"):
        out = tmp_path / f"o.{ending}"
        assert viz(save(document), "-o", out)[0] == 0
        text = json.loads(out.read_text())["boxes"] if ending == "json" else out.read_text()
        assert re.search(r"⚠|#9888;", str(text))


def test_small_scalar_graphs_show_values_and_gradients(dumps, picture):
    dump = dumps.Dump()
    grad = {"grad_norm": 3.0, "nonfinite": None, "values": [-3.0]}
    a = dump.leaf((), name="a", values=[2.0], grad=grad)
    d = dump.op("mul", (), a, a, name="d", values=[4.0])
    document = dump.done(d)
    step = {"node": d, "t0": 0, "t1": 1, "values": [1.0]}
    document["backward"] = {"engine": "serial", "workers": 1, "steps": [step]}
    lines = {box.title: box.lines for box in picture(document).boxes}
    assert lines == {"a": ["value 2", "grad −3"], "d = mul": ["value 4", "grad 1"]}


def test_the_page_shows_values_and_gradients_of_scalars_too(open_page, dumps):
    dump = dumps.Dump()
    dump.done(dump.leaf((), name="a", values=[2.0], grad={"grad_norm": 3.0, "values": [-3.0]}))
    page = open_page(dump.document)
    assert page.locator("g.leaf text.line").all_text_contents() == ["value 2", "grad −3"]


def test_the_page_marks_the_critical_path_and_tells_slack(open_page, dumps):
    page = open_page(timed(dumps), path=True, heat="time")
    assert page.locator("path.link.critical").count() == 2
    page.evaluate("app.reveal(2)")
    assert "slack\n90 µs" in page.locator("#panel").inner_text()
    page.keyboard.press("p")
    assert page.locator("path.link.critical").count() == 0


def test_gradients_without_a_finite_norm_are_said_to_be_so(dumps, save, viz, tmp_path):
    document = timed(dumps)
    for step in document["backward"]["steps"]:
        step.update(grad_norm=None, nonfinite="nan")
    code, _, err = viz(save(document), "-o", tmp_path / "o.svg", "--heat", "norm")
    assert code == 2 and "no gradient of the recorded backward has a finite norm" in err


@pytest.mark.parametrize("value", [80640.0, 12345.6, 99999.4, 99996.0, 1234.56, -54321.0, 0.00123])
def test_numbers_read_alike_in_a_picture_and_on_the_page(value, open_page, dumps):
    words = number_text(value)
    assert "+" not in words
    assert open_page(dumps.tiny()).evaluate("v => numberText(v)", value) == words
