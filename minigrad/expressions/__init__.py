"""Elementwise expressions: a function run once on symbols, and the forms of its program.

trace.py     symbols that record a function's work on one element; dtypes.py: the dtypes of the
steps
passes.py    the common part of kernels and loops: operators, needed steps, passes over a row
cuda.py      a recorded program as the source of one CUDA kernel
cuda_rows.py, cuda_columns.py    programs with sums along rows, and down columns
loops.py     a recorded program as the source of a loop, for numba
blocks.py    calls on the host, block by block, on all cores; a recorded program as such calls
"""
