"""Elementwise code in one pass: the same rules, run once on symbols, then without temporaries.

expressions/ has the symbols, and the sources written from them.

writes.py    code that writes into arrays (an optimizer's step) as one kernel
launch.py    compiled kernels, kept and run
rules.py     the rules of the calculus table as kernels, in a backward on a GPU
fuse.py      mg.fuse: a function as one op, its derivative worked out by the engine itself
"""

from .fuse import fuse

__all__ = ["fuse"]
