"""Matrix products as BLAS computes them soonest, for each shape.

forms.py      matmul and linear: dot or np.matmul, one thread or several, blocks, few rows
distances.py  distances of all pairs of rows: products where these have the digits, else blocks
"""

from . import distances, forms
