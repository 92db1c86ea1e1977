"""Matrix products as BLAS computes them soonest, for each shape.

forms.py    matmul and linear: dot or np.matmul, one thread or several, blocks, few rows
"""

from . import forms
