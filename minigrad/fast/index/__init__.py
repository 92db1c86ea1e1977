"""Reads by index, and sums at an index.

forms.py           the forms that replace the references
rows.py            sums of rows: a sparse product, or np.add.at on flat indices
along.py           reads and sums along an axis by one flat index, in blocks
weighted_reads.py  a few weighted pixels for each result, all channels of a pixel side by side
"""

from . import forms, weighted_reads
