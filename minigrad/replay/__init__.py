"""mg.compile: records a function's arithmetic once, and then replays it as one program.

First read awaited.py (a result that is not computed yet), calls.py (the comparison of calls) and
recording.py (the recording of a segment). Then read run.py (one call of the function), program.py
(the replay) and compile.py (the decorator).
"""

from .compile import compile

__all__ = ["compile"]
