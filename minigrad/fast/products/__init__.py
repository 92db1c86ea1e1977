"""Matrix products by the fastest BLAS call for each shape.

forms.py      matmul and linear: dot or np.matmul, one thread or several, blocks, few rows
distances.py  distances of all pairs of rows: products where they are exact enough, else blocks
"""

from . import distances, forms
