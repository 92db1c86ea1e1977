"""Each format draws the graph, the same each time."""

import importlib.util
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from minigrad_viz import dot
from minigrad_viz.mermaid import fits_mermaid
from minigrad_viz.reader import graph_from
from minigrad_viz.render import Options, render
from minigrad_viz.textwidth import text_width

HAS_PYGRAPHVIZ = importlib.util.find_spec("pygraphviz") is not None
needs_pygraphviz = pytest.mark.skipif(not HAS_PYGRAPHVIZ, reason="pygraphviz is not installed")
SVG = "{http://www.w3.org/2000/svg}"
TEXT_FORMATS = ["svg", "dot", "html", "json", "mmd"]


def texts(path):
    return [element.text for element in ET.parse(path).iter(f"{SVG}text")]


@pytest.mark.parametrize("ending", TEXT_FORMATS)
def test_text_formats_need_no_graphviz_and_repeat(ending, dumps, save, viz, tmp_path, no_dot):
    path, out, again = save(dumps.convnet()), tmp_path / f"o.{ending}", tmp_path / f"p.{ending}"
    assert viz(path, "-o", out)[0] == 0
    assert viz("render", path, "-o", again)[0] == 0
    assert out.read_bytes() == again.read_bytes()
    assert b"conv2d" in out.read_bytes() and b"cross_entropy" in out.read_bytes()


def test_svg_tells_kinds_apart_and_shows_shapes_on_edges(dumps, save, viz, tmp_path):
    out = tmp_path / "o.svg"
    assert viz(save(dumps.tiny()), "-o", out)[0] == 0
    kinds = [e.get("class") for e in ET.parse(out).iter(f"{SVG}g") if e.get("id")]
    assert kinds == ["node leaf", "node parameter", "node op", "node op root"]
    assert texts(out).count("3 float32") == 3 and "scalar float32" in texts(out)
    assert {"x", "w", "mul", "sum", "train.py:12"} <= set(texts(out))


def test_svg_stays_inside_its_frame(dumps, save, viz, tmp_path):
    out = tmp_path / "o.svg"
    viz(save(dumps.residual()), "-o", out)
    root = ET.parse(out).getroot()
    width, height = float(root.get("width")), float(root.get("height"))
    shift = root.find(f"{SVG}g[@transform]").get("transform")
    dx, dy = map(float, re.findall(r"[\d.]+", shift))
    for rect in root.find(f"{SVG}g[@transform]").iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(k)) for k in ("x", "y", "width", "height"))
        assert x + dx >= 0 and x + dx + w <= width and y + dy >= 0 and y + dy + h <= height


def test_svg_has_the_same_margin_on_both_sides_of_its_legend(dumps, save, viz, tmp_path):
    out = tmp_path / "o.svg"
    viz(save(dumps.tiny()), "-o", out)
    root = ET.parse(out).getroot()
    swatch, word = root.find(f"{SVG}g[@class='leaf']/{SVG}rect"), list(root.iter(f"{SVG}text"))[-1]
    end = float(word.get("x")) + text_width(word.text, 10)
    assert word.text.startswith("line width")
    assert float(root.get("width")) - end >= float(swatch.get("x")) - 1


def test_the_boxes_of_an_svg_are_centred_where_the_layout_has_put_them(
    dumps, save, viz, picture, tmp_path
):
    document, out = dumps.convnet(), tmp_path / "o.svg"
    viz(save(document), "-o", out)
    rects = ET.parse(out).getroot().find(f"{SVG}g[@transform]").iter(f"{SVG}rect")
    boxes = [
        [float(rect.get(k)) for k in ("x", "y", "width", "height")]
        for rect in rects
        if rect.get("class") == "box"
    ]
    layout = picture(document).layout()
    for (left, top, wide, high), x, y in zip(boxes, layout.x, layout.y, strict=True):
        assert (left + wide / 2, top + high / 2) == pytest.approx((x, y), abs=0.2)


def test_each_output_of_an_op_leaves_by_a_port_of_its_own(dumps, picture):
    drawn = picture(dumps.residual())
    split = next(at for at, box in enumerate(drawn.boxes) if box.title == "split")
    routes = [
        r for k, r in zip(drawn.links, drawn.layout().routes, strict=True) if k.source == split
    ]
    assert len({route[0][0] for route in routes}) == 2


def test_json_holds_the_places_of_all_boxes(dumps, save, viz, tmp_path):
    out = tmp_path / "o.json"
    assert viz(save(dumps.convnet()), "-o", out)[0] == 0
    document = json.loads(out.read_text())
    assert document["format"] == "minigrad.picture"
    assert len(document["boxes"]) == 25 and len(document["links"]) == 24


def test_a_limit_is_said_on_stderr(dumps, save, viz, tmp_path):
    path = save(dumps.wide_random(53, 8))
    code, _, err = viz(path, "-o", tmp_path / "o.svg", "--max-nodes", 10)
    assert code == 0
    assert "53 nodes drawn as 10 boxes, 15 of them in one hidden box" in err


def test_an_empty_graph_draws(dumps, save, viz, tmp_path):
    path = save(dumps.Dump().done())
    for ending in TEXT_FORMATS:
        assert viz(path, "-o", tmp_path / f"o.{ending}")[0] == 0


@needs_pygraphviz
@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_png_and_pdf_without_dot_on_path(ending, start, dumps, save, viz, tmp_path, no_dot):
    out = tmp_path / f"o.{ending}"
    assert viz(save(dumps.tiny()), "-o", out) == (0, "", "")
    assert out.read_bytes().startswith(start)


@needs_pygraphviz
def test_graphviz_lays_out_when_asked(dumps, save, viz, tmp_path, no_dot):
    out = tmp_path / "o.svg"
    assert viz(save(dumps.convnet()), "-o", out, "--engine", "pygraphviz")[0] == 0
    assert "max_pool2d" in texts(out)


@pytest.mark.skipif(shutil.which("dot") is None, reason="no dot on PATH")
def test_dot_on_path_reads_our_dot(dumps, save, viz, tmp_path):
    out = tmp_path / "o.dot"
    viz(save(dumps.convnet()), "-o", out)
    assert subprocess.run(["dot", "-Tplain", out], capture_output=True, check=True).stdout


@needs_pygraphviz
@pytest.mark.parametrize("limit", [("--layout-limit", 3), ("--time-limit", 0.001)])
def test_a_layout_beyond_its_limits_falls_back_to_ours(limit, dumps, save, viz, tmp_path, no_dot):
    out = tmp_path / "o.svg"
    code, _, err = viz(save(dumps.convnet()), "-o", out, "--engine", "pygraphviz", *limit)
    assert code == 0 and "drawn in the built-in layout" in err
    assert "conv2d" in texts(out)


def test_without_any_graphviz_png_becomes_svg_and_says_so(
    dumps, save, viz, tmp_path, no_dot, monkeypatch
):
    monkeypatch.setattr("minigrad_viz.raster._present", lambda engine: False)
    code, _, err = viz(save(dumps.tiny()), "-o", tmp_path / "o.png")
    assert code == 1
    assert "pip install pygraphviz" in err and "instead" in err
    assert not (tmp_path / "o.png").exists() and "mul" in texts(tmp_path / "o.svg")


def test_the_svg_instead_never_replaces_a_file(dumps, save, viz, tmp_path, no_dot, monkeypatch):
    monkeypatch.setattr("minigrad_viz.raster._present", lambda engine: False)
    (tmp_path / "o.svg").write_text("mine")
    assert viz(save(dumps.tiny()), "-o", tmp_path / "o.png")[0] == 2
    assert (tmp_path / "o.svg").read_text() == "mine"


def test_what_has_no_effect_is_said(dumps, save, viz, tmp_path):
    path = save(dumps.convnet())
    _, _, err = viz(path, "-o", tmp_path / "o.html", "--max-nodes", 5, "--collapse", "model/conv9")
    assert "the page holds every node" in err and "no scope model/conv9 to fold" in err


@needs_pygraphviz
def test_a_png_too_large_to_read_is_said(dumps, save, viz, tmp_path, no_dot):
    path, out = save(dumps.deep_chain(300)), tmp_path / "o.png"
    assert "SVG and PDF stay sharp" in viz(path, "-o", out)[2]


@pytest.mark.parametrize("count", [400, 3_000])
def test_mermaid_folds_until_its_own_limits_hold(dumps, count):
    graph = graph_from(dumps.wide_random(count))
    drawing = render(graph, Options(format="mmd"))
    assert fits_mermaid(drawing.data) and not any("Mermaid" in note for note in drawing.notes)
    whole = render(graph, Options(format="mmd", max_nodes=0))
    assert not fits_mermaid(whole.data) and any("Mermaid" in note for note in whole.notes)


def test_each_line_of_a_png_lies_inside_its_box(dumps, picture):
    dump = dumps.Dump()
    long = dump.op("cross_entropy_index", (), dump.leaf((3,), name="images of a long name"))
    drawn = picture(dump.done(long))
    layout = drawn.layout()
    for at, box in enumerate(drawn.boxes):
        attributes = dot._box(box, at, layout)
        size = float(attributes["fontsize"]) / 0.75
        widest = max(text_width(line, size) for line in (dot.signed_title(box), *box.lines))
        assert widest <= float(attributes["width"]) * 96
