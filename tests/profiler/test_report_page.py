"""The report in a real browser: it loads alone, sorts, finds, zooms, and is worked by keyboard."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from minigrad_profiler import compare
from minigrad_profiler.report import report_of
from minigrad_profiler.roofline import Peaks

import minigrad as mg

pytestmark = pytest.mark.promise(
    "the page makes no request and no console error; sorts, searches and zooms by keyboard"
)

PEAKS = Peaks(1e10, 5e9, 1e10)
HOSTILE = "</script><img src=x onerror=alert(1)>%%STYLE%% \u202e"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report with every section: memory, stacks, source, a comparison."""
    folder = tmp_path_factory.mktemp("report")
    log = str(folder / "run.jsonl")
    mg.manual_seed(0)
    model = mg.nn.Sequential(mg.nn.Linear(8, 32), mg.nn.Tanh(), mg.nn.Linear(32, 2))
    optimizer = mg.optim.Adam(model.parameters())
    x = mg.tensor(np.ones((16, 8), "float32"))
    with mg.event_log(log, memory=True, stack=3):
        for _ in range(3):
            optimizer.zero_grad()
            with mg.scope("loss"):
                loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
    found = compare((model(x) ** 2).mean(), repeats=1, workers=[2])
    found.save(str(folder / "compare.json"))
    found.save(str(folder / "compare.html"))
    path = folder / "report.html"
    path.write_text(report_of(log, PEAKS).page("a run", str(folder / "compare.json")))
    return path


@pytest.fixture
def opened(browser, made):
    """opened(path) -> the loaded page; fails at the end on any error, message or request."""
    contexts, trouble = [], []

    def load(path: Path = made, width=1200, dark=False):
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8_000)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: r.is_navigation_request() or trouble.append(r.url))
        page.goto(path.as_uri())
        return page

    yield load
    for context in contexts:
        context.close()
    assert trouble == []


def names(page):
    return page.locator("#table tbody tr td:first-child").all_inner_texts()


def window(page):
    return page.evaluate("[timeline.from, timeline.to]")


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_shows_every_section_and_asks_for_nothing(opened, dark):
    page = opened(dark=dark)
    titles = ["Summary", "Advice", "Tables", "Timeline", "Flame graph", "Memory", "Roofline",
              "Source", "Compare"]  # fmt: skip
    assert page.locator("nav a").all_inner_texts() == titles
    assert page.title() == "a run" and page.locator("h1").inner_text() == "a run"
    assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    assert page.locator("#facts").inner_text().count("events") == 1
    painted = """() => { const c = document.getElementById("chart");
        const p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(p.buffer)).size; }"""
    assert page.evaluate(painted) > 5


def test_a_click_sorts_and_another_turns_round(opened):
    page = opened()
    spent = page.evaluate("report.tables.op.rows.map(row => [row[1], row[0]])")
    page.locator("#table th button", has_text="calls").click()
    counts = [int(cell) for cell in page.locator("#table tbody td:nth-child(2)").all_inner_texts()]
    assert counts == sorted([calls for calls, _ in spent], reverse=True)
    assert page.locator("#table th").nth(1).get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")  # the title has the focus
    assert page.locator("#table th").nth(1).get_attribute("aria-sort") == "ascending"
    page.locator("#table th button").first.click()
    assert names(page) == sorted(names(page), key=str.lower)


def test_search_finds_rows_from_the_keyboard(opened):
    page = opened()
    page.keyboard.press("/")
    page.keyboard.type("LIN")
    assert names(page) == ["linear"] and page.locator("#found").inner_text() == "1 found"
    page.locator('#by [data-value="line"]').click()
    assert page.locator("#found").inner_text() == "0 found"
    assert "No row" in page.locator("#table").inner_text()
    page.locator("#search").fill("report_page")
    assert names(page) and all("report_page" in name for name in names(page))


def test_each_table_shows_its_rows(opened):
    page = opened()
    for by in ("op", "shape", "line", "scope", "thread"):
        page.locator(f'#by [data-value="{by}"]').click()
        count = page.evaluate("by => report.tables[by].rows.length", by)
        assert len(names(page)) == min(count, 20) and count
        more = page.locator("#table .more")
        if count > 20:
            more.click()
            assert len(names(page)) == count


def test_keys_wheel_and_buttons_zoom_the_timeline(opened):
    page = opened()
    whole = window(page)
    chart = page.locator("#chart")
    chart.scroll_into_view_if_needed()
    chart.focus()
    page.keyboard.press("+")
    nearer = window(page)
    assert nearer[1] - nearer[0] == pytest.approx((whole[1] - whole[0]) / 2)
    page.keyboard.press("ArrowRight")
    assert window(page)[0] > nearer[0]
    page.keyboard.press("0")
    assert window(page) == whole
    chart.hover(position={"x": 300, "y": 60})
    page.mouse.wheel(0, -300)
    page.wait_for_function("timeline.to - timeline.from < timeline.data.span * 0.9")
    page.locator("#whole").click()
    page.locator("#nearer").click()
    assert window(page)[1] - window(page)[0] == pytest.approx((whole[1] - whole[0]) / 2)
    for _ in range(60):
        page.locator("#nearer").click()
    assert window(page)[1] - window(page)[0] >= 200 - 1e-3


def test_a_drag_moves_and_a_shift_drag_sums_a_stretch(opened):
    page = opened()
    chart = page.locator("#chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 1, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 5, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    text = page.locator("#selected").inner_text()
    assert "selected" in text and "linear forward" in text and "linear backward" in text
    page.locator("#nearer").click()
    before = window(page)
    page.mouse.move(box["x"] + 300, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 5, steps=4)
    page.mouse.up()
    assert window(page)[0] > before[0]


def test_a_forward_bar_knows_its_backward(opened):
    page = opened()
    pairs = page.evaluate("""() => {
        const bars = timeline.model.lanes[0].bars.filter((bar) => bar.kind === "backward");
        return bars.map((bar) => { const other = partner(timeline.model, bar);
            return [bar.name, other && other.name, other && other.stop <= bar.start]; });
    }""")
    assert len(pairs) >= 12 and all(a == b and before for a, b, before in pairs)
    page.evaluate("""timeline.choose(timeline.model.lanes[0].bars.find((bar) =>
        bar.kind === "forward" && bar.name === "linear"))""")
    assert "its backward:" in page.locator("#selected").inner_text()
    page.locator("#arrows").click()
    assert page.locator("#arrows").get_attribute("aria-pressed") == "true"


def test_bars_that_enclose_others_stand_above_them(opened):
    page = opened()
    assert page.evaluate("""() => timeline.model.lanes.every((lane) => lane.bars.every((bar) =>
        lane.bars.every((other) => other === bar || bar.depth !== other.depth
            || other.stop <= bar.start || bar.stop <= other.start)))""")


def test_the_pointer_is_told_what_is_under_it(opened):
    page = opened()
    chart = page.locator("#chart")
    chart.scroll_into_view_if_needed()
    x, y = page.evaluate("""() => {
        const bar = timeline.model.lanes[0].bars.reduce((a, b) =>
            b.kind === "forward" && b.length > a.length ? b : a, {length: 0});
        const y = timeline.tops[0] + 18 + bar.depth * ROW + 8;
        return [timeline.x(bar.start + bar.length / 2), y];
    }""")
    chart.hover(position={"x": x, "y": y})
    assert "forward" in page.locator("#tip").inner_text()
    assert "test_report_page.py:" in page.locator("#tip").inner_text()


def test_the_flame_graph_opens_a_bar_and_returns(opened):
    page = opened()
    bars = page.locator("#flame-body button")
    count = bars.count()
    page.get_by_label("loss, ").first.click()
    assert page.locator("#flame-at").inner_text() == "loss" and bars.count() < count
    page.keyboard.press("Escape")
    assert bars.count() == count and page.locator("#flame-up").is_disabled()
    for by in ("line", "stack"):
        page.locator(f'#flame-by [data-value="{by}"]').click()
        assert bars.count() > 2


def test_a_line_leads_to_its_source_with_its_figures(opened):
    page = opened()
    page.locator('#by [data-value="line"]').click()
    page.locator("#table .place", has_text="test_report_page.py").first.click()
    shown = page.locator("#code .shown")
    assert shown.count() == 1
    assert "model(x) ** 2).mean()" in shown.inner_text() or "backward" in shown.inner_text()
    near = page.locator("#code .line").count()
    page.locator("#all-lines").click()
    assert page.locator("#code .line").count() > near


def test_memory_and_roofline_answer_pointer_and_keyboard(opened):
    page = opened()
    page.locator("#memory-chart svg").hover(position={"x": 400, "y": 100})
    assert "B" in page.locator("#tip").inner_text()
    page.locator("#waiting button.small").first.click()
    assert float(page.locator("#memory-chart .span").get_attribute("width")) >= 2
    points = page.locator("#roof .point")
    assert points.count() >= 4
    points.first.focus()
    assert "of the roof" in page.locator("#tip").inner_text()
    page.locator('#roof-by [data-value="line"]').click()
    assert "test_report_page.py" in (points.last.get_attribute("aria-label") or "")


def test_the_same_node_lights_up_in_every_compared_run(opened):
    page = opened()
    runs = page.evaluate("report.compare.runs.length")
    page.locator("#gantt [data-tip]").first.dispatch_event("pointermove", {"bubbles": True})
    assert page.locator("#gantt .lit").count() == runs > 1
    assert "same bits" in page.locator("#ways").inner_text()


def test_theme_and_sections_have_keys(opened):
    page = opened()
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("7")
    assert page.locator("#roofline").bounding_box()["y"] < 400


@pytest.mark.parametrize("width", [360, 700, 1600])
def test_nothing_is_wider_than_the_window(opened, width):
    page = opened(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_narrow_window_shows_the_texts_of_pictures_large_enough_to_read(opened):
    text = opened(width=390).locator("#memory-chart text").first
    assert text.bounding_box()["height"] > 10


def test_a_number_that_the_edge_cuts_fades_out_and_the_last_column_can_be_read_whole(opened):
    page = opened(width=420)
    scroller, last = (
        page.locator("#table .scroll"),
        page.locator("#table tbody td:last-child").first,
    )
    fade = "getComputedStyle(document.querySelector('#table .scroll'), '::after').position"
    assert page.evaluate(fade) == "sticky"
    scroller.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
    right = scroller.evaluate("one => one.getBoundingClientRect().right")
    assert last.evaluate("one => one.getBoundingClientRect().right") < right - 20


def test_a_point_that_nothing_bounds_is_told_from_the_ground_and_says_no_bound(opened):
    page = opened(dark=True)
    point = "{name: 'x', phase: 'forward', bound: '', self: 1, calls: 1, rate: 1e6, speed: 1e6, "
    page.evaluate(f"report.roofline.points.op.push({point}intensity: 1, roof: 0.1}})")
    page.evaluate("new RoofChart(report.roofline).start()")
    (label,) = [
        text
        for text in page.locator(".point").evaluate_all(
            "all => all.map(one => one.getAttribute('aria-label') + getComputedStyle(one).fill)"
        )
        if text.startswith("x forward")
    ]
    assert "10 % of the roof" in label and "bound" not in label and "rgb(0, 0, 0)" not in label


@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_of_a_comparison_fits_the_window_and_is_dark_where_asked(opened, made, width):
    page = opened(made.with_name("compare.html"), width=width, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(255, 255, 255)"


def test_paper_is_white_and_has_no_controls(opened):
    page = opened(dark=True)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    assert not page.locator("nav").is_visible() and not page.locator("#theme").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_hostile_texts_are_shown_and_do_nothing(opened, tmp_path):
    log = tmp_path / "bad.jsonl"
    with mg.event_log(log, memory=True), mg.scope(HOSTILE):
        (mg.ones(3, requires_grad=True) * 2).sum().backward()
    text = log.read_text().replace('"op":"mul"', f'"op":{json.dumps(HOSTILE)}')
    log.write_text(text.replace("MainThread", json.dumps(HOSTILE)[1:-1]))
    path = tmp_path / "bad.html"
    path.write_text(report_of(str(log), PEAKS).page(HOSTILE), encoding="utf-8")
    page = opened(path)
    assert page.locator("img").count() == 0 and page.locator("script").count() == 2
    assert any(name.startswith("</script><img") for name in names(page))
    page.locator('#by [data-value="scope"]').click()
    assert any("onerror" in name for name in names(page))


def test_an_empty_log_makes_a_page_too(opened, tmp_path):
    log = tmp_path / "empty.jsonl"
    with mg.event_log(log):
        pass
    path = tmp_path / "empty.html"
    path.write_text(report_of(str(log), PEAKS).page("empty"))
    page = opened(path)
    assert "Nothing stands out" in page.locator("#advice").inner_text()
    assert "Nothing was recorded" in page.locator("#table").inner_text()
    assert not page.locator("#memory").is_visible() and not page.locator("#source").is_visible()


def test_of_several_threads_the_page_says_whose_time_its_bar_divides(opened, made, tmp_path):
    log = tmp_path / "threads.jsonl"
    with mg.event_log(log):
        threads = [threading.Thread(target=lambda: mg.ones(3).sum()) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    path = tmp_path / "threads.html"
    path.write_text(report_of(str(log), PEAKS).page("threads"))
    said = "of the main thread"
    assert said in opened(path).locator("#parts").inner_text()
    assert said not in opened(made).locator("#parts").inner_text()
