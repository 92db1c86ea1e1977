"""What holds for all tests."""

import gc
import os
import shutil
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings

# Hypothesis fails an example that takes longer than 200 ms, which on a busy machine any may.
settings.register_profile("minigrad", deadline=None)
settings.load_profile("minigrad")


HERE = Path(__file__).parent
LAYERS = ("fast", "courtesy")  # what MINIGRAD_PLAIN=1 leaves out
PLAIN = os.environ.get("MINIGRAD_PLAIN", "0") not in ("", "0")


def pytest_addoption(parser):
    parser.addoption(
        "--plain", action="store_true", help="without minigrad/fast and minigrad/courtesy"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", 'layer(name): a test of "fast" or "courtesy", skipped by --plain'
    )
    config.addinivalue_line(
        "markers", "promise(text, ...): what a module of tests keeps: docs/design/promises.md"
    )


def pytest_cmdline_main(config):
    """Starts pytest again for --plain: its plugin of gradcheck has imported minigrad already."""
    if config.getoption("--plain") and not PLAIN:
        config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
        arguments = [sys.executable, "-m", "pytest", *config.invocation_params.args]
        os.execve(sys.executable, arguments, {**os.environ, "MINIGRAD_PLAIN": "1"})


def pytest_ignore_collect(collection_path):
    """Without a layer its folder of tests is not imported: that would install the layer."""
    parts = collection_path.relative_to(HERE).parts if collection_path.is_relative_to(HERE) else ()
    return True if PLAIN and parts[:1] in [(layer,) for layer in LAYERS] else None


def pytest_collection_modifyitems(items):
    """Tests in a layer's folder are of that layer; without it they are skipped."""
    for item in items:
        room = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
        if room in LAYERS:
            item.add_marker(pytest.mark.layer(room))
        marker = item.get_closest_marker("layer")
        if PLAIN and marker is not None:
            item.add_marker(pytest.mark.skip(reason=f"of the layer {marker.args[0]}/"))


def pytest_collection_finish():
    """Takes what is there by now out of the garbage collector's sight.

    That are half a million objects, pytest's record of each test above all, which live to the end:
    each collection of the oldest generation would look at all of them again, for 0.3 s.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """A module's generator begins anew with each test, by the test's name: its numbers are the same
    whichever tests ran before it in this process, so a failure comes again.
    """
    module = vars(item.module) if getattr(item, "module", None) else {}
    for name in ("rng", "RNG", "_rng"):
        if isinstance(module.get(name), np.random.Generator):
            module[name] = np.random.default_rng(crc32(item.nodeid.encode()))


def pytest_runtest_teardown(item):
    """In plain mode no test imports a layer: that would switch it on for all tests after it."""
    loaded = [layer for layer in LAYERS if f"minigrad.{layer}" in sys.modules]
    assert not (PLAIN and loaded), f"{loaded} imported in plain mode, by this test or one before it"


BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    """Chromium, one for all: a process can have Playwright running once at a time."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("no Chromium on PATH")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, headless=True, args=FLAGS)
        yield chromium
        chromium.close()
