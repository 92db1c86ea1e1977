"""Fixtures of the viewer's tests: dumps made by hand, and the command run in this process."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from minigrad_viz.cli import main
from minigrad_viz.collapse import group_nodes
from minigrad_viz.page import page_text
from minigrad_viz.picture import picture_of
from minigrad_viz.reader import graph_from


def _load(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"viz_test_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_DUMPS = _load("dumps")


@pytest.fixture(scope="session")
def recorded():
    """recorded(name) -> the dump of a program in programs.py, made once."""
    programs, made = _load("programs"), {"large": _DUMPS.wide_random(40_000)}

    def dump(name):
        if name not in made:
            made[name] = getattr(programs, name)()
        return made[name]

    return dump


@pytest.fixture(scope="session")
def dumps():
    """The helpers that build dumps."""
    return _DUMPS


@pytest.fixture
def save(tmp_path):
    """save(document) -> the path of a dump file; a text or bytes is written as it is."""

    def write(document, name="graph.json"):
        path = tmp_path / name
        if isinstance(document, dict):
            document = json.dumps(document)
        path.write_bytes(document if isinstance(document, bytes) else document.encode())
        return path

    return write


@pytest.fixture
def viz(capsys):
    """viz(arguments...) -> (exit code, stdout, stderr)."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def picture():
    """picture(document, **how) -> the picture of a dump."""

    def build(document, title="graph", **how):
        graph = graph_from(document)
        return picture_of(graph, group_nodes(graph, **how), title)

    return build


@pytest.fixture
def no_dot(monkeypatch):
    """A PATH without any program."""
    monkeypatch.setenv("PATH", "")
    assert sys.executable  # found without PATH


@pytest.fixture(scope="session")
def contexts(browser):
    """contexts(dark, still) -> a browser context with these wishes; made once."""
    made = {}

    def context(dark, still):
        if (dark, still) not in made:
            scheme, motion = "dark" if dark else "light", "reduce" if still else "no-preference"
            made[dark, still] = browser.new_context(color_scheme=scheme, reduced_motion=motion)
        return made[dark, still]

    return context


@pytest.fixture
def open_page(browse, tmp_path):
    """open_page(document) -> the loaded page of a document; see `browse`.

    Every scope is open unless `depth` says otherwise; None leaves it to the page.
    """

    def load(document, dark=False, still=False, depth=0, size=None, **how):
        path = tmp_path / "graph.html"
        graph = graph_from(document) if isinstance(document, dict) else document
        path.write_text(page_text(graph, "graph", depth, **how))
        return browse(path, dark, still, size)

    return load


@pytest.fixture
def browse(contexts):
    """browse(path) -> the loaded page; fails at the end on any error or request."""
    pages, trouble = [], []

    def load(path, dark=False, still=False, size=None):
        page = contexts(dark, still).new_page()
        if size is not None:
            page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        pages.append(page)
        page.set_default_timeout(8_000)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", report_request)
        page.goto(path.as_uri())
        return page

    def report_request(request):
        if not (request.url.startswith("file:") and request.is_navigation_request()):
            trouble.append(request.url)

    yield load
    for page in pages:
        page.close()
    assert trouble == []
