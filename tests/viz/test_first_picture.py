"""The first picture of small and large graphs: every word can be read, and none lies on another."""

import pytest

PROGRAMS = (
    "convnet", "encoder", "encoder_decoder", "lstm", "expression", "elementwise", "large"
)  # fmt: skip
SIZES = [(1280, 800), (1920, 1080), (420, 800)]
LEAST = 9  # pixels of a letter that is read without effort

# [words, size in pixels, rectangle, whether it lies on the stage] of each text that is drawn.
TEXTS = """() => {
  const frame = document.getElementById("stage").getBoundingClientRect();
  const texts = [...document.querySelectorAll("#stage > svg text")];
  return texts.filter((text) => text.checkVisibility()).map((text) => {
    const { left, top, right, bottom } = text.getBoundingClientRect();
    const size = parseFloat(getComputedStyle(text).fontSize) * app.view.k;
    const seen = left >= frame.left && right <= frame.right
      && top >= frame.top && bottom <= frame.bottom;
    return { words: text.textContent, size, box: [left, top, right, bottom], seen };
  });
}"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def overlap(a, b):
    """Whether two rectangles share more than the blank at the rim of letters."""
    return a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 2 and b[1] < a[3] - 2


@pytest.fixture(params=[(name, size) for name in PROGRAMS for size in SIZES], ids=str)
def first(request, recorded, open_page, record_property):
    """The page of a program at a size, with the time to its first picture in the report."""
    name, size = request.param
    page = open_page(recorded(name), depth=None, size=size)
    page.evaluate(DRAWN)
    record_property("first picture, ms", page.evaluate("performance.now()"))
    return page


def test_every_word_of_the_first_picture_can_be_read(first):
    texts = first.evaluate(TEXTS)
    assert min(text["size"] for text in texts) >= LEAST - 1e-6
    assert sum(text["seen"] for text in texts) >= 6
    for at, text in enumerate(texts):
        for other in texts[:at]:
            assert not overlap(text["box"], other["box"]), (text["words"], other["words"])


def test_no_box_of_the_first_picture_lies_on_another(first):
    boxes = first.evaluate("app.scene.boxes.map(({ x, y, w, h }) => [x, y, w, h])")
    frames = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in boxes]
    for at, one in enumerate(frames):
        assert not any(overlap(one, other) for other in frames[:at])


def test_the_first_picture_is_whole(recorded, open_page):
    for name in PROGRAMS:
        for size in SIZES:
            page = open_page(recorded(name), depth=None, size=size, dark=True)
            assert all(text["seen"] for text in page.evaluate(TEXTS)), (name, size)


def test_an_encoder_of_twelve_layers_shows_one_and_says_how_many_more(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    titles = page.locator("#stage svg .title").all_text_contents()
    assert "self_attn" in titles and "×11 more" in titles
    assert any(title.startswith("▾ TransformerEncoder") for title in titles)


def test_a_phone_folds_inputs_and_source_lines_without_frames(recorded, open_page):
    page = open_page(recorded("expression"), depth=None, size=(420, 800))
    titles = page.locator("#stage svg .title").all_text_contents()
    assert "2 inputs" in titles and "d = a * b + b**3" in titles
    page.evaluate("app.unfoldAll()")
    assert page.locator("#stage svg .tab").count() == 0


def test_on_a_phone_facts_take_their_room_when_a_box_is_chosen(recorded, open_page):
    page = open_page(recorded("expression"), depth=None, size=(420, 800))
    assert not page.locator("#panel").is_visible()
    page.evaluate("app.choose(graph.nodes.findIndex(({ name }) => name === 'e'))")
    assert page.locator("#panel h2").text_content() == "sub"
    assert page.locator("#panel").is_visible()
    page.locator("#info").click()
    assert not page.locator("#panel").is_visible()


def test_another_size_of_the_page_is_another_first_picture(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    before = page.evaluate("app.scene.width")
    page.set_viewport_size({"width": 420, "height": 800})
    page.evaluate(DRAWN)
    assert page.evaluate("app.scene.width") < before
    assert min(text["size"] for text in page.evaluate(TEXTS)) >= LEAST - 1e-6


def test_what_was_folded_by_hand_stays_when_the_page_is_resized(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    page.evaluate("app.toggle('TransformerEncoder')")
    page.set_viewport_size({"width": 1900, "height": 1000})
    page.evaluate(DRAWN)
    assert page.evaluate("app.scene.boxes.length") == 2
    assert all(text["seen"] for text in page.evaluate(TEXTS))


def test_an_opened_scope_is_a_frame_around_its_children(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    page.evaluate("app.unfoldAll()")
    inside = page.evaluate("""app.scene.frames.filter((frame) => frame.outer).every((frame) =>
      frame.items.every((item) => Math.abs(item.x - frame.x) + item.w / 2 <= frame.w / 2 + 0.01
        && Math.abs(item.y - frame.y) + item.h / 2 <= frame.h / 2 + 0.01))""")
    assert inside and page.evaluate("app.scene.boxes.length") == page.evaluate("graph.nodes.length")


def test_a_click_on_the_title_of_a_frame_folds_it(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    page.locator("g.tab text", has_text="TransformerEncoder").first.click(force=True)
    assert page.evaluate("app.scene.boxes.length") == 2


def test_a_chain_without_scopes_wraps_into_columns(dumps, open_page):
    dump = dumps.Dump()
    last = dump.leaf((32, 32), name="x")
    for at in range(20):
        last = dump.op(f"op{at}", (32, 32), last)
    page = open_page(dump.done(last), size=(1280, 800))
    columns = page.evaluate("new Set(app.scene.boxes.map((box) => Math.round(box.x))).size")
    assert columns > 1
    assert page.evaluate("app.scene.width / app.scene.height") > 0.2


def test_titles_of_frames_are_read_from_far_away_where_they_find_room(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    page.evaluate("app.unfoldAll()")
    page.evaluate(DRAWN)
    assert page.evaluate("app.view.k") < 0.3
    tabs = page.locator("g.tab:visible text")
    assert "▾ layers.11" in tabs.all_text_contents()
    heights = [tab.bounding_box()["height"] for tab in tabs.all()]
    assert min(heights) >= LEAST


def test_many_shared_parameters_stand_in_one_box(dumps, open_page):
    dump = dumps.Dump()
    last = dump.leaf((4,), name="x")
    shared = [dump.parameter((4,), f"p{at}") for at in range(60)]
    for part in ("encoder", "decoder"):
        for parameter in shared:
            last = dump.op("mul", (4,), last, parameter, scope=part)
    page = open_page(dump.done(last), depth=None, size=(1280, 800))
    titles = page.locator("#stage svg .title").all_text_contents()
    assert titles == ["x", "60 parameters", "encoder", "decoder"]


def test_no_gradient_is_drawn_on_the_link_of_an_input_without(dumps, open_page):
    dump = dumps.Dump()
    w, x = dump.parameter((3,), "w"), dump.leaf((3,), name="x", requires_grad=False)
    document = dump.done(dump.op("mul", (3,), w, x))
    document["backward"] = dumps.backward(document)
    page = open_page(document, mode="step")
    page.keyboard.press("End")
    first = "app.scene.links.map(({ source, first }) => [app.scene.boxes[source].title, first < 1])"
    assert dict(page.evaluate(first)) == {"w": True, "x": False}


def test_what_stands_around_a_scope_keeps_its_order_when_it_opens_or_folds(recorded, open_page):
    for name, scope in (("convnet", "DigitNet/hidden"), ("encoder", "TransformerEncoder/layers.0")):
        page = open_page(recorded(name), depth=None, size=(1280, 800))
        kept = page.evaluate(
            """(scope) => {
              const stands = () => new Map(app.scene.frames.flatMap(({ items, group }) =>
                items.filter((item) => !item.stub && nameOf(item) !== scope)
                  .map((item) => [group.name + " " + nameOf(item), item])));
              const ordered = (a, b) => [...a].every(([one, p]) => [...a].every(([two, q]) =>
                !b.has(one) || !b.has(two) || Math.abs(p.y - q.y) > 1
                || (p.x - q.x) * (b.get(one).x - b.get(two).x) >= 0));
              const before = stands();
              app.toggle(scope);
              const between = stands();
              app.toggle(scope);
              return ordered(before, between) && ordered(between, stands());
            }""",
            scope,
        )
        assert kept


def test_while_stepping_every_op_of_a_line_and_every_leaf_is_seen(recorded, open_page):
    page = open_page(recorded("expression"), depth=None, size=(1280, 800), mode="step")
    titles = page.locator("#stage svg .title").all_text_contents()
    assert {"a", "b", "e = sub", "f = pow", "relu"} <= set(titles)


def test_the_first_look_of_a_step_through_shows_numbers_that_can_be_read(recorded, open_page):
    for name in ("expression", "convnet", "elementwise"):
        for size in SIZES:
            page = open_page(recorded(name), depth=None, size=size, mode="step")
            assert page.evaluate("TEXT.label * app.view.k") >= LEAST - 1e-6, (name, size)
