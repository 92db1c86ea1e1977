"""The step-through in a lesson: numbers written out, steps compared, chapters, links, pictures."""

import io
import xml.etree.ElementTree as ET
import zipfile

import numpy as np
import pytest

import minigrad as mg


@pytest.fixture(scope="module")
def product():
    """y = Σ (a b)·a of two matrices of 2 × 2."""
    a = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = mg.tensor([[0.5, -1.0], [2.0, 1.0]], requires_grad=True)
    with mg.record_backward({"a": a, "b": b}) as record:
        c = record.names["c"] = a @ b
        (c * a).sum().backward()
    return record.graph


def seek(page, at):
    page.evaluate(f"app.player.seek({at})")


def saved(page, word, tmp_path):
    """The bytes that a button of the panel saves."""
    with page.expect_download() as download:
        page.locator(".deeds button", has_text=word).click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path.name, path.read_bytes()


def test_a_product_of_two_by_two_shows_its_entries(product, open_page):
    page = open_page(product, mode="step")
    seek(page, 2.7)
    tables = page.locator(".worked > div").all_inner_texts()
    entries = {words: cells.split() for words, cells in (one.split("\n", 1) for one in tables)}
    assert entries["a"] == ["1", "2", "3", "4"]
    assert entries["b"] == ["0.5", "−1", "2", "1"]
    assert entries["→ b"] == ["10", "14", "14", "20"]
    assert entries["added up at a"] == ["3", "5", "7", "11"]
    assert "value [[4.5, 1], [9.5, 1]]" in page.locator("#stage svg .line").all_text_contents()


def test_two_steps_are_compared_side_by_side(product, open_page):
    page = open_page(product, mode="step")
    seek(page, 1)
    page.keyboard.press("m")
    seek(page, 3)
    rows = [row.split("\t") for row in page.locator(".compared tr").all_inner_texts()]
    assert rows[:2] == [["step", "1", "3", ""], ["op", "sum", "matmul", ""]]
    size = np.sqrt(1 + 4 + 9 + 16)
    assert rows[3][1:3] == ["1", f"{size:.4g}"]
    page.keyboard.press("m")
    assert page.locator(".compared").count() == 0


def test_chapters_are_the_layers_of_the_model(recorded, open_page):
    page = open_page(recorded("encoder"), depth=None, mode="step")
    chapters = page.locator("#chapter option").all_text_contents()
    assert chapters == ["outside", *(f"layers.{layer}" for layer in range(11, -1, -1))]
    page.locator("#chapter").select_option(label="layers.4")
    page.keyboard.press("ArrowRight")
    page.evaluate("app.player.seek(app.player.goal ?? app.player.at)")
    assert page.locator("#status").inner_text().startswith("layers.4/")


def test_a_button_goes_to_the_next_sum_of_gradients(product, open_page):
    page = open_page(product, mode="step")
    page.locator("#sum").click()
    assert page.evaluate("app.player.at") == 3


def test_the_link_of_a_step_opens_there(product, open_page, browse, tmp_path):
    page = open_page(product, mode="step")
    seek(page, 2)
    page.evaluate("app.remember()")
    address = page.url.partition("#")[2]
    again = browse(tmp_path / "graph.html")
    again.goto(f"{again.url.partition('#')[0]}#{address}")
    again.reload()
    assert again.locator("#count").inner_text() == "2 of 3 steps done"


def test_a_step_is_saved_as_an_svg_of_its_own(product, open_page, tmp_path):
    page = open_page(product, mode="step")
    seek(page, 2.7)
    name, data = saved(page, "SVG", tmp_path)
    picture = ET.fromstring(data)
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert name == "graph-step-2.svg"
    assert {"c = matmul", "[[10, 14], [14, 20]]", "step 3 of 3 runs: matmul"} <= set(texts)
    assert b"var(" not in data and b"color-mix" not in data and b"class=" not in data


def test_the_whole_play_is_saved_as_numbered_frames(product, open_page, tmp_path):
    page = open_page(product, mode="step")
    name, data = saved(page, "Frames", tmp_path)
    assert name == "graph-frames.zip"
    with zipfile.ZipFile(io.BytesIO(data)) as frames:
        assert frames.testzip() is None
        assert frames.namelist() == [f"graph-{number}.svg" for number in range(5)]
        sizes = [ET.fromstring(frames.read(one)).get("viewBox") for one in frames.namelist()]
        last = frames.read("graph-4.svg").decode()
    assert len(set(sizes)) == 1
    assert "step 3 of 3 has run: matmul" in last


def test_hostile_names_are_text_in_saved_pictures(dumps, open_page, tmp_path):
    dump = dumps.Dump()
    bad = "<script>alert(1)</script>"
    x = dump.leaf((2,), name=bad, values=[1.0, 2.0])
    document = dump.done(dump.op("exp", (2,), x, scope=bad))
    document["backward"] = dumps.backward(document)
    page = open_page(document, mode="step")
    _, data = saved(page, "SVG", tmp_path)
    assert not list(ET.fromstring(data).iter("{http://www.w3.org/2000/svg}script"))
    assert b"&lt;script" in data
