"""Names from a file stay words: they never become markup, code or directions."""

import html.parser
import importlib.util
import json
import unicodedata
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minigrad_viz.escape import json_in_script, mermaid_string, shown, xml
from minigrad_viz.page import page_text
from minigrad_viz.reader import graph_from
from minigrad_viz.render import Options, render

pytestmark = pytest.mark.promise("names and files from anywhere are inert")

HOSTILE = [
    "</text><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"];\nevil -> node; "',
    "trailing backslash \\",
    '\\" quoted \\N \\G',
    "two\nlines\r\nand\ttabs",
    "nul\0 bell\a escape\x1b[31m",
    "right\u202eto\u2066left\u200f",
    "lone surrogate \ud800",
    "&lt;entity&gt; &#34; &amp;",
    "%%DATA%% %%SCRIPT%% {{x}} ${y}",
    "-->|x| B; click A callback",
    "``` ]] )) }} end",
    "x" * 1_000_000,
    "名前 имя 🙂",
    "",
]


def poisoned(dumps, name):
    """A dump in which every text is `name`."""
    document = dumps.tiny()
    for node in document["nodes"]:
        node.update(name=name, scope=name, formula=name, dtype=name, device=name)
        node["op"] = name if node["kind"] == "op" else None
        node["site"] = {"file": name, "line": 1, "function": name}
        node["saved"] = [{"name": name, "shape": [1], "dtype": name, "bytes": 1}]
        node["params"] = {name: name}
        node["check"] = {"verdict": "wrong", "error": 0.5, "why": name}
    return document


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("format", ["svg", "dot", "html", "json", "mmd"])
def test_hostile_names_keep_every_format_well_formed(dumps, name, format):
    text = draw(dumps, name, format)
    assert len(text) < 300_000  # the scripts of a page are 0.2 MB, a name that is not cut is more
    CHECKS[format](text)


def draw(dumps, name, format):
    graph = graph_from(poisoned(dumps, name))
    return render(graph, Options(format=format, title=name)).data.decode("utf-8")


def check_svg(text):
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "rect", "path", "text"}


def check_html(text):
    class Tags(html.parser.HTMLParser):
        seen: list[tuple[str, list]]

        def handle_starttag(self, tag, attrs):
            self.seen.append((tag, [key for key, _ in attrs]))

    parser = Tags()
    parser.seen = []
    parser.feed(text)
    assert [tag for tag, _ in parser.seen].count("script") == 2
    assert not any(key.startswith("on") for _, keys in parser.seen for key in keys)
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert len(json.loads(data)["nodes"]) == 4


def check_dot(text):
    """As many statements as a dump of harmless names gives, and quotes that close on their line."""
    assert (
        sum(line.startswith("  ") and "->" in _outside_quotes(line) for line in text.split("\n"))
        == 3
    )
    if importlib.util.find_spec("pygraphviz"):
        import pygraphviz

        assert len(pygraphviz.AGraph(string=text).nodes()) == 4


def _outside_quotes(line):
    outside, quoted, escaped = [], False, False
    for char in line:
        if char == '"' and not escaped:
            quoted = not quoted
        elif not quoted:
            outside.append(char)
        escaped = char == "\\" and not escaped
    assert not quoted
    return "".join(outside)


def check_json(text):
    assert len(json.loads(text)["boxes"]) == 4


def check_mermaid(text):
    lines = text.rstrip("\n").split("\n")
    assert lines[0] == "flowchart TD"
    assert sum("-->" in _outside_quotes(line) for line in lines) == 3
    for line in lines[1:]:
        assert line.startswith("  ") and line.count('"') in (0, 2)
        assert not {"<script", "<img"} & {line[k : k + 7] for k in range(len(line))}


CHECKS = {
    "svg": check_svg,
    "html": check_html,
    "dot": check_dot,
    "json": check_json,
    "mmd": check_mermaid,
}


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_what_goes_to_the_terminal_has_no_control_characters(dumps, save, viz, name):
    path = save(json.dumps(poisoned(dumps, name)), "hostile.json")
    other = save(dumps.tiny(), "tiny.json")
    for arguments in (["info", path], ["check", path], ["diff", other, path]):
        code, out, err = viz(*arguments)
        assert code in (0, 1) and err == "" and len(out) < 20_000
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in out if c != "\n")
        assert out.count("\n") < 40


@pytest.mark.parametrize("command", ["info", "check", "step", "render"])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": "minigrad.graph", "version": [1, 0], "nodes": ' + "[" * 5_000,
        '{"format": "minigrad.graph", "version": [9, 0]}',
        '{"format": "minigrad.graph", "version": [1, 0], "nodes": [{"id": 1e999}], "edges": []}',
        "\ud800",
        "\x00\x1b[2J",
    ],
    ids=["deep", "deep inside", "newer", "infinite id", "surrogate", "control"],
)
def test_a_hostile_file_is_one_visible_line_and_exit_2(command, text, save, viz, tmp_path):
    path = save(text.encode("utf-8", "surrogatepass"), "h\x1b[31m\u202e.json")
    more = ["-o", tmp_path / "o.html"] if command in ("step", "render") else []
    code, out, err = viz(command, path, *more)
    assert (code, out, err.count("\n")) == (2, "", 1) and len(err) < 400
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in err if c != "\n")


@given(st.text(alphabet=st.characters(), max_size=60), st.integers(2, 20))
def test_shown_text_is_one_short_line_of_visible_characters(text, limit):
    for keep in ("head", "tail"):
        result = shown(text, limit, keep)
        assert len(result) <= limit
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in result)


@given(st.text())
def test_xml_text_reads_back(text):
    safe = shown(text)
    assert ET.fromstring(f'<a b="{xml(safe)}">{xml(safe)}</a>').text in (safe, None)


@settings(max_examples=50)
@given(st.text())
def test_json_in_a_script_reads_back_and_cannot_close_it(text):
    written = json_in_script({"name": text})
    assert "<" not in written and ">" not in written
    assert json.loads(written) == {"name": text}


@given(st.text())
def test_mermaid_labels_hold_no_syntax(text):
    inside = mermaid_string(text)[1:-1]
    assert not set(inside) & set('"<>[](){}|`\\\n%&$')


def test_a_name_that_looks_like_a_template_mark_is_only_a_name(dumps):
    document = dumps.tiny()
    document["nodes"][0]["name"] = "%%SCRIPT%%"
    page = page_text(graph_from(document), "t", None)
    assert page.count("class App") == 1 and "%%SCRIPT%%" in page


def test_both_ends_of_a_text_can_be_kept():
    assert shown("model.layer.weight", 8, "tail") == "….weight"
    assert shown("model.layer.weight", 8) == "model.l…"
