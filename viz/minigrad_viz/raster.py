"""Handing DOT to Graphviz: `dot` on PATH, else the one inside pygraphviz. Always in a separate
process with a time limit, because layouts of large graphs may take hours."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown

ENGINES = ("dot", "pygraphviz")
HINT = "install Graphviz, or `pip install pygraphviz` which brings its own"


class Missing(ViewerError):
    """There is no Graphviz to draw with."""


class TooSlow(ViewerError):
    """Graphviz did not finish in time."""


def find_engine(wanted: str = "auto") -> str:
    """The Graphviz to use: "dot" or "pygraphviz"; Missing if there is none such."""
    candidates = ENGINES if wanted not in ENGINES else (wanted,)
    for engine in candidates:
        if _present(engine):
            return engine
    raise Missing(f"no Graphviz found ({' or '.join(candidates)}); {HINT}")


def _present(engine: str) -> bool:
    if engine == "dot":
        return shutil.which("dot") is not None
    return importlib.util.find_spec("pygraphviz") is not None


def draw(dot: str, wanted: str, engine: str, placed: bool, time_limit: float) -> bytes:
    """`dot` drawn as "svg", "png" or "pdf". `placed`: the DOT holds all places, only draw it."""
    program = "nop2" if placed else "dot"
    try:
        done = subprocess.run(
            _command(engine, wanted, program),
            input=dot.encode("utf-8"),
            capture_output=True,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TooSlow(f"Graphviz did not finish in {time_limit:g} s") from None
    except OSError as error:
        raise ViewerError(f"Graphviz could not be started ({error.strerror})") from None
    if done.returncode != 0 or not done.stdout:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = shown(last, 160) or f"exit code {done.returncode}"
        raise ViewerError(f"Graphviz ({engine}) drew nothing: {why}")
    return done.stdout


def _command(engine: str, wanted: str, program: str) -> list[str]:
    if engine == "pygraphviz":
        script = str(Path(__file__).with_name("bundled.py"))
        # -P: the script's own folder must not shadow modules of the standard library.
        return [sys.executable, "-P", script, wanted, program]
    return ["dot", f"-K{program}", f"-T{wanted}"]
