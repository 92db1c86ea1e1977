"""The page explains itself: facts of any node, histograms, marks of NaN, titles that are found."""

import pytest

PROGRAMS = ("convnet", "encoder", "encoder_decoder", "lstm", "expression")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_fact_of_any_node_is_undefined(recorded, open_page, name):
    page = open_page(recorded(name), depth=None)
    wrong = page.evaluate(
        """() => [...graph.nodes.keys()].filter((at) => {
          showNode(app, at);
          return /undefined|NaN(?! )|\\[object/.test(panel.textContent);
        }).map((at) => panel.textContent.slice(0, 200))"""
    )
    assert wrong == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_title_is_found_by_its_own_words(recorded, open_page, name):
    page = open_page(recorded(name), depth=None)
    lost = page.evaluate(
        """() => {
          const lost = [], look = () => {
            const shown = [...app.scene.boxes, ...app.scene.frames.slice(1)];
            for (const title of new Set(shown.map((one) => one.title))) {
              app.search(title);
              if (!app.hits.length) lost.push(title);
            }
          };
          look();
          app.unfoldAll();
          look();
          return lost;
        }"""
    )
    assert lost == []


def test_a_parameter_shows_how_its_values_and_its_gradient_are_spread(recorded, open_page):
    page = open_page(recorded("convnet"))
    page.evaluate("app.reveal(graph.nodes.findIndex(({ name }) => name === 'hidden.weight'))")
    labels = page.locator("#panel figure svg").evaluate_all(
        "all => all.map((one) => one.getAttribute('aria-label'))"
    )
    assert [label.split(" from")[0] for label in labels] == [
        "histogram of values", "histogram of gradient"
    ]  # fmt: skip
    assert page.locator("#panel figure rect").count() == 48
    norm = page.locator("#panel dl").nth(1).inner_text()
    assert norm.startswith("norm")


def test_the_bars_of_a_histogram_are_as_tall_as_their_counts(dumps, open_page):
    dump = dumps.Dump()
    spread = {"least": 0.0, "most": 4.0, "counts": [1, 4, 2, 0]}
    w = dump.parameter((7,), "w", histogram=spread)
    page = open_page(dump.done(dump.op("exp", (7,), w)))
    page.evaluate("app.choose(0)")
    heights = page.locator("#panel figure rect").evaluate_all(
        "all => all.map((one) => Number(one.getAttribute('height')))"
    )
    assert heights == [0.25, 1, 0.5, 0]
    assert "4 from 1 to 2" in page.locator("#panel figure title").all_text_contents()


def test_a_parameter_of_a_graph_without_backward_says_how_to_record_one(dumps, open_page):
    page = open_page(dumps.convnet())
    page.evaluate("app.choose(graph.nodes.findIndex(({ kind }) => kind === 'parameter'))")
    assert "record_backward" in page.locator("#panel").inner_text()


def test_values_that_are_nan_are_marked_at_leaves_and_parameters(dumps, open_page, picture):
    dump = dumps.Dump()
    w = dump.parameter((30,), "w", nonfinite="nan")
    x = dump.leaf((2,), name="x", values=[1.0, "inf"])
    document = dump.done(dump.op("mul", (30,), w, x))
    page = open_page(document)
    titles = page.locator("#stage svg .title").all_text_contents()
    assert {"⚠ w", "⚠ x", "mul"} <= set(titles)
    assert page.evaluate("explained(app.scene.boxes[0])").endswith("⚠: values here hold NaN or Inf")
    assert [box.bad for box in picture(document).boxes] == [True, True, False]


def test_times_of_steps_count_from_the_first_without_the_recording_itself(dumps, open_page):
    dump = dumps.Dump()
    last = dump.leaf((2,), name="x")
    for _ in range(3):
        last = dump.op("exp", (2,), last)
    document = dump.done(last)
    document["backward"] = dumps.backward(document)
    for step in document["backward"]["steps"]:
        step["looking"] = 0
    page = open_page(document)
    page.evaluate("app.choose(3)")
    facts = page.locator("#panel dl").last.inner_text().split("\n")
    assert facts[facts.index("began at") + 1] == "0 ns"


def test_groups_are_explained_by_words_never_by_the_names_the_page_gave_them(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, size=(420, 800))
    told = page.evaluate("[...app.scene.boxes, ...app.scene.frames.slice(1)].map(explained)")
    told += page.evaluate("[...document.querySelectorAll('#panel .scope')].map((one) => one.title)")
    assert any("×11 more: copies of the part before" in text for text in told)
    assert not any("⋯" in text or "×0" in text for text in told)
