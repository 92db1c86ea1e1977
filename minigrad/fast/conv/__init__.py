"""Forms of a convolution that are quicker than columns of the whole batch: see forms.py."""

from . import forms, window_columns
