"""Parts of large graphs: what is near one node, and repeats folded into one box."""

import pytest
from minigrad_viz.focus import focused
from minigrad_viz.graph import topological_order
from minigrad_viz.reader import graph_from
from minigrad_viz.repeats import find_repeats


def blocks(dumps, count, odd=None):
    """A chain of `count` blocks (matmul, add, tanh) with parameters; block `odd` has relu."""
    dump = dumps.Dump()
    h = dump.leaf((8, 8), name="x")
    for at in range(count):
        scope = f"net/block{at}"
        w, b = dump.parameter((8, 8), f"w{at}"), dump.parameter((8,), f"b{at}")
        h = dump.op("matmul", (8, 8), h, w, scope=scope)
        h = dump.op("add", (8, 8), h, b, scope=scope)
        h = dump.op("relu" if at == odd else "tanh", (8, 8), h, scope=scope)
    return dump.done(dump.op("sum", (), h))


def folded(picture, dumps, count, **how):
    document = blocks(dumps, count, how.pop("odd", None))
    return picture(document, repeats=find_repeats(graph_from(document)), **how)


def test_a_block_repeated_twelve_times_is_drawn_once_and_counted(dumps, picture):
    drawn = folded(picture, dumps, 12)
    box = next(box for box in drawn.boxes if box.kind == "repeat")
    assert (box.title, box.lines) == ("×11 more", ["matmul add tanh", "33 ops, 22 parameters"])
    assert len(drawn.boxes) == 1 + 5 + 1 + 1  # x, the first block, the others, sum
    assert sum(box.members for box in drawn.boxes) == 1 + 12 * 5 + 1


def test_a_block_of_another_kind_is_not_counted_as_a_repeat(dumps, picture):
    titles = [b.title for b in folded(picture, dumps, 12, odd=6).boxes if b.kind == "repeat"]
    assert titles == ["×5 more", "×4 more"]


def test_the_same_op_of_other_lines_is_no_repeat(dumps):
    dump = dumps.Dump()
    y = dump.leaf((3,))
    for line in range(9):
        y = dump.op("tanh", (3,), y, site={"file": "train.py", "line": line + 1})
    assert find_repeats(graph_from(dump.done(dump.op("sum", (), y)))) == []


def test_two_of_a_kind_are_no_repeat(dumps):
    assert find_repeats(graph_from(blocks(dumps, 2))) == []


def test_a_chain_of_one_op_is_a_repeat(dumps):
    (found,) = find_repeats(graph_from(dumps.deep_chain(1000)))
    assert (found.copies, found.length, len(found.folded)) == (1000, 1, 999)


def test_folding_repeats_makes_no_cycle(dumps, picture):
    for seed in range(5):
        document = dumps.wide_random(300, 4, seed)
        for node in document["nodes"]:
            node["scope"] = ""
        drawn = picture(document, repeats=find_repeats(graph_from(document)))
        assert not any(drawn.layout().backward)


def test_a_picture_over_its_limit_folds_repeats_before_it_hides(dumps, save, viz, tmp_path):
    path = save(dumps.deep_chain(50))
    _, _, err = viz(path, "-o", tmp_path / "o.svg", "--max-nodes", 10)
    assert "53 nodes drawn as 5 boxes" in err and "hidden" not in err


def test_the_page_folds_and_opens_repeats(open_page, dumps):
    document = blocks(dumps, 12)
    page = open_page(document, repeats=find_repeats(graph_from(document)))
    assert page.evaluate("app.scene.boxes.length") == 8
    assert "×11 more" in page.locator("g.scope").text_content()
    page.keyboard.press("Shift+E")
    assert page.evaluate("app.scene.boxes.length") == 62


def test_the_page_of_a_large_graph_opens_with_its_repeats_folded(
    browse, dumps, save, viz, tmp_path
):
    out = tmp_path / "o.html"
    assert viz(save(dumps.deep_chain(2_000)), "-o", out)[0] == 0
    page = browse(out)
    assert page.evaluate("app.scene.boxes.length") == 5
    page.keyboard.press("Shift+E")
    assert page.evaluate("app.scene.boxes.length") == 2_003


def test_a_route_of_very_many_points_has_its_bounds(open_page, dumps):
    page = open_page(dumps.tiny())
    points = "Array.from({ length: 300000 }, (_, k) => [k % 7, k])"
    assert page.evaluate(f"boundsOf({points})") == [0, 0, 6, 299_999]


def test_focus_keeps_what_is_near_and_counts_what_is_not(dumps):
    graph = focused(graph_from(blocks(dumps, 4)), "w2", 2)
    names = [node.op or node.name for node in graph.nodes]
    assert sorted(names) == ["add", "matmul", "tanh", "w2"]
    beyond = {node.op: node.beyond for node in graph.nodes if node.op}
    assert beyond == {"matmul": (0, 0), "add": (1, 1), "tanh": (1, 0)}


def test_a_larger_radius_reaches_further_and_in_the_end_all(dumps):
    graph = graph_from(blocks(dumps, 4))
    sizes = [len(focused(graph, "w2", radius).nodes) for radius in range(12)]
    assert sizes[0] == 1 and sizes == sorted(sizes) and sizes[-1] == len(graph.nodes)


def test_a_focused_graph_is_whole(dumps):
    document = dumps.wide_random(200, 8)
    document["backward"] = dumps.backward(document)
    part = focused(graph_from(document), "#50", 3)
    assert len(topological_order(part.nodes, part.edges)) == len(part.nodes)
    assert all(part.nodes[step.node].kind == "op" for step in part.backward.steps)


def test_the_command_says_how_much_is_shown(dumps, save, viz, tmp_path):
    out = tmp_path / "o.svg"
    code, _, err = viz(save(blocks(dumps, 4)), "-o", out, "--focus", "w2", "--radius", 2)
    assert code == 0 and "4 of 22 nodes" in err
    assert "… 1 input, 1 user not shown" in out.read_text()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("nowhere", "there is no node nowhere"),
        ("tanh", "4 nodes called tanh"),
        ("#99", "no node #99"),
    ],
)
def test_a_focus_that_is_not_one_node_says_so(wanted, message, dumps, save, viz, tmp_path):
    path = save(blocks(dumps, 4))
    code, _, err = viz(path, "-o", tmp_path / "o.svg", "--focus", wanted)
    assert code == 2 and message in err and err.count("\n") == 1


def test_focus_works_in_the_page_and_its_step_through(dumps, save, viz, tmp_path, open_page):
    document = dumps.convnet()
    path, out = save(document), tmp_path / "o.html"
    assert viz(path, "-o", out, "--focus", "cross_entropy", "--radius", 2)[0] == 0
    assert '"steps":[[' in out.read_text()
