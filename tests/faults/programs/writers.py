"""Everything that writes files, one version after another: shared by the tests of this folder.

A writer is (write(folder, i), read(folder) -> i, names of the files that a write leaves). What is
read must be of one version, whole; anything else is an error.
"""

import contextlib
import io
import json
import os

import numpy as np
from minigrad_profiler.cli import main as profile
from minigrad_viz.cli import main as viz

import minigrad as mg

SIZE = 20_000
mg.distributed.init()


def quietly(main, *arguments):
    """A command run here; OSError or KeyboardInterrupt for the exit codes that mean these."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        code = main([str(argument) for argument in arguments])
    if code == 130:
        raise KeyboardInterrupt
    if code:
        raise OSError(said.getvalue())


def state(i):
    return {"a": np.full(SIZE, i), "b": {"c": [np.full(3, i)], "i": i}}


def of_state(found):
    (i,) = {*found["a"].tolist(), *found["b"]["c"][0].tolist(), found["b"]["i"]}
    return i


def log(folder, i):
    """An event log of i + 1 ops, in 40 lines each."""
    with mg.event_log(os.path.join(folder, "x.jsonl"), memory=True):
        x = mg.ones(3, requires_grad=True)
        for _ in range(i + 1):
            x = x * 1.0


def of_log(folder):
    with mg.instrument.formats.EventReader(os.path.join(folder, "x.jsonl")) as reader:
        assert len(list(reader)) == reader.events
    return None  # a log that is interrupted is whole, of fewer ops


def graph(folder, i):
    x = mg.ones(3, requires_grad=True)
    for _ in range(i + 1):
        x = x * 1.0
    mg.dump_graph(x, os.path.join(folder, "x.json"))


def of_graph(folder):
    document = mg.instrument.formats.read_graph(os.path.join(folder, "x.json"))
    return len(document["edges"]) - 1


def drawing(folder, i):
    quietly(
        viz,
        os.path.join(SOURCES, "x.json"),
        "--title",
        f"version {i};",
        "-o",
        os.path.join(folder, "x.html"),
    )


def report(folder, i):
    log, out = os.path.join(SOURCES, "x.jsonl"), os.path.join(folder, "x.html")
    quietly(profile, "report", log, "--title", f"version {i};", "-o", out)


def of_page(folder):
    text = open(os.path.join(folder, "x.html")).read()
    assert text.rstrip().endswith("</html>")
    return int(text.split("version ")[1].split(";")[0])


def trace(folder, i):
    log = os.path.join(SOURCES, "x.jsonl")
    quietly(profile, "export", log, "--chrome", os.path.join(folder, "x.json"))


def of_trace(folder):
    json.load(open(os.path.join(folder, "x.json")))
    return None


def checkpoint(folder, i):
    mg.distributed.save_checkpoint(folder, i, state(i), {"m": np.full(3, i)}, keep=1)


def of_checkpoint(folder):
    step, shared, (shard,) = mg.distributed.load_checkpoint(folder)
    assert {of_state(shared), *shard["m"].tolist()} == {step}
    return step


def saved(suffix):
    name = f"x{suffix}"
    return (
        lambda folder, i: mg.save(state(i), os.path.join(folder, name)),
        lambda folder: of_state(mg.load(os.path.join(folder, name))),
        [name],
    )


WRITERS = {
    "npz": saved(".npz"),
    "safetensors": saved(".safetensors"),
    "checkpoint": (checkpoint, of_checkpoint, None),
    "log": (log, of_log, ["x.jsonl"]),
    "graph": (graph, of_graph, ["x.json"]),
    "drawing": (drawing, of_page, ["x.html"]),
    "report": (report, of_page, ["x.html"]),
    "trace": (trace, of_trace, ["x.json"]),
}
SOURCES = ""


def prepared(folder):
    """Writes what pages are made of."""
    global SOURCES
    SOURCES = folder
    log(folder, 30)
    graph(folder, 30)


def check_names(folder, names):
    """Nothing but these files is there; parts of a checkpoint have their own names."""
    found = sorted(os.listdir(folder))
    if names is not None:
        assert found == names, found
    for _, _, files in os.walk(folder):
        left = [n for n in files if n.startswith(".x") or n.endswith((".partial", ".part"))]
        assert left == []
