"""The interactive page in a real browser: it loads alone, finds, folds and keeps its address."""

import pytest
from minigrad_viz.reader import graph_from
from minigrad_viz.structure import structural_hash


def boxes(page):
    return page.evaluate("app.scene.boxes.length")


def test_the_page_draws_every_node_and_asks_for_nothing(open_page, dumps):
    page = open_page(dumps.convnet())
    assert page.locator("g.node").count() == 25
    assert page.locator("#status").inner_text() == "25 nodes in 25 boxes"


def test_search_finds_a_node_and_shows_what_is_known_of_it(open_page, dumps):
    page = open_page(dumps.convnet())
    page.keyboard.press("/")
    page.keyboard.type("conv2.weight")
    assert page.locator("#found").inner_text() == "1 found"
    page.keyboard.press("Enter")
    assert page.locator("#panel h2").inner_text() == "model.conv2.weight"
    assert "32×16×3×3 float32" in page.locator("#panel").inner_text()


def test_a_chosen_op_shows_formula_site_saved_arrays_and_timing(open_page, dumps):
    document = dumps.convnet()
    document["nodes"][3]["formula"] = "y = x * w"
    page = open_page(document)
    page.evaluate("app.reveal(3)")
    text = page.locator("#panel").inner_text()
    for words in ("conv2d", "y = x * w", "/home/ada/digits/model.py:41", "x 64×10", "900 µs"):
        assert words in text


def test_folding_a_scope_changes_the_counts_and_opening_it_restores_them(open_page, dumps):
    page = open_page(dumps.convnet())
    page.evaluate("app.toggle('model/conv1')")
    assert boxes(page) == 25 - 3
    assert "2 ops, 2 parameters" in page.locator("g.scope").text_content()
    assert page.locator("#status").inner_text() == "25 nodes in 22 boxes, 4 folded into scopes"
    page.keyboard.press("Shift+E")
    assert boxes(page) == 25
    page.keyboard.press("Shift+C")
    assert boxes(page) == 4


def test_a_click_on_a_folded_scope_opens_it(open_page, dumps):
    page = open_page(dumps.convnet(), depth=1)
    assert boxes(page) == 4
    page.locator("g.scope rect.box").last.click(force=True)
    assert boxes(page) == 25


def test_the_browser_folds_as_the_python_writers_do(open_page, dumps, picture):
    for depth in (1, 2):
        drawn = picture(dumps.wide_random(300, 8), depth=depth)
        page = open_page(dumps.wide_random(300, 8), depth=depth)
        assert boxes(page) == len(drawn.boxes)
        assert page.evaluate("app.scene.links.length") == len(drawn.links)


def test_the_address_brings_back_what_was_looked_at(open_page, dumps):
    page = open_page(dumps.convnet())
    page.evaluate("app.toggle('model/fc1')")
    page.evaluate("app.reveal(3)")
    page.wait_for_timeout(300)
    view = page.evaluate("app.view")
    page.reload()
    assert boxes(page) == 22
    assert page.locator("#panel h2").inner_text() == "conv2d"
    assert page.evaluate("app.view") == pytest.approx(view, rel=1e-3)


def test_on_a_narrow_screen_a_tall_graph_opens_at_its_top_and_not_as_a_thread(open_page, dumps):
    page = open_page(dumps.residual(12))
    page.set_viewport_size({"width": 300, "height": 900})
    page.evaluate("app.begin()")
    assert page.evaluate("app.scene.width") > 240 and page.evaluate("app.view.k") > 0.6
    assert page.evaluate("app.view.y") == page.evaluate("EDGE.y")


def test_light_and_dark_follow_the_system_and_the_button(open_page, dumps):
    page = open_page(dumps.tiny(), dark=True)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_colour_by_time_and_marks_of_nan(open_page, dumps):
    document = dumps.convnet()
    document["backward"]["steps"][0]["nonfinite"] = "nan"
    page = open_page(document)
    page.locator("#heat").select_option("time")
    assert "color-mix" in page.locator("g.op rect.box").first.get_attribute("fill")
    assert "⚠" in page.locator("g.node").last.text_content()


def test_keys_are_listed_for_what_the_page_has(open_page, dumps):
    without = dumps.convnet()
    del without["backward"]
    for document, has in ((dumps.convnet(), True), (without, False)):
        keys = open_page(document).locator("#panel").inner_text()
        assert ("step through backward" in keys) == has and "light or dark" in keys


def test_a_page_is_printed_on_light_paper_and_without_its_buttons(open_page, dumps):
    page = open_page(dumps.convnet())
    page.evaluate("app.setTheme('dark')")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert not page.locator("#search").is_visible() and page.locator("g.node").first.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_large_graph_opens_folded_and_is_drawn_on_canvas_when_opened(open_page, dumps):
    page = open_page(dumps.wide_random(3000), depth=None)
    assert boxes(page) < 500
    page.keyboard.press("Shift+E")
    assert boxes(page) == 3000
    assert (
        page.locator("#stage > canvas").first.is_visible()
        and not page.locator("#stage > svg").is_visible()
    )
    page.keyboard.press("+")


@pytest.mark.parametrize(
    "name", ["</script><script>document.title='owned'</script>", '"><img src=x>']
)
def test_hostile_names_do_nothing(open_page, dumps, name):
    document = dumps.tiny()
    for node in document["nodes"]:
        node.update(name=name, scope=name, formula=name, op=name)
    page = open_page(document)
    page.evaluate("app.unfoldAll(); app.reveal(2)")
    assert page.title() == "graph" and page.locator("img").count() == 0
    assert page.locator("#panel h2").inner_text() == name


def test_arrows_walk_along_the_links(open_page, dumps):
    page = open_page(dumps.tiny())
    page.evaluate("app.choose(0)")
    page.keyboard.press("ArrowDown")
    assert page.locator("#panel h2").inner_text() == "mul"
    page.keyboard.press("Escape")
    assert page.locator("#panel h2").inner_text() == "graph"


def test_numbered_scopes_are_listed_by_their_numbers(open_page, dumps):
    dump = dumps.Dump()
    last = dump.leaf((2,))
    for number in range(12):
        last = dump.op("tanh", (2,), last, scope=f"block{number}")
    listed = open_page(dump.done(last)).locator("#panel").inner_text().split("SCOPES")[1]
    assert listed.index("block2") < listed.index("block10")


def test_beside_a_long_scope_its_count_stands_whole(open_page, dumps):
    dump = dumps.Dump()
    first = dump.leaf((2,))
    long = "VeryLongScopeNameIndeed" * 6
    page = open_page(dump.done(dump.op("exp", (2,), dump.op("sin", (2,), first, scope=long))))
    count = page.locator("#panel .scope .cells span").first
    assert count.inner_text() == "1"
    assert count.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_the_list_of_scopes_is_a_tree_with_counts_and_times(open_page, dumps):
    page = open_page(dumps.convnet(), depth=1)
    rows = page.locator("#panel button.scope")
    assert rows.all_inner_texts() == ["▸ model\n22\n12.6 ms\n1.35 MiB"]
    assert rows.first.get_attribute("aria-expanded") == "false"
    rows.first.click()
    assert rows.all_inner_texts()[1] == "▾ conv1\n4\n1.8 ms\n513 KiB"
    indents = [row.evaluate("e => parseFloat(e.style.paddingLeft)") for row in rows.all()[:2]]
    assert indents[0] < indents[1]
    assert rows.first.get_attribute("aria-expanded") == "true"


def test_a_name_in_the_list_of_scopes_is_never_broken(open_page, recorded):
    page = open_page(recorded("encoder"), depth=0)
    heights = page.locator("#panel .scope b").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert max(heights) == min(heights) > 0


def test_the_list_of_scopes_is_walked_folded_and_opened_by_keys(open_page, recorded):
    page = open_page(recorded("convnet"), depth=1)
    focused = "document.activeElement.querySelector('b').textContent"
    page.locator("#panel .scope").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == "▾ DigitNet"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "▾ conv1"
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert page.evaluate(focused) == "▸ DigitNet"
    assert page.locator("#panel [role=treeitem]").first.get_attribute("aria-level") == "1"


@pytest.fixture
def with_image(dumps):
    """A product with an array that needs no gradient."""
    dump = dumps.Dump()
    w = dump.parameter((3,), "w")
    image = dump.leaf((3,), name="image", requires_grad=False)
    mask = dump.leaf((3,), requires_grad=False, source="getitem")
    product = dump.op("where", (3,), mask, dump.op("mul", (3,), w, image))
    return dump.done(product)


def test_inputs_without_gradient_are_told_apart_and_can_be_hidden(open_page, with_image):
    page = open_page(with_image)
    still = page.locator("g.still").all_text_contents()
    assert still == ["imageno gradient3 float32", "inputfrom getitem, no gradient3 float32"]
    page.keyboard.press("i")
    assert page.locator("g.still").count() == 0 and boxes(page) == 3
    page.get_by_label("input without gradient").check()
    assert boxes(page) == 5


def test_search_shows_an_input_that_was_hidden(open_page, with_image):
    page = open_page(with_image)
    page.keyboard.press("i")
    page.keyboard.press("/")
    page.keyboard.type("image")
    page.keyboard.press("Enter")
    assert page.locator("#panel h2").inner_text() == "image"
    assert page.locator("g.still").count() == 2


def test_the_structural_hash_is_that_of_the_graph_without_untracked_inputs(with_image):
    tracked = {node["id"] for node in with_image["nodes"] if node.get("requires_grad", True)}
    nodes = [node for node in with_image["nodes"] if node["id"] in tracked]
    edges = [edge for edge in with_image["edges"] if edge["producer"] in tracked]
    less = {**with_image, "nodes": nodes, "edges": edges}
    assert structural_hash(graph_from(with_image)) == structural_hash(graph_from(less))


def test_a_node_with_the_number_zero_is_named_by_it(open_page, dumps):
    document = dumps.tiny()
    for edge in document["edges"]:
        edge.update(producer=edge["producer"] - 1, consumer=edge["consumer"] - 1)
    for node in document["nodes"]:
        node.update(id=node["id"] - 1, seq=node["seq"] - 1)
    document["roots"] = [root - 1 for root in document["roots"]]
    page = open_page(document)
    page.evaluate("app.reveal(0)")
    assert page.locator("#panel p.quiet").first.inner_text() == "input · #0"


def test_each_colour_has_a_scale_with_numbers_and_units(open_page, dumps):
    page = open_page(dumps.convnet())
    assert not page.locator("#scale").is_visible()
    for by, words in (
        ("time", ["900 ns or less", "900 µs", "logarithmic"]),
        ("bytes", ["B or less", "KiB"]),
        ("slack", ["none: critical", "linear"]),
        ("scope", ["conv1", "fc2"]),
        ("flops", ["nothing was recorded"]),
    ):
        page.locator("#heat").select_option(by)
        scale = page.locator("#scale").inner_text()
        assert all(word in scale for word in words), (by, scale)
    page.locator("#heat").select_option("")
    assert not page.locator("#scale").is_visible()


def test_a_leaf_whose_gradient_holds_nan_is_marked(open_page, dumps, picture):
    document = dumps.tiny()
    document["nodes"][1]["grad"] = {"grad_norm": None, "nonfinite": "nan"}
    page = open_page(document)
    assert page.locator("g.parameter .title").text_content() == "⚠ w"
    assert [box.title for box in picture(document).boxes if box.bad] == ["⚠ w"]


def test_the_title_of_a_folded_scope_is_found_by_search(open_page, recorded):
    page = open_page(recorded("encoder"), depth=None, size=(1280, 800))
    page.keyboard.press("/")
    page.keyboard.type("×11 more")
    assert page.locator("#found").inner_text() == "1 found"
    assert page.locator("g.node:not(.faded)").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("g.scope .title", has_text="×11 more").count() == 1


def test_a_pointer_that_rests_on_a_box_is_told_what_it_means(open_page, dumps):
    document = dumps.convnet()
    document["backward"]["steps"][0]["nonfinite"] = "nan"
    page = open_page(document)
    page.locator("g.node rect.box").last.hover(force=True)
    told = page.locator("#stage").get_attribute("title")
    assert "cross_entropy" in told and "double rim: a result" in told and "holds NaN" in told
