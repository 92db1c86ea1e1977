"""The step-through in a real browser: it plays what the engine recorded, and ends where it did."""

import json
import time
from itertools import pairwise

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "the step-through ends at the engine's gradients, under every engine"
)


def recorded(forward, **leaves):
    """(dump, leaves) of one backward of the scalar forward(**leaves)."""
    tensors = {name: mg.tensor(np.array(x), requires_grad=True) for name, x in leaves.items()}
    with mg.record_backward(tensors) as rec:
        forward(**tensors).backward()
    return json.loads(json.dumps(rec.graph)), tensors


def formula(a, b, c):
    d = a * b + c
    return mg.tanh(d) * d + a


@pytest.fixture(scope="module")
def scalars():
    return recorded(formula, a=0.5, b=-0.3, c=0.7)


@pytest.fixture(scope="module")
def layers():
    chance = np.random.default_rng(0)
    shapes = {"w1": (3, 4), "b1": (4,), "w2": (4, 2)}
    arrays = {name: chance.normal(size=shape) for name, shape in shapes.items()}
    x = chance.normal(size=(5, 3))

    def network(w1, b1, w2):
        hidden = mg.tanh(x @ w1 + b1)
        return ((hidden @ w2) ** 2).sum() + (w1 * w1).sum() * 0.1

    return recorded(network, **arrays)


def shown_gradients(page):
    """{name: gradient at the end} as the page knows it, and {name: its words in the panel}."""
    known = page.evaluate(
        """graph.nodes.flatMap((node, at) => node.kind === "op" ? [] :
           [[node.name, app.player.recording.gradient(at, app.player.recording.steps.length)]])"""
    )
    words = page.evaluate(
        """[...document.querySelectorAll("[data-leaf]")].map((row) =>
           [row.querySelector("b").textContent, row.querySelector("span").textContent])"""
    )
    return dict(known), dict(words)


def test_stepping_to_the_end_leaves_every_leaf_with_the_engines_gradient(open_page, scalars):
    document, leaves = scalars
    page = open_page(document, mode="step", still=True)
    for _ in document["backward"]["steps"]:
        page.keyboard.press("ArrowRight")
    known, words = shown_gradients(page)
    for name, tensor in leaves.items():
        assert known[name]["values"] == [tensor.grad.item()]
        assert float(words[name].replace("−", "-")) == pytest.approx(tensor.grad.item(), rel=1e-3)
    assert page.locator("#count").inner_text() == "5 of 5 steps done"


def test_the_contributions_on_the_edges_add_up_to_the_engines_gradient(open_page, layers):
    document, leaves = layers
    page = open_page(document, mode="step")
    page.keyboard.press("End")
    added = page.evaluate(
        """graph.nodes.flatMap((node, at) => {
             const { nodes } = app.player.recording, parts = nodes[at].arrivals.map((a) => a.part);
             if (node.kind === "op" || node.still) return [];
             return [[node.name, app.player.recording.sum(parts)]];
           })"""
    )
    for name, gradient in added:
        expected = leaves[name].grad.numpy().ravel()
        assert gradient["values"] == pytest.approx(expected, rel=1e-12)


def test_many_numbers_leave_room_for_the_name_beside_them(open_page):
    document, _ = recorded(lambda long_name_of_w: (mg.tanh(long_name_of_w) * 1e-9).sum(),
                           long_name_of_w=np.linspace(-1, 1, 16))  # fmt: skip
    page = open_page(document, mode="step")
    page.keyboard.press("End")
    width, height = page.evaluate(
        """(() => { const b = document.querySelector("[data-leaf] b");
             return [b.clientWidth || b.offsetWidth, b.offsetHeight]; })()"""
    )
    assert width > 70 and height < 45
    panel = page.locator("#panel")
    assert panel.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_a_large_gradient_is_told_by_its_norm(open_page):
    document, leaves = recorded(lambda w: (mg.tanh(w) ** 2).sum(), w=np.linspace(-1, 1, 40))
    page = open_page(document, mode="step")
    page.keyboard.press("End")
    known, words = shown_gradients(page)
    norm = float(np.linalg.norm(leaves["w"].grad.numpy()))
    assert known["w"]["norm"] == pytest.approx(norm) and known["w"]["values"] is None
    assert words["w"] == f"‖·‖ {norm:.4g}"


def test_a_gradient_that_was_there_before_is_added_to(open_page):
    a = mg.tensor(2.0, requires_grad=True)
    (a * 5).backward()
    with mg.record_backward({"a": a}) as rec:
        (a * a).backward()
    page = open_page(json.loads(json.dumps(rec.graph)), mode="step")
    told = page.evaluate("[0, 1].map((n) => app.player.recording.gradient(0, n).values)")
    assert told == [[5.0], [9.0]]
    words = page.evaluate("[0, 1].map((n) => gradientText(app.player.recording, 0, n))")
    assert words == ["grad 5", "grad 9"]


def test_counts_of_missing_contributions_fall_to_zero_as_consumers_run(open_page, scalars):
    page = open_page(scalars[0], mode="step")
    pending = page.evaluate(
        """graph.nodes.map((_, at) => Array.from({length: 6}, (_, n) =>
           app.player.recording.pending(at, n)))"""
    )
    consumers = page.evaluate("outgoing.map((edges) => edges.length)")
    assert [counts[0] for counts in pending] == consumers
    assert all(a >= b for counts in pending for a, b in pairwise(counts))
    assert all(counts[-1] == 0 for counts in pending)


def test_live_bytes_begin_with_what_is_saved_and_end_with_the_gradients(open_page, layers):
    page = open_page(layers[0], mode="step")
    memory = page.evaluate(
        """Object.fromEntries(Object.entries(app.player.recording.memory)
           .map(([kind, list]) => [kind, [...list].slice(0, -1)]))"""
    )
    assert memory["saved"][0] > 0 and memory["saved"][-1] == 0
    assert memory["moving"][0] == 8 and memory["moving"][-1] == 0
    assert memory["grads"][0] == 0
    assert memory["grads"][-1] == sum(t.grad.nbytes for t in layers[1].values())


def wait_until(page, condition):
    """Waits, for at most 8 s, until an expression holds (the page's policy forbids it to wait)."""
    deadline = time.monotonic() + 8
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(20)


def test_play_runs_to_the_end_by_itself_and_space_pauses(open_page, scalars):
    page = open_page(scalars[0], mode="step")
    page.evaluate("app.player.speed = 32")
    page.keyboard.press("Space")
    wait_until(page, "app.player.at === app.player.end() && !app.player.playing")
    page.keyboard.press("Home")
    page.evaluate("app.player.speed = 0.25")
    page.keyboard.press("Space")
    wait_until(page, "app.player.at > 0")
    page.keyboard.press("Space")
    assert page.evaluate("!app.player.playing && app.player.at < app.player.end()")


def test_the_scrubber_jumps_by_node_and_by_wall_clock(open_page, scalars):
    page = open_page(scalars[0], mode="step")
    strip = page.locator("#strip").bounding_box()
    middle = strip["x"] + strip["width"] / 2, strip["y"] + strip["height"] / 2
    page.mouse.click(*middle)
    assert page.evaluate("app.player.at") == pytest.approx(2.5, abs=0.1)
    page.keyboard.press("n")
    page.mouse.click(*middle)
    elapsed = page.evaluate("app.player.recording.elapsed")
    assert page.evaluate("app.player.at") == pytest.approx(elapsed / 2, rel=0.02)
    assert page.locator("#strip").get_attribute("aria-valuenow").isdigit()


def test_the_users_line_stands_beside_what_runs(open_page, scalars):
    page = open_page(scalars[0], mode="step", still=True)
    page.keyboard.press("ArrowRight")
    panel = page.locator("#panel")
    assert "return mg.tanh(d) * d + a" in panel.locator(".card .source").inner_text()
    assert panel.locator(".program .now code").inner_text() == "return mg.tanh(d) * d + a"


def test_workers_of_a_parallel_recording_run_side_by_side(open_page, dumps):
    document = dumps.residual(4)
    document["backward"] = dumps.backward(document, workers=2)
    for step in document["backward"]["steps"]:
        step["t1"] += 900_000  # each overlaps the next, on the other worker
    page = open_page(document, mode="step")
    page.evaluate("app.player.setAxis('time'); app.player.seek(2_300_000)")
    running = page.evaluate("app.player.moment().running.map(([step]) => step.worker)")
    assert sorted(running) == [0, 1]
    assert page.locator("#panel .card").count() == 2


@pytest.fixture(scope="module")
def parallel():
    """(dump, leaves) of a real backward of four branches in two threads."""
    chance = np.random.default_rng(0)
    leaves = {
        f"w{k}": mg.tensor(chance.normal(size=(60, 60)), requires_grad=True) for k in range(4)
    }
    x = chance.normal(size=(60, 60))
    with mg.record_backward(leaves) as rec:
        parts = [mg.tanh(x @ w) for w in leaves.values()]
        (sum(parts[1:], parts[0]) ** 2).sum().backward(engine="parallel", workers=2, min_work=0)
    return json.loads(json.dumps(rec.graph)), leaves


def test_a_real_parallel_recording_ends_with_the_engines_gradients(open_page, parallel):
    document, leaves = parallel
    page = open_page(document, mode="step")
    page.evaluate("app.player.setAxis('time')")
    page.keyboard.press("End")
    known, _ = shown_gradients(page)
    for name, tensor in leaves.items():
        assert known[name]["norm"] == pytest.approx(float(np.linalg.norm(tensor.grad.numpy())))
    pending = page.evaluate("graph.nodes.map((_, at) => app.player.recording.pending(at, 1e6))")
    assert not any(pending)


def test_lanes_of_a_real_parallel_recording_are_its_threads(open_page, parallel):
    document, _ = parallel
    workers = {step["worker"] for step in document["backward"]["steps"]}
    page = open_page(document, mode="step")
    assert set(page.evaluate("app.player.recording.lanes")) == workers
    colours = page.evaluate("[0, 1].map((lane) => app.player.flow.worker(lane))")
    assert colours[0] != colours[1]
    overlapping = page.evaluate(
        """app.player.recording.byLane.some((lane) => lane.some((step, k) =>
           k && step.from < lane[k - 1].till))"""
    )
    assert not overlapping  # within a lane one node runs at a time


@pytest.mark.parametrize("engine", ["serial", "parallel", "tape"])
def test_every_engines_recording_with_two_roots_plays_to_its_gradients(open_page, engine):
    w = mg.tensor(np.array([0.3, -0.2]), requires_grad=True)
    with mg.Tape(), mg.record_backward({"w": w}) as rec:
        h = mg.tanh(w)
        mg.backward([(h * w).sum(), h.sum()], engine=engine)
    page = open_page(json.loads(json.dumps(rec.graph)), mode="step")
    assert page.evaluate("graph.nodes.filter((node) => node.root).length") == 2
    page.keyboard.press("End")
    assert shown_gradients(page)[0]["w"]["values"] == w.grad.numpy().tolist()


def test_a_checkpointed_backward_plays_although_its_arrays_were_not_kept(open_page):
    w = mg.tensor(np.array([0.3, -0.2]), requires_grad=True)
    with mg.record_backward({"w": w}) as rec:
        mg.checkpoint(lambda h: mg.tanh(mg.tanh(h)), w * 2).sum().backward()
    page = open_page(json.loads(json.dumps(rec.graph)), mode="step")
    page.keyboard.press("End")
    assert shown_gradients(page)[0]["w"]["values"] == w.grad.numpy().tolist()


def test_the_address_brings_back_the_moment(open_page, scalars):
    page = open_page(scalars[0])
    page.locator("#step").click()
    page.evaluate("app.player.seek(2.5)")
    page.wait_for_timeout(350)
    page.reload()
    assert page.evaluate("app.stepping && app.player.at") == 2.5


def test_a_moving_gradient_is_painted_and_nothing_moves_where_motion_is_unwanted(
    open_page, scalars
):
    painted = "app.player.flow.root.toDataURL()"
    page = open_page(scalars[0], mode="step")
    page.evaluate("app.player.seek(1.6)")
    early = page.evaluate(painted)
    page.evaluate("app.player.seek(1.8)")
    assert page.evaluate(painted) != early
    page = open_page(scalars[0], mode="step", still=True)
    page.evaluate("app.player.play(); app.player.at = 1.6")
    assert page.evaluate("app.player.moment().running") == []


def test_folded_scopes_tell_how_much_of_them_is_done(open_page, dumps):
    page = open_page(dumps.convnet(), mode="step", depth=2)
    page.keyboard.press("End")
    assert page.evaluate("app.scene.boxes.filter((box) => box.kind === 'scope').length") == 4
    assert page.locator("#count").inner_text() == "15 of 15 steps done"


def test_an_old_recording_without_contributions_still_plays(open_page, dumps):
    page = open_page(dumps.convnet(), mode="step")
    page.keyboard.press("End")
    assert page.evaluate("app.player.recording.pending(0, 15)") == 0


def test_a_recording_that_makes_no_sense_does_no_harm(open_page, scalars):
    document = json.loads(json.dumps(scalars[0]))
    leaf, steps = document["nodes"][0]["id"], document["backward"]["steps"]
    steps[0]["sent"] = [{"producer": leaf, "output": 0, "slot": 9, "values": ["nan", 1e308]}] * 3
    steps[1].update(node=leaf, t0=0, t1=2**62, worker=2**62, sent=[])
    steps[2]["node"] = steps[3]["node"]
    page = open_page(document, mode="step")
    for at in (0.5, 1.5, 2.5, 6):
        page.evaluate(f"app.player.seek({at})")
    page.evaluate("app.player.setAxis('time'); app.player.seek(1e18)")


@pytest.mark.parametrize(
    "name", ["</script><script>document.title='owned'</script>", "<img src=x>"]
)
def test_hostile_names_and_lines_do_nothing(open_page, scalars, name):
    document = json.loads(json.dumps(scalars[0]))
    for node in document["nodes"]:
        site = {"file": name, "line": 3, "function": name, "text": name}
        node.update(name=name, op=node["op"] and name, formula=name, site=site)
    page = open_page(document, mode="step", still=True)
    for key in ("ArrowRight", "ArrowRight", "End"):
        page.keyboard.press(key)
    assert page.title() == "graph" and page.locator("img").count() == 0
    assert name in page.locator("#panel").inner_text()


def test_the_command_writes_the_page(dumps, save, viz, tmp_path):
    out = tmp_path / "step.html"
    assert viz("step", save(dumps.convnet()), "-o", out) == (0, "", "")
    assert '"mode":"step"' in out.read_text()


def test_a_dump_without_a_recorded_backward_says_how_to_record_one(dumps, save, viz, tmp_path):
    code, _, err = viz("step", save(dumps.tiny()), "-o", tmp_path / "step.html")
    assert code == 2 and "mg.record_backward()" in err and err.count("\n") == 1


def test_each_step_of_a_transformer_names_its_layer(open_page, recorded):
    document = recorded("encoder")
    page = open_page(document, depth=None, mode="step")
    scopes = {node["id"]: node["scope"] for node in document["nodes"]}
    for at, step in enumerate(document["backward"]["steps"][::20]):
        page.evaluate(f"app.player.seek({20 * at + 1})")
        scope = scopes[step["node"]]
        told = page.locator("#panel .card .scope").all_inner_texts()
        assert told == [scope.replace("/", " › ")] * bool(scope)
        assert scope.partition("/")[2] in page.locator("#status").inner_text()


def test_keys_go_from_layer_to_layer_and_to_the_next_sum(open_page, recorded):
    document = recorded("encoder")
    page = open_page(document, depth=None, mode="step")
    scopes = {node["id"]: node["scope"] for node in document["nodes"]}
    layers = [scopes[step["node"]].split("/")[1:2] for step in document["backward"]["steps"]]
    page.keyboard.press("]")
    assert layers[round(page.evaluate("app.player.at"))] == ["layers.11"]
    page.keyboard.press("]")
    at = round(page.evaluate("app.player.at"))
    assert layers[at] == ["layers.10"] and layers[at - 1] == ["layers.11"]
    page.keyboard.press("[")
    assert round(page.evaluate("app.player.at")) == layers.index(["layers.11"])
    page.keyboard.press("a")
    arrived = "app.player.recording.steps[Math.round(app.player.at) - 1].sent.map((p) => p.rank)"
    assert max(page.evaluate(arrived)) > 0
