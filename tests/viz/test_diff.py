"""Two graphs compared, the structural hash, and the check for CI."""

import copy
import json
import re

import pytest
from minigrad_viz.diff import difference, links, rows, union
from minigrad_viz.reader import graph_from
from minigrad_viz.structure import structural_hash


def changed(document, at, **fields):
    """A copy with some fields of the node at position `at` replaced."""
    other = copy.deepcopy(document)
    other["nodes"][at].update(fields)
    return other


def without_relu(dumps):
    """The convnet with its first relu taken out."""
    document = dumps.convnet()
    relu = next(node["id"] for node in document["nodes"] if node["op"] == "relu")
    before = next(edge["producer"] for edge in document["edges"] if edge["consumer"] == relu)
    document["nodes"] = [node for node in document["nodes"] if node["id"] != relu]
    document["edges"] = [edge for edge in document["edges"] if edge["consumer"] != relu]
    for edge in document["edges"]:
        if edge["producer"] == relu:
            edge["producer"] = before
    document["backward"] = dumps.backward(document)
    return document


def found(a, b):
    return [(row["what"], row["op"]) for row in rows(difference(graph_from(a), graph_from(b)))]


def test_a_graph_is_equal_to_itself(dumps):
    same = difference(graph_from(dumps.convnet()), graph_from(dumps.convnet()))
    assert same.same and rows(same) == [] and len(same.pairs) == 25


def test_what_appeared_and_what_went_is_told(dumps):
    assert found(without_relu(dumps), dumps.convnet()) == [("appeared", "relu")]
    assert found(dumps.convnet(), without_relu(dumps)) == [("gone", "relu")]


def test_a_changed_shape_is_told_with_what_it_was(dumps):
    document = dumps.convnet()
    (row,) = rows(
        difference(graph_from(document), graph_from(changed(document, 3, shape=[64, 16, 9, 9])))
    )
    assert (row["what"], row["op"], row["was"]) == ("changed", "conv2d", "64×16×8×8 float32")


def test_what_became_slower_is_told_and_noise_is_not(dumps):
    before, after = dumps.convnet(), dumps.convnet()
    after["backward"]["steps"][3]["t1"] += 9_000_000
    after["backward"]["steps"][4]["t1"] += 100_000
    (row,) = rows(difference(graph_from(before), graph_from(after)))
    assert (row["what"], row["ns_before"], row["ns_after"]) == ("slower", 900_000, 9_900_000)


def ratio_of(document, factor, jitter=0.0):
    """A copy whose steps took `factor` as long, give or take a jitter that alternates."""
    other = copy.deepcopy(document)
    for k, step in enumerate(other["backward"]["steps"]):
        took = (step["t1"] - step["t0"]) * factor * (1 + jitter * (-1) ** k)
        step["t1"] = step["t0"] + round(took)
    return other


def test_a_machine_that_is_slower_throughout_makes_no_node_slower(dumps):
    document = dumps.convnet()
    compared = difference(graph_from(document), graph_from(ratio_of(document, 2.0)))
    assert compared.slower == [] and compared.band.usual == pytest.approx(2.0)


def test_a_noisy_pair_of_runs_has_a_wide_band_out_of_which_one_node_stands(dumps):
    document = dumps.convnet()
    noisy = ratio_of(document, 1.0, jitter=0.4)
    assert difference(graph_from(document), graph_from(noisy)).slower == []
    noisy["backward"]["steps"][5]["t1"] += 40_000_000
    compared = difference(graph_from(document), graph_from(noisy))
    assert [b - a > 30_000_000 for _, _, a, b in compared.slower] == [True]
    assert compared.band.slower > 2


def test_the_noise_band_is_told(dumps, save, viz):
    a, b = save(dumps.convnet(), "a.json"), save(ratio_of(dumps.convnet(), 2.0), "b.json")
    out = viz("diff", a, b)[1]
    assert "time 13.5 ms -> 27 ms; usual ratio 2.00, slower from 3.00" in out
    assert json.loads(viz("diff", a, b, "--json")[1])["noise_band"]["usual"] == pytest.approx(2)


def test_another_link_alone_is_a_difference(dumps):
    document = dumps.tiny()
    other = copy.deepcopy(document)
    other["edges"][0]["slot"], other["edges"][1]["slot"] = 1, 0
    assert not difference(graph_from(document), graph_from(other)).same


def test_links_that_differ_are_marked_on_both_sides(dumps):
    document = dumps.tiny()
    other = copy.deepcopy(document)
    other["edges"][0]["producer"] = other["edges"][1]["producer"]
    found = difference(graph_from(document), graph_from(other))
    assert [edge.mark for edge in union(found)[0].edges if edge.mark] == ["appeared", "gone"]
    assert [row["what"] for row in links(found)] == ["new link", "link gone"]


@pytest.mark.parametrize("ending", ["svg", "html", "dot", "mmd"])
def test_new_links_are_drawn_with_marks(ending, dumps, save, viz, tmp_path):
    a, b = save(dumps.convnet(), "a.json"), save(without_relu(dumps), "b.json")
    out = tmp_path / f"o.{ending}"
    viz("diff", a, b, "-o", out)
    new = {"svg": '"link appeared"', "html": ',"appeared"]', "dot": 'color="#2f8f52"'}
    gone = {"svg": '"link gone"', "html": ',"gone"]', "dot": 'color="#c4203a"'}
    text = out.read_text()
    assert new.get(ending, "stroke:#2f8f52,stroke-width") in text
    assert gone.get(ending, "stroke:#c4203a,stroke-width") in text


def test_the_command_prints_a_table_and_exits_1_where_structures_differ(dumps, save, viz):
    a, b = save(dumps.convnet(), "a.json"), save(without_relu(dumps), "b.json")
    code, out, err = viz("diff", a, b)
    assert (code, err) == (1, "")
    assert "24 nodes matched; 1 gone, 1 other link" in out
    assert re.search(r"gone +relu", out) and re.search(r"new link +max_pool2d .* from add #5", out)
    assert viz("diff", a, a)[0] == 0


def test_the_differences_as_json(dumps, save, viz):
    a, b = save(dumps.convnet(), "a.json"), save(without_relu(dumps), "b.json")
    document = json.loads(viz("diff", a, b, "--json")[1])
    assert document["same"] is False and document["a"]["nodes"] == 25
    assert [row["what"] for row in document["differences"]] == ["gone"]


@pytest.mark.parametrize("ending", ["svg", "html", "dot", "mmd"])
def test_the_differences_are_drawn_with_marks(ending, dumps, save, viz, tmp_path):
    a, b = save(dumps.convnet(), "a.json"), save(without_relu(dumps), "b.json")
    out = tmp_path / f"o.{ending}"
    assert viz("diff", a, b, "-o", out)[0] == 1
    sign = {"svg": "node op gone", "html": '"mark":"gone"', "dot": "#f6dcdc", "mmd": "#f6dcdc"}
    assert sign[ending] in out.read_text()


def test_nodes_that_are_gone_get_ids_of_their_own(dumps):
    dump = dumps.Dump()
    before = dumps.convnet()
    graph, _ = union(difference(graph_from(before), graph_from(dump.done(dump.leaf((3,))))))
    assert len({node.id for node in graph.nodes}) == len(graph.nodes) == 25


def test_nodes_that_look_alike_are_paired_in_the_order_in_which_they_ran(dumps):
    def alike(order):
        dump = dumps.Dump()
        x = dump.leaf((3,))
        made = [dump.op("tanh", (3,), x, seq=seq) for seq in order]
        return graph_from(dump.done(made[0]))

    rising, falling = alike([10, 20, 30]), alike([30, 20, 10])
    for compared in (difference(rising, falling), difference(falling, rising)):
        assert {x: y for x, y in compared.pairs.items() if 0 < x < 4} == {1: 3, 2: 2, 3: 1}


def test_few_times_tell_no_usual_ratio(dumps):
    def once(took):
        dump = dumps.Dump()
        document = dump.done(dump.op("sum", (), dump.leaf((3,))))
        document["backward"] = dumps.backward(document)
        for step in document["backward"]["steps"]:
            step["t1"] = step["t0"] + took
        return graph_from(document)

    assert difference(once(1000), once(3000)).band.usual == 1


def test_the_page_of_a_diff_lists_and_marks_the_differences(open_page, dumps):
    graph, marks = union(difference(graph_from(dumps.convnet()), graph_from(without_relu(dumps))))
    assert [note for _, note in marks.values()] == ["gone"] and len(graph.nodes) == 25
    document = dumps.convnet()
    page = open_page(document, marks={4: ("slower", "1 ms → 2 ms"), 5: ("appeared", "appeared")})
    assert "1 ms → 2 ms" in page.locator("#panel").inner_text()
    assert "appeared" in page.locator("g.node").nth(5).text_content()


def test_the_hash_is_that_of_the_structure_alone(dumps):
    document = dumps.convnet()
    first = structural_hash(graph_from(document))
    same = changed(document, 3, device="cuda:0", formula="other", site=None)
    for node in same["nodes"]:
        node["seq"] += 1000
    same["backward"] = None
    assert structural_hash(graph_from(same)) == first


@pytest.mark.parametrize(
    "fields", [{"op": "conv1d"}, {"shape": [1]}, {"scope": "x"}, {"params": {"axis": "0"}}]
)
def test_the_hash_changes_with_what_is_computed(fields, dumps):
    document = dumps.convnet()
    other = structural_hash(graph_from(changed(document, 3, **fields)))
    assert other != structural_hash(graph_from(document))


def test_the_engine_gives_the_same_hash_for_the_same_program():
    import minigrad as mg

    def document():
        x = mg.tensor([1.0, 2.0], requires_grad=True)
        return mg.instrument.graph_dict((mg.exp(x) * x).sum())

    assert structural_hash(graph_from(document())) == structural_hash(graph_from(document()))


def test_check_tells_a_whole_dump_and_its_hash(dumps, save, viz):
    code, out, err = viz("check", save(dumps.convnet()))
    expected = structural_hash(graph_from(dumps.convnet()))
    assert (code, err) == (0, "") and f"hash {expected}" in out and "25 nodes" in out
    assert viz("info", save(dumps.convnet()))[1].count(expected) == 1


def test_check_exits_1_on_another_hash_and_2_on_a_bad_dump(dumps, save, viz):
    path = save(dumps.convnet())
    right = structural_hash(graph_from(dumps.convnet()))
    assert viz("check", path, "--hash", right.upper())[0] == 0
    code, out, err = viz("check", path, "--hash", "0123")
    assert (code, out, err.count("\n")) == (1, "", 1) and right in err
    assert viz("check", save("{", "bad.json"))[0] == 2


HOSTILE = "</text><script>alert(1)</script>\"'\n\u202egnp]{|}"


def test_hostile_names_are_inert_in_every_output_of_diff(dumps, save, viz, tmp_path):
    a = dumps.tiny()
    b = changed(a, 2, name=HOSTILE, op=HOSTILE, scope=HOSTILE, formula=HOSTILE)
    paths = save(a, "a.json"), save(b, "b.json")
    code, out, _ = viz("diff", *paths)
    assert code == 1 and "\u202e" not in out and out.count("\n") == 5
    for ending in ("svg", "html", "dot", "mmd"):
        target = tmp_path / f"o.{ending}"
        assert viz("diff", *paths, "-o", target)[0] == 1
        text = target.read_text()
        assert "\u202e" not in text
        assert ending == "dot" or "<script>alert" not in text  # in DOT, quoted text is only text


def test_a_focus_with_a_hostile_name_is_told_in_one_line(dumps, save, viz, tmp_path):
    code, _, err = viz(save(dumps.tiny()), "-o", tmp_path / "o.svg", "--focus", HOSTILE)
    assert code == 2 and err.count("\n") == 1 and "\u202e" not in err


def test_of_nodes_that_look_alike_the_one_that_is_gone_is_told_by_its_links(dumps):
    def layers(*scopes):
        dump = dumps.Dump()
        y = dump.leaf((3,))
        for scope in scopes:
            y = dump.op("linear", (3,), y, scope=scope)
            y = dump.op("relu", (3,), y)
        return dump.done(y)

    whole = layers("first", "second", "third", "fourth")
    fewer = copy.deepcopy(whole)
    (gone,) = [node["id"] for node in whole["nodes"] if node["op"] == "relu"][1:2]
    (before,) = [edge["producer"] for edge in whole["edges"] if edge["consumer"] == gone]
    fewer["nodes"] = [node for node in fewer["nodes"] if node["id"] != gone]
    fewer["edges"] = [edge for edge in fewer["edges"] if edge["consumer"] != gone]
    for edge in fewer["edges"]:
        edge["producer"] = before if edge["producer"] == gone else edge["producer"]
    told = difference(graph_from(whole), graph_from(fewer))
    assert [told.a.nodes[at].id for at in told.gone] == [gone]
    assert [row["what"] for row in links(told)] == ["new link"]
