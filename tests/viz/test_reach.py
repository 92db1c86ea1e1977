"""The page is for everyone: contrast, a keyboard for all of it, and words for a screen reader."""

import re
from importlib import resources

import pytest


def themes():
    """The colours of the light and the dark page, by name."""
    style = resources.files("minigrad_viz").joinpath("assets/page.css").read_text("utf-8")
    blocks = re.findall(r":root[^{]*\{(.*?)\}", style, re.S)[:2]
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    """The ratio that WCAG asks to be 4.5 or more."""
    low, high = sorted(map(luminance, (a, b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", themes(), ids=["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(colours):
    for ground in ("paper", "panel", "op", "leaf", "parameter", "scope"):
        for ink in ("ink", "quiet"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for ink in ("appeared", "bad", "changed", "slower", "saved"):
        assert contrast(colours[ink], colours["panel"]) >= 4.5, ink


def test_the_keyboard_alone_opens_a_scope_and_walks_through_it(open_page, recorded):
    page = open_page(recorded("encoder"), depth=1, size=(1280, 800))
    page.locator("#stage").focus()
    page.keyboard.press("Enter")
    assert "TransformerEncoder" in page.locator("#panel h2").inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("app.scene.boxes.length") > 2
    before = page.evaluate("app.chosen")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("app.chosen") != before


def test_left_and_right_walk_along_a_row(open_page, dumps):
    page = open_page(dumps.tiny())
    page.evaluate("app.choose(0)")
    page.keyboard.press("ArrowRight")
    assert page.locator("#panel h2").inner_text() == "w"
    page.keyboard.press("ArrowLeft")
    assert page.locator("#panel h2").inner_text() == "x"


def test_the_chosen_box_is_the_active_element_of_a_tree(open_page, dumps):
    page = open_page(dumps.tiny())
    stage = page.locator("#stage")
    assert stage.get_attribute("role") == "tree"
    page.evaluate("app.choose(2)")
    active = page.locator("#" + stage.get_attribute("aria-activedescendant"))
    assert active.inner_text() == "mul, op, train.py:12, 3 float32, 2 inputs, 1 user"
    assert active.get_attribute("role") == "treeitem"
    assert active.get_attribute("aria-selected") == "true"
    page.evaluate("app.choose(null)")
    assert stage.get_attribute("aria-activedescendant") is None


def test_the_tree_has_the_levels_of_the_frames(open_page, recorded):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    items = page.locator("#outline [role=treeitem]").evaluate_all(
        "all => all.map((one) => [one.textContent, one.ariaLevel, one.ariaExpanded])"
    )
    assert ["TransformerEncoder", "1", "true"] in items
    assert ["layers.0", "2", "true"] in items and ["self_attn", "3", "false"] in items


def test_a_large_graph_tells_the_chosen_box_alone(open_page, dumps):
    page = open_page(dumps.wide_random(900))
    assert page.locator("#outline > *").count() == 0
    page.evaluate("app.choose(5)")
    assert page.locator("#outline > *").count() == 1


def test_a_live_region_tells_what_opened_and_which_step_runs(open_page, recorded):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    live = page.locator("#announce")
    assert live.get_attribute("aria-live") == "polite"
    page.evaluate("app.toggle('TransformerEncoder')")
    assert live.inner_text() == "folded: 2 boxes"
    page.keyboard.press("s")
    page.evaluate("app.player.seek(1)")
    assert live.inner_text() == "step 1 of 265 has run: sum"


def test_while_stepping_shift_and_arrows_walk(open_page, recorded):
    page = open_page(recorded("expression"), mode="step")
    page.evaluate("app.choose(0)")
    page.keyboard.press("Shift+ArrowDown")
    assert page.evaluate("app.chosen") != 0 and page.evaluate("app.player.at") == 0


def test_no_step_moves_by_itself_where_motion_is_unwanted(open_page, recorded):
    page = open_page(recorded("expression"), mode="step", still=True)
    page.keyboard.press("ArrowRight")
    assert page.evaluate("[app.player.at, app.player.moment().running.length]") == [1, 0]


def test_the_panel_tells_what_the_signs_on_a_box_mean(open_page, dumps):
    page = open_page(dumps.tiny())
    page.evaluate("app.choose(3)")
    assert "double rim: a result" in page.locator("#panel").inner_text()


def test_focus_is_seen(open_page, dumps):
    page = open_page(dumps.tiny())
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
