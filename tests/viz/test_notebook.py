"""Graphs in notebooks: every form at once, in a frame of its own, and never an exception."""

import re
import xml.etree.ElementTree as ET

import minigrad_viz
import pytest
from minigrad_viz import notebook

pytestmark = pytest.mark.promise("a notebook never shows a traceback for a value")


def bundle(graph, **how):
    return minigrad_viz.show(graph, **how)._repr_mimebundle_(include=None, exclude=None)


def test_a_dump_is_shown_as_page_picture_and_text(dumps):
    forms = bundle(dumps.convnet(), title="digits")
    assert forms["text/html"].startswith('<iframe sandbox="allow-scripts"')
    assert ET.fromstring(forms["image/svg+xml"]).tag.endswith("svg")
    assert forms["text/plain"].startswith("digits: 25 nodes · 24 edges")


def test_a_file_is_shown_like_its_content(dumps, save):
    path = save(dumps.tiny())
    assert bundle(path) == bundle(str(path)) == bundle(dumps.tiny())


@pytest.mark.parametrize("graph", [{}, None, 7, "no such file", {"format": "minigrad.graph"}])
def test_what_is_no_graph_is_told_and_not_raised(graph):
    forms = bundle(graph)
    assert forms["text/plain"].startswith("minigrad_viz: ") and len(forms["text/plain"]) > 20
    assert "image/svg+xml" not in forms


def test_a_form_that_fails_leaves_the_others(dumps, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no layout today")

    monkeypatch.setattr(notebook, "svg_text", fails)
    assert sorted(bundle(dumps.tiny())) == ["text/html", "text/plain"]
    monkeypatch.setattr(notebook, "summary_text", fails)
    assert "cannot be shown (RuntimeError)" in bundle(dumps.tiny())["text/plain"]


def test_a_huge_graph_is_shown_as_a_folded_picture_alone(dumps, monkeypatch):
    monkeypatch.setattr(notebook, "_MOST_IN_PAGE", 100)
    assert sorted(bundle(dumps.wide_random(200))) == ["image/svg+xml", "text/plain"]


def test_a_hostile_title_stays_inside_the_frame(dumps):
    html = bundle(dumps.tiny(), title='"></iframe><script>alert(1)</script>')["text/html"]
    assert html.count("<iframe") == 1 and "<script" not in html


def test_the_page_works_inside_its_frame(contexts, dumps, tmp_path):
    path, trouble = tmp_path / "notebook.html", []
    path.write_text(bundle(dumps.convnet(), step=True)["text/html"])
    page = contexts(False, False).new_page()
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("#forth").click()
    frame.locator("#last").click()
    assert frame.locator("#count").inner_text() == "15 of 15 steps done"
    page.wait_for_timeout(300)
    page.close()
    assert trouble == []


def test_the_frame_of_a_small_graph_is_as_tall_as_it_needs(dumps):
    dump = dumps.Dump()
    small = dump.done(dump.op("exp", (2,), dump.leaf((2,))))
    heights = [
        int(re.search(r"height:(\d+)px", bundle(graph)["text/html"])[1])
        for graph in (small, dumps.wide_random(300))
    ]
    assert 300 < heights[0] < 400 and heights[1] == 640
