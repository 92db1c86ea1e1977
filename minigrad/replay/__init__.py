"""mg.compile: a function's arithmetic is recorded once and then replayed as one program.

Read awaited.py (a result that is not computed yet), calls.py (the comparison of calls) and
recording.py (how a segment of a call is recorded). Then read run.py (one call of the function),
program.py (the replay) and compile.py (the decorator).
"""

from .compile import compile

__all__ = ["compile"]
