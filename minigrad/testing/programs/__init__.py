"""Random programs: every engine, mode and nesting of transforms against each other.

A program is the source of a Python function: leaves, then one call a line. Each way of running it
(ways.py) must give what a plain backward gives: the same bits where the computation is the same,
to rounding where it is another, to finite differences where there is no rule. What disagrees is
cut down (shrink.py) to a few lines that still do.
"""

from .ways import compare

__all__ = ["compare"]
