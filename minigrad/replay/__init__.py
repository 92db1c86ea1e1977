"""mg.compile: a function's arithmetic is recorded once and then replayed as one program.

Read awaited.py (a result that is not computed yet), calls.py (what is compared from call to call),
recording.py (how a segment of a call is recorded), run.py (one call of the function), program.py
(what is replayed), compile.py (the decorator).
"""

from .compile import compile

__all__ = ["compile"]
