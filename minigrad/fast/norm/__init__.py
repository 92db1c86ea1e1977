"""Forms of normalisations that are faster than a sequence of NumPy calls: see forms.py."""

from . import forms
