"""Forms of normalisations that are quicker than NumPy's calls one after the other: see forms.py."""

from . import forms
