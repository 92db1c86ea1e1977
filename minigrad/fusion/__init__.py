"""Elementwise code in one pass: the same rules, run once on symbols, then without temporaries.

trace.py     symbols that record what a function does to one element; dtypes.py: in which dtypes
cuda.py      a recorded program as the source of one CUDA kernel
row_kernels.py, column_kernels.py    programs with sums along rows, and down columns
writes.py    code that writes into arrays (an optimizer's step) as one kernel
launch.py    compiled kernels, kept and run
rules.py     the rules of the calculus table as kernels, in a backward on a GPU
blocks.py    a recorded program on the host, block by block, on all cores
fuse.py      mg.fuse: a function as one op, its derivative worked out by the engine itself
"""

from .fuse import fuse

__all__ = ["fuse"]
