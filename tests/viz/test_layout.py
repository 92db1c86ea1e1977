"""The layered layout: nothing overlaps, data flows down, the same graph gives the same places."""

import itertools
import json
import random
import runpy
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minigrad_viz.layering import assign_layers
from minigrad_viz.layout import place
from minigrad_viz.ordering import crossings, order_rows

pytestmark = pytest.mark.promise(
    "the page's layout is the translation of Python's, and gives the same places to the bit"
)

TRANSLATE = Path(__file__).resolve().parents[2] / "viz/translate_layout.py"


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 30))
    widths = draw(st.lists(st.floats(10, 200), min_size=count, max_size=count))
    heights = draw(st.lists(st.integers(20, 60), min_size=count, max_size=count))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.integers(0, 1))
    links = [link for link in draw(st.lists(ends, max_size=60)) if link[0] != link[1]]
    return widths, heights, list(dict.fromkeys(links))


def assert_no_overlap(layout, widths, heights):
    boxes = sorted(zip(layout.y, layout.x, widths, heights, strict=True))
    for _, row in itertools.groupby(boxes, key=lambda box: box[0]):
        for (_, ax, aw, _), (_, bx, bw, _) in itertools.pairwise(row):
            assert bx - ax >= (aw + bw) / 2 + 10
    rows = sorted({(y, max(h for by, _, _, h in boxes if by == y)) for y in layout.y})
    for (ay, ah), (by, bh) in itertools.pairwise(rows):
        assert by - ay >= (ah + bh) / 2 + 30


@settings(max_examples=80)
@given(graphs())
def test_boxes_never_overlap_even_with_cycles(graph):
    widths, heights, links = graph
    assert_no_overlap(place(widths, heights, links), widths, heights)


@settings(max_examples=80)
@given(graphs())
def test_links_point_downwards_unless_marked_backward(graph):
    widths, heights, links = graph
    layout = place(widths, heights, links)
    for (source, target, _), route, back in zip(links, layout.routes, layout.backward, strict=True):
        assert (layout.y[source] > layout.y[target]) == back
        ys = [y for _, y in (route[::-1] if back else route)]
        assert ys == sorted(ys)


@settings(max_examples=40)
@given(graphs())
def test_an_acyclic_graph_has_no_backward_link(graph):
    widths, heights, links = graph
    forward = [(min(s, t), max(s, t), p) for s, t, p in links]
    assert not any(place(widths, heights, forward).backward)


@settings(max_examples=40)
@given(graphs())
def test_the_same_graph_gives_the_same_places(graph):
    assert place(*graph) == place(*graph)


@settings(max_examples=40)
@given(graphs())
def test_ports_on_the_rim_of_a_frame_stand_above_and_below_all_else(graph):
    widths, heights, links = graph
    pins = [("", "top", "bottom")[at % 3] for at in range(len(widths))]
    links = [(s, t, p) for s, t, p in links if s < t and pins[s] != "bottom" and pins[t] != "top"]
    y = place(widths, heights, links, None, pins).y
    rows = {"top": [], "": [], "bottom": []}
    for at, pin in enumerate(pins):
        rows[pin].append(y[at])
    for above, below in itertools.pairwise(filter(None, rows.values())):
        assert max(above) < min(below)


@settings(max_examples=40)
@given(graphs(), st.randoms(use_true_random=False))
def test_boxes_that_stood_before_keep_their_order_in_each_row(graph, chance):
    before = [chance.choice([None, chance.random()]) for _ in graph[0]]
    layout = place(*graph, None, None, before)
    stood = [at for at in range(len(before)) if before[at] is not None]
    for one, other in itertools.combinations(stood, 2):
        if layout.y[one] == layout.y[other] and before[one] < before[other]:
            assert layout.x[one] < layout.x[other]


def test_the_pages_layout_is_the_translation_of_this_one():
    pytest.importorskip("pscript", reason="it translates")
    translate = runpy.run_path(str(TRANSLATE))
    written = translate["TARGET"].read_text(encoding="utf-8")
    assert written == translate["translated"](), "run `python viz/translate_layout.py`"


def test_a_browser_places_boxes_where_python_does(open_page, dumps):
    page = open_page(dumps.tiny())
    for seed, count in ((1, 8), (2, 60), (3, 400)):
        chance = random.Random(seed)
        links = {(chance.randrange(at), at, 0) for at in range(1, count) for _ in range(2)}
        links = [*links, (count - 1, 0, 0), (count - 2, 1, 1)]  # the last two against the rows
        widths = [chance.uniform(40, 100) for _ in range(count)]
        heights = [chance.uniform(30, 60) for _ in range(count)]
        exits = [chance.uniform(-9, 9) for _ in links]
        pins = ["top", *[""] * (count - 2), "bottom"]
        before = [chance.choice([None, chance.random()]) for _ in range(count)]
        for more in ([], [pins], [pins, before], [None, before]):
            asked = [widths, heights, links, exits, *more]
            theirs = page.evaluate("asked => layered.place(...asked)", asked)
            assert theirs == json.loads(json.dumps(asdict(place(*asked))))


def test_a_route_ends_on_the_top_of_its_target(picture, dumps):
    drawn = picture(dumps.residual())
    layout = drawn.layout()
    for link, route in zip(drawn.links, layout.routes, strict=True):
        assert route[-1][1] < layout.y[link.target]
        assert abs(route[-1][0] - layout.x[link.target]) < 100


def test_a_parameter_stands_just_above_its_consumer(picture, dumps):
    drawn = picture(dumps.convnet())
    layout = drawn.layout()
    levels = sorted(set(layout.y))
    place_of = {box.title: at for at, box in enumerate(drawn.boxes)}
    consumer = next(k.target for k in drawn.links if k.source == place_of["model.fc2.bias"])
    above = levels.index(layout.y[place_of["model.fc2.bias"]])
    assert levels.index(layout.y[consumer]) == above + 1


def test_a_chain_runs_straight_past_its_parameters(picture, dumps):
    drawn = picture(dumps.convnet())
    layout = drawn.layout()
    ops = [x for x, box in zip(layout.x, drawn.boxes, strict=True) if box.kind == "op"]
    assert max(ops) - min(ops) < 5


def test_a_chain_stays_straight_beside_a_long_link(picture, dumps):
    layout = picture(dumps.deep_chain(400)).layout()
    assert layout.width < 250 and max(layout.x[2:-2]) - min(layout.x[2:-2]) < 1


def test_links_of_one_tensor_share_one_trunk():
    links = [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 4, 0), (0, 2, 0), (0, 3, 0), (0, 4, 0)]
    assert len(assign_layers(5, links).row) == 5 + 3


def test_a_leaf_used_everywhere_costs_one_waypoint_a_row(dumps, picture):
    drawn = picture(dumps.deep_chain(400))
    links = [(link.source, link.target, link.port) for link in drawn.links]
    assert len(assign_layers(len(drawn.boxes), links).row) < 3 * len(drawn.boxes)
    assert sum(map(len, drawn.layout().routes)) < 12 * len(drawn.links)


def test_the_waypoint_budget_bounds_the_worst_case():
    links = (
        [(k, k + 1, 0) for k in range(300)] + [(k, 301, 1) for k in range(300)] + [(300, 301, 0)]
    )
    layers = assign_layers(302, links, budget=1000)
    assert len(layers.row) <= 302 + 1000
    assert any(layers.direct)


def test_sweeps_remove_the_crossings_of_a_ladder():
    rungs = [(0, 5, 0), (1, 4, 0), (2, 3, 0)]
    layers = assign_layers(6, rungs)
    assert crossings(order_rows(layers), layers) == 0


def test_boxes_without_links_fill_a_square_and_not_a_line():
    layout = place([50.0] * 400, [30.0] * 400, [])
    assert layout.width < 2 * layout.height


@pytest.mark.parametrize("count", [2, 5_000])
def test_long_chains_are_laid_out_without_recursion(count):
    layout = place([60.0] * count, [30.0] * count, [(k, k + 1, 0) for k in range(count - 1)])
    assert max(layout.x) - min(layout.x) < 1
