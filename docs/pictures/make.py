"""Makes the pictures of the viewer anew: `python docs/pictures/make.py [name ...]`.

Needs playwright with a Chromium on PATH, and Pillow for the animated one. Screenshots are of the
pages that `minigrad-viz` writes, at moments of the step-through that are set by hand.
"""

import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent, HERE.parent.parent, HERE.parent.parent / "viz"):
    sys.path.insert(0, str(folder))

import make_figures  # noqa: E402
import programs  # noqa: E402
from minigrad_viz.cli import main as viz  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

SIZE = {"width": 1400, "height": 900}
WORK = Path(tempfile.mkdtemp())


def dumped(name: str, record) -> str:
    """The dump of a recorded backward, with the names of files instead of this machine's paths."""
    graph = record.graph if hasattr(record, "graph") else record
    for node in graph["nodes"]:
        if node["site"]:
            node["site"]["file"] = Path(node["site"]["file"]).name
    path = WORK / f"{name}.json"
    path.write_text(json.dumps(graph))
    return str(path)


def page_of(dump: str, title: str, *options: str, step: bool = False) -> str:
    out = dump.replace(".json", ".html")
    code = viz(["step" if step else "render", dump, "-o", out, "--title", title, *options])
    assert code == 0, (dump, code)
    return Path(out).as_uri()


def opened(browser: Browser, url: str, theme: Any = "light", size: Any = SIZE) -> Page:
    page = browser.new_context(color_scheme=theme, viewport=size).new_page()
    page.on("pageerror", lambda error: sys.exit(f"{url}: {error}"))
    page.goto(url)
    page.wait_for_timeout(300)
    return page


def shot(page: Page, name: str, script: str = "0") -> None:
    page.evaluate(script)
    page.wait_for_timeout(700)
    page.screenshot(path=HERE / f"{name}.png")
    page.close()
    image = Image.open(HERE / f"{name}.png").convert("RGB")  # fewer colours, a third of the bytes
    image.quantize(200, dither=Image.Dither.NONE).save(HERE / f"{name}.png", optimize=True)


def step_through(browser: Browser) -> None:
    url = page_of(dumped("digits", programs.digits()), "Digits convnet: one backward", step=True)
    for name, theme in (("step-through", "light"), ("step-through-dark", "dark")):
        shot(opened(browser, url, theme), name, "app.player.seek(5.62)")


def parallel(browser: Browser) -> None:
    dump = dumped("branches", programs.branches())
    url = page_of(dump, "Four experts, two workers", step=True)
    moment = """(() => {
      const { recording } = app.player; app.player.setAxis("time");
      let best = 0, most = 0;
      for (let k = 1; k < 400; k++) {
        const at = recording.elapsed * k / 400, running = recording.running("time", at);
        const worth = running.length * 10 + (running.length > 1 && k > 150 && k < 260 ? 5 : 0);
        if (worth > most) { most = worth; best = at; }
      }
      app.player.follows = false; app.player.seek(best); app.fit();
    })()"""
    shot(opened(browser, url), "parallel", moment)
    shot(opened(browser, url, "dark"), "parallel-dark", moment)


def transformer(browser: Browser) -> None:
    dump = dumped("transformer", programs.transformer())
    url = page_of(dump, "A transformer block", "--heat", "time", "--critical")
    look = """app.unfoldAll(); app.choose(graph.nodes.findIndex((n) => n.op === "softmax"));
      app.centre(app.scene.boxes[app.scene.boxOf[app.chosen]]); app.zoom(1.15)"""
    for name, theme in (("transformer", "light"), ("transformer-dark", "dark")):
        shot(opened(browser, url, theme), name, look)


def kernels(browser: Browser) -> None:
    programs.compiled_step(str(WORK / "step.json"))
    dump = dumped("kernels", json.loads((WORK / "step.json").read_text()))
    url = page_of(dump, "A compiled step: its fused kernels")
    page = opened(browser, url, size={"width": 1150, "height": 1600})
    shot(page, "kernels", "app.unfoldAll(); app.fit()")


def large(browser: Browser) -> None:
    sys.path.insert(0, str(HERE.parent.parent / "benchmarks"))
    import viewer

    url = page_of(dumped("large", viewer.dump(10_000, reach=400)), "A random graph of 10,000 nodes")
    look = """app.unfoldAll(); app.fit(); $("heat").value = "scope";
      $("heat").dispatchEvent(new Event("change"))"""
    shot(opened(browser, url, "dark"), "large", look)
    shot(opened(browser, url), "large-folded", "app.fit()")


def checks(browser: Browser) -> None:
    dump = dumped("checks", programs.wrong_rule())
    url = page_of(dump, "A rule that forgets a factor")
    look = 'app.choose(graph.nodes.findIndex((n) => n.op === "Swish"))'
    shot(opened(browser, url, size={"width": 1100, "height": 760}), "checks", look)


def still(browser: Browser) -> None:
    """Pictures without a browser."""
    scalars, digits = dumped("scalars", programs.scalars()), dumped("digits", programs.digits())
    deep = dumped("deep", programs.transformer(6))
    draw = [
        [scalars, "scalars.svg", "--title", "loss = tanh(d) d + a, d = a b + c"],
        [digits, "convnet.svg", "--title", "Digits convnet", "--heat", "flops"],
        [scalars, "backward.svg", "--title", "its backward", "--backward"],
        [deep, "repeats.svg", "--title", "Six blocks", "--fold-repeats"],
    ]
    for dump, name, *options in draw:
        assert viz([dump, "-o", str(HERE / name), *options]) == 0
    before: Any = programs.digits().graph
    after: Any = programs.digits(skip=False).graph
    before["backward"] = after["backward"] = None  # the times of two single runs say little
    pair = dumped("with skip", before), dumped("without", after)
    assert viz(["diff", *pair, "-o", str(HERE / "diff.svg")]) == 1


def recorded(name: str) -> tuple[str, str]:
    """The dump of the graph, and the log with memory, of a program that a page shows."""
    program, dump, log = (WORK / f"{name}.{end}" for end in ("py", "json", "jsonl"))
    program.write_text(make_figures.programs()[f"{name}.py"], encoding="utf-8")
    environment = make_figures.environment() | {"MINIGRAD_GRAPH_OUT": str(dump)}
    subprocess.run([sys.executable, program.name], cwd=WORK, env=environment, check=True)
    del environment["MINIGRAD_GRAPH_OUT"]
    run = ["minigrad-profile", "run", "--memory", "-o", log.name, program.name]
    subprocess.run(run, cwd=WORK, env=environment, check=True)
    page = ["minigrad-profile", "report", log.name, "-o", f"{name}-report.html"]
    subprocess.run(page, cwd=WORK, env=environment, check=True)
    return dumped(name, json.loads(dump.read_text(encoding="utf-8"))), f"{name}-report.html"


def part(browser: Browser, url: str, name: str, sections: list[str], script: str = "0") -> None:
    """Sections of a report, in light and dark: those from the first to the last of the list."""
    for end, theme in (("", "light"), ("-dark", "dark")):
        page = opened(browser, url, theme, {"width": 1100, "height": 900})
        keep = "".join(f":not(#{s})" for s in sections)
        page.add_style_tag(content=f"section{keep} {{ display: none !important }}")
        page.evaluate(script)
        page.wait_for_timeout(500)
        shown = f"document.getElementById('{sections[-1]}')"
        height = page.evaluate(f"Math.ceil({shown}.getBoundingClientRect().bottom) + 20")
        page.set_viewport_size({"width": 1100, "height": height})
        shot(page, f"{name}{end}")


def first(browser: Browser) -> None:
    """The pictures of the first lesson."""
    dump, report = recorded("first")
    assert viz([dump, "-o", str(HERE / "first.svg"), "--title", "first.py"]) == 0
    url = page_of(dump, "first.py: one backward", step=True)
    moment = "app.player.follows = false; app.fit(); app.player.seek(8.55)"
    for name, theme in (("first-step", "light"), ("first-step-dark", "dark")):
        shot(opened(browser, url, theme, {"width": 1200, "height": 850}), name, moment)
    url = (WORK / report).as_uri()
    part(browser, url, "first-report", ["summary", "advice", "tables"])
    part(browser, url, "first-memory", ["memory"])


def report(browser: Browser) -> None:
    """The report of tutorials/slow.py: what it begins with, and its timeline, flames and memory."""
    _, page = recorded("slow")
    url = (WORK / page).as_uri()
    part(browser, url, "report", ["summary", "advice", "tables"])
    part(browser, url, "report-time", ["timeline", "flame", "memory"])


def animated(browser: Browser) -> None:
    """backward.gif: the scalar program's backward from the seed to the last gradient."""
    url = page_of(dumped("scalars", programs.scalars()), "Backward, step by step", step=True)
    page = opened(browser, url, size={"width": 960, "height": 880})
    hidden = "header .tools, #panel > h3:last-of-type, #panel > dl:last-child { display: none }"
    page.add_style_tag(content=hidden)
    page.evaluate("app.player.follows = false; app.fit()")
    frames, length = [], page.evaluate("app.player.end()")
    positions = [k / 14 for k in range(int(length * 14) + 1)]
    for at in positions:
        page.evaluate(f"Object.assign(app.player, {{ playing: true, at: {at} }}).refresh()")
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    some = [frames[len(frames) * k // 4] for k in range(1, 4)]  # one palette for all frames
    sheet = Image.new("RGB", (some[0].width * len(some), some[0].height))
    for k, frame in enumerate(some):
        sheet.paste(frame, (k * frame.width, 0))
    palette = sheet.quantize(200)
    frames = [frame.quantize(200, palette=palette, dither=Image.Dither.NONE) for frame in frames]
    waits = [900] + [70] * (len(frames) - 2) + [2600]
    out, how = HERE / "backward.gif", {"loop": 0, "optimize": True}
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=waits, **how)
    page.close()
    assert out.stat().st_size < 2_000_000, out.stat().st_size


PICTURES = {
    "step-through": step_through, "parallel": parallel, "transformer": transformer, "large": large,
    "kernels": kernels, "checks": checks, "animated": animated, "still": still, "first": first,
    "report": report,
}  # fmt: skip


def main() -> None:
    with sync_playwright() as driver:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](browser)
        browser.close()
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
