"""Time and memory of the viewer: graphs of 100 to 100,000 nodes in every format.

    python benchmarks/viewer.py [--sizes 100 1000 10000 100000] [--formats svg html json]

Each drawing is a process of its own, as a user starts it: CPU seconds (user and system, with the
0.1 s that Python takes to start) and the largest resident memory. Still pictures draw every node
(--max-nodes 0) up to 10,000, and fold to the usual limit above. `--frames` measures how smoothly
a page of 10,000 nodes pans in Chromium (needs playwright).
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FORMATS = ("svg", "html", "json", "dot", "mmd", "png", "info")
VIEWER = Path(__file__).parent.parent / "viz"


def dump(count: int, reach: int = 20) -> dict:
    """A random graph: ops on recent results, a tenth parameters, scopes two levels deep.

    reach: how far back an op's inputs may lie, which sets how wide the graph is.
    """
    chance = np.random.default_rng(0)
    array = {"shape": [32, 32], "dtype": "float32", "bytes": 4096}
    nodes, edges, unused = [], [], [0]
    for at in range(count):
        kind = "leaf" if at == 0 else "parameter" if chance.random() < 0.1 else "op"
        kind = "op" if at == count - 1 else kind
        scope = f"part{at * 10 // count}/step{at * 100 // count % 10}" if kind == "op" else ""
        site = {"file": "train.py", "line": at % 97 + 1, "function": "forward"}
        nodes.append({
            "id": at, "kind": kind, "op": "matmul" if kind == "op" else None, "seq": at, **array,
            "device": "cpu", "scope": scope, "site": site if kind == "op" else None,
            "name": f"p{at}" if kind == "parameter" else None, "saved": [array], "params": {},
            "formula": "y = a b",
        })  # fmt: skip
        if kind != "op":
            unused.append(at)
            continue
        few = unused if at == count - 1 else unused[:1]  # the last op gathers what is left
        inputs = {*few, int(chance.integers(max(0, at - reach), at))}
        edges += [{"producer": p, "output": 0, "consumer": at, "slot": slot}
                  for slot, p in enumerate(sorted(inputs))]  # fmt: skip
        unused = [p for p in unused if p not in inputs] + [at]
        if len(unused) < reach // 4:
            unused.append(at)
    return {
        "format": "minigrad.graph", "version": [1, 0], "minigrad": "", "python": "", "numpy": "",
        "cupy": None, "device": "cpu", "clock": "perf_counter_ns", "nodes": nodes, "edges": edges,
        "roots": [count - 1], "backward": None,
    }  # fmt: skip


def draw(path: Path, wanted: str, size: int) -> tuple[float, float, int]:
    """(CPU seconds, largest memory in MB, bytes written) of one drawing."""
    out = path.with_suffix(f".out.{wanted}")
    command = [sys.executable, "-m", "minigrad_viz", "render", path, "-o", out]
    if wanted == "info":
        command = [sys.executable, "-m", "minigrad_viz", "info", path]
    elif wanted != "html":
        command += ["--max-nodes", "0" if size <= 10_000 else "2000"]
    environment = {**os.environ, "PYTHONPATH": str(VIEWER)}
    pid = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL).pid
    _, status, used = os.wait4(pid, 0)
    if status:
        return float("nan"), float("nan"), 0
    written = out.stat().st_size if out.exists() else 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, written


def frames(path: Path) -> str:
    """Milliseconds a frame while a page with every node open is dragged: median, 95 %, worst."""
    from playwright.sync_api import sync_playwright

    drag = """async () => {
      app.unfoldAll(); app.fit();
      const gaps = []; let last = 0;
      for (const zoom of [1, 8, 40]) {
        app.zoom(zoom);
        for (let k = 0; k < 60; k++) {
          const now = await new Promise(requestAnimationFrame);
          if (k > 5) gaps.push(now - last);
          last = now;
          app.move({ x: app.view.x + 12, y: app.view.y - 9 });
        }
      }
      gaps.sort((a, b) => a - b);
      const last_one = gaps.length - 1;
      return [0.5, 0.95, 1].map((p) => gaps[Math.floor(p * last_one)]);
    }"""
    with sync_playwright() as driver:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(path.with_suffix(".out.html").as_uri())
        median, most, worst = page.evaluate(drag)
        browser.close()
    return f"frames while panning: median {median:.1f} ms, 95 % {most:.1f} ms, worst {worst:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[100, 1_000, 10_000, 100_000],
        help="nodes of the graphs",
    )
    parser.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=FORMATS, help="which to draw"
    )
    parser.add_argument(
        "--frames", action="store_true", help="also how smoothly the page of 10,000 nodes moves"
    )
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        print("| nodes | " + " | ".join(options.formats) + " |")
        print("|---" * (len(options.formats) + 1) + "|")
        for size in options.sizes:
            path = Path(folder) / f"g{size}.json"
            path.write_text(json.dumps(dump(size), separators=(",", ":")))
            cells = []
            for wanted in options.formats:
                seconds, memory, written = draw(path, wanted, size)
                cells.append(f"{seconds:.2f} s, {memory:.0f} MB, {written / 1e6:.2g} MB")
            print(f"| {size:,} | " + " | ".join(cells) + " |", flush=True)
            if options.frames and size == 10_000 and "html" in options.formats:
                print(frames(path))


if __name__ == "__main__":
    main()
