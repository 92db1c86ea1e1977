"""Elementwise expressions: a function run once on symbols, and what its program is written as.

trace.py     symbols that record what a function does to one element; dtypes.py: in which dtypes
passes.py    what kernels and loops have in common: operators, needed steps, passes over a row
cuda.py      a recorded program as the source of one CUDA kernel
cuda_rows.py, cuda_columns.py    programs with sums along rows, and down columns
loops.py     a recorded program as the source of a loop, for numba
blocks.py    calls on the host, block by block, on all cores; a recorded program as such calls
"""
