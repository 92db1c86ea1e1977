"""The live view: drawn while a profile runs, and the program's own output left alone."""

import io
import time

import pytest
from minigrad_profiler.cli import main
from minigrad_profiler.live import live

import minigrad as mg

pytest.importorskip("rich")


def test_the_table_is_drawn_and_holds_the_rows():
    out = io.StringIO()
    with mg.profile(memory=True) as prof, live(prof, seconds=0.01, stream=out):
        mg.tanh(mg.ones(3))
        time.sleep(0.05)
    assert "tanh" in out.getvalue() and "1 call," in out.getvalue()


def test_an_exception_passes_and_leaves_no_thread():
    with pytest.raises(KeyError), mg.profile() as prof, live(prof, stream=io.StringIO()):
        raise KeyError
    import threading

    assert not [t for t in threading.enumerate() if t.name == "minigrad live view"]


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in ("run", "view", "memory", "roofline", "diff", "export"):
        assert name in text
