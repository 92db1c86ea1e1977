"""Where the commands minigrad-profile and minigrad-gradcheck begin.

Outside of their packages, so that Ctrl-C while those load, which takes most of a second, ends a
command in one line as it does later.
"""

import importlib
import sys


def profile() -> int:
    """The command minigrad-profile; its exit code."""
    return _run("minigrad-profile", "minigrad_profiler.cli")


def gradcheck() -> int:
    """The command minigrad-gradcheck; its exit code."""
    return _run("minigrad-gradcheck", "minigrad.testing.cli")


def _run(command: str, module: str) -> int:
    try:
        main = importlib.import_module(module).main
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        return 130
    return main()
