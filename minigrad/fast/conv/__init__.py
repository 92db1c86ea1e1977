"""Forms of a convolution that are faster than columns of the whole batch: see forms.py."""

from . import forms, window_columns
