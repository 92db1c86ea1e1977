"""Reductions over rows and channels, and running ones, with fewer starts of NumPy's loops.

forms.py    sums, means, extrema, spread and norms of rows, of channels, of squares by BLAS
running.py  running sums, products and recurrences: a step for all lines, long lines in pieces
"""

from . import forms, running
