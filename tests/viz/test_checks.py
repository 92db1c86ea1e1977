"""Badges: what finite differences say of each node's rule, from the engine to the page."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from minigrad_viz.checks import badge_of, check_table, check_words
from minigrad_viz.graph import Check
from minigrad_viz.reader import graph_from

import minigrad as mg

pytestmark = pytest.mark.promise(
    "each node of a recorded backward is checked against finite differences, and no gradient "
    "changes by it"
)

SVG = "{http://www.w3.org/2000/svg}"


def swish(factor):
    """A Function whose gradient is right for factor 1."""

    class Swish(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * mg.sigmoid(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            s = mg.sigmoid(x)
            return g * factor * (s + x * s * (1 - s))

    return Swish.apply


def recorded(fn, *arrays):
    """The dump of a checked backward of the sum of fn(*arrays)."""
    tensors = [mg.tensor(np.array(x), requires_grad=True) for x in arrays]
    with mg.record_backward(check=True) as rec:
        fn(*tensors).sum().backward()
    return json.loads(json.dumps(rec.graph))


@pytest.fixture(scope="module")
def wrong():
    x = np.random.default_rng(0).normal(size=(3, 4))
    return recorded(lambda x: swish(1.1)(x) * x, x)


@pytest.fixture(scope="module")
def right():
    x = np.random.default_rng(0).normal(size=(3, 4))
    return recorded(lambda x: swish(1.0)(x) * x, x)


def test_check_exits_1_and_names_the_wrong_rule_first(wrong, save, viz):
    code, out, err = viz("check", save(wrong))
    lines = out.splitlines()
    assert (code, err) == (1, "") and lines[1].startswith("✗ Swish")
    assert "test_checks.py:" in lines[1] and re.search(r"error 0\.\d+", lines[1])
    assert lines[-1] == "finite differences: 1 wrong, 2 right"


def test_check_exits_0_where_every_rule_is_right(right, save, viz):
    code, out, _ = viz("check", save(right), "--badges")
    assert code == 0 and out.splitlines()[-1] == "finite differences: 3 right"


def test_a_dump_without_checks_says_how_to_record_them(dumps, save, viz, tmp_path):
    path = save(dumps.tiny())
    assert viz("check", path)[0] == 0
    for arguments in (["check", path, "--badges"], [path, "-o", tmp_path / "o.svg", "--check"]):
        code, _, err = viz(*arguments)
        assert code == 2 and "record_backward(check=True)" in err and err.count("\n") == 1


def test_render_check_draws_and_exits_1(wrong, right, save, viz, tmp_path):
    out = tmp_path / "o.svg"
    assert viz(save(wrong), "-o", out, "--check")[0] == 1 and out.exists()
    assert viz(save(right), "-o", out, "--check")[0] == 0


def test_the_svg_shows_a_badge_with_the_size_of_the_error(wrong, save, viz, tmp_path):
    out = tmp_path / "o.svg"
    viz(save(wrong), "-o", out)
    badges = [g for g in ET.parse(out).iter(f"{SVG}g") if "badge" in (g.get("class") or "")]
    found = {g.get("class"): g.find(f"{SVG}text").text for g in badges}
    assert re.fullmatch(r"✗ 0\.\d+", found["badge wrong"])
    assert re.fullmatch(r"✓ \de−\d+|✓ 0", found["badge right"])


@pytest.mark.parametrize(
    ("ending", "sign"), [("dot", "✗ Swish"), ("mmd", "#10007;"), ("json", "wrong")]
)
def test_formats_without_badges_carry_the_sign(ending, sign, wrong, right, save, viz, tmp_path):
    out = tmp_path / f"o.{ending}"
    viz(save(wrong), "-o", out)
    text = out.read_text()
    assert sign in text and (ending == "json" or "#c4203a" in text)
    viz(save(right), "-o", out)
    assert sign not in out.read_text()


def test_the_page_shows_badges_and_lists_what_is_wrong(open_page, wrong):
    page = open_page(wrong)
    assert page.locator("g.badge.wrong").count() == 1
    panel = page.locator("#panel")
    assert "✗ 1 wrong" in panel.inner_text() and "✓ 2 right" in panel.inner_text()
    panel.get_by_role("button", name="Swish").click()
    assert "✗ wrong, error" in panel.inner_text()


def test_a_folded_box_tells_how_many_of_its_nodes_are_wrong():
    document = recorded(lambda x: swish(1.1)(x) * mg.exp(x), np.linspace(-1, 1, 5))
    graph = graph_from(document)
    badge = badge_of(graph.nodes)
    assert (badge.verdict, badge.text) == ("wrong", "✗ 1 of 4")
    assert badge_of(graph.nodes[:1]) is None


def test_what_a_check_says_in_words():
    assert check_words(Check("right", 2.4e-9, 1e-6)) == "right, error 2e−9 (1e−6 allowed)"
    assert check_words(Check("skipped", why="it draws\nrandom numbers")) == (
        "skipped, it draws random numbers"
    )


@pytest.mark.parametrize(
    "check", [7, [], {}, {"verdict": "fine"}, {"verdict": "right", "error": "small"}]
)
def test_a_check_that_makes_no_sense_is_one_line(check, dumps, save, viz):
    document = dumps.tiny()
    document["nodes"][2]["check"] = check
    code, _, err = viz("check", save(document))
    assert code == 2 and err.count("\n") == 1 and "check" in err


def test_the_table_is_as_wide_as_its_words():
    document = recorded(lambda x: swish(1.1)(x) * mg.exp(x), np.linspace(-1, 1, 5))
    lines = check_table(graph_from(document)).splitlines()[:-1]
    longest = max(len(number) for line in lines for number in re.findall(r"#(\d+)", line))
    assert max(map(len, lines)) <= 76 + longest  # of the nodes of a whole process, maybe millions
    assert len({line.index("#") for line in lines}) == 1
