"""Random programs: every engine, mode and nesting of transforms against each other.

A program is the source of a Python function: leaves, then one call a line. Each way of running it
(ways.py) must agree with a plain backward. The same computation must give the same bits; another
computation must agree to rounding; without a rule, finite differences must agree. A program that
disagrees is shrunk (shrink.py) to a few lines that still do.
"""

from .ways import compare

__all__ = ["compare"]
