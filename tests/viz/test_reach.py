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


def test_a_screen_reader_is_told_the_chosen_box(open_page, dumps):
    page = open_page(dumps.tiny())
    page.evaluate("app.choose(2)")
    told = page.locator("#announce").inner_text()
    assert told == "mul, op, train.py:12, 3 float32, 2 inputs, 1 user"
    assert page.locator("#announce").get_attribute("aria-live") == "polite"


def test_focus_is_seen(open_page, dumps):
    page = open_page(dumps.tiny())
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
